"""Attention, from the products, masks and softmax that exporters write, in any layout of its axes.

The composite gives zeros for a row in which everything is hidden, where a softmax gives NaN. So a mask must be known
to be finite, or to leave something in every row, or the NaN must be made 0 by the model itself; then NaN in the
queries, keys and values are seen as NaN, which such a model hides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from string import ascii_letters

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.makers import made_by, splat_of, unbroadcast
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import axis_groups, moved_axes
from onnxc.compiler.passes.notes import note_refusal
from onnxc.compiler.passes.recognize.attention_scores import Mask, Scores, is_causal, is_harmless, scores_of
from onnxc.compiler.passes.recognize.product_axes import with_split_axes
from onnxc.runtime.records import record


def recognize_attention(module: Module) -> Module:
    """Makes one op of each attention."""
    return rewrite(module, [weigh_values], note_refusal)


@record
class _Tensor:
    """A value, and the letter of each of its axes."""

    value: Value
    letters: str

    def lacks(self, letters: str) -> bool:
        return not set(letters) & set(self.letters)


@record
class _Parts:
    """The operands in the letters of one einsum, and what each letter stands for.

    `scores` are the letters of the scores in order, `result` those of the whole. Letters of the batch and the heads
    belong to the scores, besides that of the row and that of the column; k and v have a width each.
    """

    q: _Tensor
    k: _Tensor
    v: _Tensor
    scores: str
    result: str
    batch: str
    heads: str
    row: str
    column: str
    width: str
    value_width: str
    sizes: Mapping[str, Dim]


@rule("dot")
def weigh_values(op: Op, build: Rewriter) -> Value | Refusal | None:
    """dot(softmax(scale * dot(q, k) + mask), v) = attention(q, k, v, mask)"""
    for side in (0, 1):
        weights = _before_merging(op.operands[side])
        scores = scores_of(weights, build)
        if isinstance(scores, Refusal):
            return scores
        if scores is not None:
            product = op if weights is op.operands[side] else with_split_axes(op, side, weights.shape, build)
            parts = None if product is None else _parts(product, side, scores)
            if parts is None or isinstance(parts, Refusal):
                return parts
            fused = _fused(scores, parts, build)
            return fused if isinstance(fused, Refusal) else build.with_shape(fused, op.result.shape)
    return None


def _before_merging(weights: Value) -> Value:
    """Weights before their batch and heads are one axis."""
    merged = made_by(weights, "reshape")
    return weights if merged is None or merged.operands[0].rank < weights.rank else merged.operands[0]


# Which letter is what


def _parts(op: Op, side: int, scores: Scores) -> _Parts | Refusal | None:
    """The parts, where the two products are those of an attention."""
    a, b, letters = parse_equation(scores.product.text("equation"))
    outer = parse_equation(op.text("equation"))
    names = _common_names(outer[side], letters, "".join(outer))
    v = _Tensor(op.operands[1 - side], "".join(names[letter] for letter in outer[1 - side]))
    result = "".join(names[letter] for letter in outer[2])
    column = letters[scores.axis]
    sides = [_Tensor(value, term) for value, term in zip(scores.product.operands, (a, b), strict=True)]
    if sides[0].lacks(column) == sides[1].lacks(column):
        return None
    q, k = sides if sides[0].lacks(column) else reversed(sides)
    widths = (set(q.letters) | set(k.letters)) - set(letters)
    value_widths = set(v.letters) - set(letters)
    rows = [letter for letter in letters if letter in q.letters and letter not in k.letters + v.letters]
    if len(widths) != 1 or len(value_widths) != 1 or not rows or column not in v.letters:
        return None
    (width,), (value_width,) = widths, value_widths
    if set(result) != (set(letters) - {column}) | {value_width} or not {width} <= set(q.letters) & set(k.letters):
        return None
    if len({value.dtype for value in (q.value, k.value, v.value)} | {op.dtype(), scores.product.dtype()}) != 1:
        return Refusal("queries, keys, values and products are not of one element type")
    sizes = {
        letter: size for tensor in (q, k, v) for letter, size in zip(tensor.letters, tensor.value.shape, strict=True)
    }
    rest = "".join(letter for letter in letters if letter not in (column, rows[-1]))
    heads = _heads(rest, k.letters + v.letters, sizes)
    if any(letter not in k.letters + v.letters for letter in rest if letter != heads):
        return Refusal("the keys and values are shared by the whole batch")
    batch = "".join(letter for letter in rest if letter != heads)
    return _Parts(q, k, v, letters, result, batch, heads, rows[-1], column, width, value_width, sizes)


def _common_names(weights: str, scores: str, used: str) -> dict[str, str]:
    """For each letter of the outer product, its name in the letters of the inner one, or a new one."""
    free = (letter for letter in ascii_letters if letter not in scores + used)
    names = dict(zip(weights, scores, strict=True))
    return {
        letter: names[letter] if letter in names else next(free) for letter in dict.fromkeys(used) if letter.isalpha()
    }


def _heads(rest: str, shared: str, sizes: Mapping[str, Dim]) -> str:
    """The letter of the heads: one that neither keys nor values have, else the last of several; of known size."""
    own = [letter for letter in rest if letter not in shared]
    candidates = own[-1:] or (list(rest[-1:]) if len(rest) > 1 else [])
    return next((letter for letter in candidates if isinstance(sizes[letter], int) and sizes[letter] != 0), "")


# The new op


def _fused(scores: Scores, parts: _Parts, build: Rewriter) -> Value | Refusal:
    bounds = build.symbols.ranges
    row, column = parts.scores.index(parts.row), parts.scores.index(parts.column)
    causal = len(scores.masks) == 1 and is_causal(scores.masks[0].value, row, column)
    masks: tuple[Mask, ...] = () if causal else scores.masks
    (q, first), (k, second) = _unscaled(parts.q), _unscaled(parts.k)
    scale = scores.scale * first * second
    if not scale >= 0:
        return Refusal("the scale is negative")
    if not scores.guarded and not is_harmless(masks, column, bounds):
        return Refusal("the mask may hide a whole row, which is NaN in the model")
    q4 = _arranged(q, (parts.batch, parts.heads, parts.row, parts.width), parts.sizes, build)
    k4, v4 = _keys_and_values(k, parts, build)
    mask = _mask([mask.value for mask in masks], parts, build)
    fused = build.attention(q4, k4, v4, mask, float(scale), causal, float(scores.softcap))
    order = parts.batch + parts.heads + parts.row + parts.value_width
    split = build.with_shape(fused, [parts.sizes[letter] for letter in order])
    return build.transpose(split, [order.index(letter) for letter in parts.result])


def _unscaled(tensor: _Tensor) -> tuple[_Tensor, float]:
    """What the tensor is a multiple of, and how many times."""
    factor = 1.0
    while (op := made_by((inner := _without_units(tensor)).value, "mul", "div")) is not None:
        splat = splat_of(op.operands[1])
        if not splat:
            break
        factor = factor * splat if op.name == "mul" else factor / splat
        tensor = replace(inner, value=op.operands[0])
    return tensor, factor


def _without_units(tensor: _Tensor) -> _Tensor:
    """The tensor below a reshape that only adds axes of one element, whose letters it lacks then."""
    widened = made_by(tensor.value, "reshape")
    if widened is None or 1 in widened.operands[0].shape:
        return tensor
    axes = moved_axes(widened.operands[0].shape, tensor.value.shape)
    if axes is None:
        return tensor
    return _Tensor(widened.operands[0], "".join(tensor.letters[axes[axis]] for axis in range(len(axes))))


def _keys_and_values(k: _Tensor, parts: _Parts, build: Builder) -> tuple[Value, Value]:
    """k and v with one axis for the heads, or for fewer groups of them that the model repeats."""
    groups = [_groups(tensor, parts.heads, build) for tensor in (k, parts.v)]
    sizes = dict(parts.sizes)
    v = parts.v
    if groups[0] is not None and groups[1] is not None and groups[0][1] == groups[1][1]:
        (k, sizes[parts.heads]), (v, _) = groups[0], groups[1]
    heads = parts.heads if not (k.lacks(parts.heads) and v.lacks(parts.heads)) else ""
    return (
        _arranged(k, (parts.batch, heads, parts.column, parts.width), sizes, build),
        _arranged(v, (parts.batch, heads, parts.column, parts.value_width), sizes, build),
    )


def _groups(tensor: _Tensor, heads: str, build: Builder) -> tuple[_Tensor, Dim] | None:
    """The tensor without the repetition of each group for its heads, and the number of groups.

    reshape(broadcast(x: [B, G, 1, T, D] to [B, G, H/G, T, D])): [B, H, T, D] gives x as [B, G, T, D].
    """
    tensor = _without_units(tensor)
    moved = made_by(tensor.value, "transpose")
    if moved is not None:
        letters = dict(zip(moved.ints("permutation"), tensor.letters, strict=True))
        tensor = _Tensor(moved.operands[0], "".join(letters[axis] for axis in range(len(letters))))
    merged = made_by(tensor.value, "reshape")
    spread = None if merged is None else made_by(merged.operands[0], "broadcast")
    if spread is None or not heads or heads not in tensor.letters:
        return None
    heads_axis, shape = tensor.letters.index(heads), spread.result.shape
    runs = {after: before for before, after in axis_groups(shape, tensor.value.shape) or ()}
    if len(runs.get((heads_axis,), ())) != 2 or sum(map(len, runs.values())) != len(runs) + 1:
        return None
    group, repeated = runs[heads_axis,]
    x, axes = unbroadcast(spread.result)
    own = [(axis, size) for axis, size in zip(axes, x.shape, strict=True) if size != 1]
    if any(axis == repeated for axis, _ in own) or all(axis != group for axis, _ in own):
        return None
    targets = {before[0]: after[0] for after, before in runs.items()}
    smaller = (*tensor.value.shape[:heads_axis], shape[group], *tensor.value.shape[heads_axis + 1 :])
    dense = build.with_shape(x, [size for _, size in own])
    return replace(tensor, value=build.broadcast(dense, [targets[axis] for axis, _ in own], smaller)), shape[group]


def _arranged(tensor: _Tensor, groups: Sequence[str], sizes: Mapping[str, Dim], build: Builder) -> Value:
    """The tensor with one axis for each group of letters; it repeats along letters that it lacks."""
    order = "".join(groups)
    present = [letter for letter in order if letter in tensor.letters]
    moved = build.transpose(tensor.value, [tensor.letters.index(letter) for letter in present])
    whole = build.broadcast(moved, [order.index(letter) for letter in present], [sizes[letter] for letter in order])
    return build.with_shape(whole, [product(sizes[letter] for letter in group) for group in groups])


def _mask(masks: Sequence[Value], parts: _Parts, build: Builder) -> Value | None:
    """All masks in one, [B or 1, H or 1, S, T]."""
    total: Value | None = None
    for mask in masks:
        source, axes = unbroadcast(mask)
        own = [(parts.scores[axis], size) for axis, size in zip(axes, source.shape, strict=True) if size != 1]
        dense = _Tensor(build.with_shape(source, [size for _, size in own]), "".join(letter for letter, _ in own))
        groups = ["" if dense.lacks(group) else group for group in (parts.batch, parts.heads)]
        arranged = _arranged(dense, (*groups, parts.row, parts.column), parts.sizes, build)
        total = arranged if total is None else build.add(total, arranged)
    return total
