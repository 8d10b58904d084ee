"""Operands of a node that held sizes which the options override, with the new sizes in their place.

One rule for each operator that takes sizes or wants equal ones: it compares the node with itself in the graph as
declared. A rule changes what certainly followed from an overridden size, and refuses what may have.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.frontend.case_split import CaseKey
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.overriding.as_declared import AsDeclared
from onnxc.compiler.frontend.overriding.batched_indices import gathered, gathered_by_tuples, scattered
from onnxc.compiler.frontend.overriding.held_sizes import Held, HeldSize, MisplacedBatch, grows_by
from onnxc.compiler.frontend.overriding.renewal import Operands, Renewal, ShapePair, shape_pair
from onnxc.compiler.frontend.overriding.repeated_batches import repeated_for_batch
from onnxc.compiler.frontend.overriding.reshaped_sizes import renewed_target
from onnxc.compiler.frontend.overriding.size_ratios import ratio_of, scaled
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.known_elements import partly_known
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType, type_symbols

__all__ = ["expect_batch_kept", "list_of_sizes", "renewed_operands"]


def renewed_operands(node: GraphNode, operands: Operands, before: AsDeclared, key: CaseKey, ir: Builder) -> Operands:
    """The operands of the node, renewed where they held sizes that are overridden.

    Raises ModelError where they may have, and what is meant now cannot be told.
    """
    rule = _RULES.get(node.operator) if not node.domain else None
    if rule is None or key not in before.operands:
        return operands
    return rule(_renewal(node, operands, before, key, ir))


def expect_batch_kept(
    node: GraphNode, operands: Operands, made: Operands, before: AsDeclared, key: CaseKey, ir: Builder
) -> None:
    """Notes which overridden sizes the results hold; ModelError where the node lost a batch, or mixed it up.

    What has no batch as it had none, though an operand has one now, had a constant that was meant for one. Operators
    that fold axes, or look at shapes, may end a batch.
    """
    if key not in before.operands:
        return
    at = _renewal(node, operands, before, key, ir)
    try:
        _note_held(at, made)
    except MisplacedBatch:
        at.refuse(f"{node.operator} brings axes together in which the batch lies differently")
    if node.operator.startswith(_FOLDING):
        return
    batches = [at.batch(index, axis) for index in range(len(operands)) for axis in at.changed(index)]
    types = [None if value is None else value.type for value in made]
    were = [None if result is None else result.type for result in at.results]
    if any(batch is not None for batch in batches) and types == were and not _asks_data(operands, made):
        at.refuse(f"{node.operator} gives {', '.join(map(str, types))} for a batch as it did for one")
    for was, value in zip(were, made, strict=False):
        if value is not None and _is_spread(before.held.get(value, ())):
            at.refuse(f"{node.operator} gives {value.type} for what was {was}: the batch has come into two axes")


def _note_held(at: Renewal, made: Operands) -> None:
    """Notes what operands hold, then results, so that these are followed to the operands and no further."""
    pairs = [*zip(at.operands, at.before, strict=False), *zip(made, at.results, strict=False)]
    for value, seen in pairs:
        if value is not None:
            at.declared.note_held(value, shape_pair(value, seen))


def _is_spread(held: Held) -> bool:
    """Whether a batch is in two axes, and in one of them beside others."""
    batches = [part for axis in held for part in axis if part.is_batch]
    return len(batches) > 1 and any(part.slower != 1 for part in batches)


def list_of_sizes(value: Value, ir: Builder) -> tuple[Dim, ...] | None:
    """The elements of a list of integers that are all known in sizes; None where it is none."""
    is_tensor = isinstance(value.type, TensorType) and value.dtype.is_integer and value.tensor.is_static
    if not is_tensor or value.rank != 1:
        return None
    sizes = partly_known(value)
    known = tuple(size for size in sizes if size is not None)
    return known if len(known) == len(sizes) else None


def _asks_data(operands: Operands, made: Operands) -> bool:
    """Whether sizes of results are such as only data tells."""
    known, actual = (
        frozenset().union(*(type_symbols(value.type) for value in values if value is not None))
        for values in (operands, made)
    )
    ranks = [value.type.shape for value in made if value is not None and isinstance(value.type, TensorType)]
    return not actual <= known or None in ranks


def _renewal(node: GraphNode, operands: Operands, before: AsDeclared, key: CaseKey, ir: Builder) -> Renewal:
    return Renewal(node, operands, before.operands[key], before.results.get(key, ()), before, ir)


def _reshape(at: Renewal) -> Operands:
    """data, shape: the numbers of `shape` that changed sizes of `data` have become part of."""
    shapes, integers = at.shapes(0), at.integers(1)
    result = at.results[0].shape if at.results and at.results[0] is not None else None
    if not at.changed(0) or shapes is None or integers is None or result is None or 0 in (*shapes[0], *result):
        return at.operands
    free = [axis for axis, integer in enumerate(integers) if integer]
    held = _without_followed(at, shapes, integers, result)
    if held is None:
        return at.operands
    target = renewed_target(shapes[0], held, result, free)
    if target is None:
        was, given = (f"[{', '.join(map(str, shape))}]" for shape in shapes)
        message = f"Reshape to {list(integers)} was made for {was}, and the shape for {given} cannot be told"
        at.refuse(message)
    renewed = {axis: target[axis] for axis in free if integers[axis] != -1}
    return at.with_sizes(1, {axis: size for axis, size in renewed.items() if size != result[axis]})


def _without_followed(
    at: Renewal, shapes: ShapePair, integers: Sequence[int | None], result: Sequence[Dim]
) -> Held | None:
    """What the axes of the data hold but for what the shape follows already, copied or computed; None: cannot tell."""
    held, value = [*at.held(0)], at.operands[1]
    assert value is not None, at.node
    for axis, (integer, size) in enumerate(zip(integers, partly_known(value), strict=True)):
        if integer == 0:
            held[axis] = ()
        elif integer is None and size != result[axis]:
            followed = None if size is None else _followed(held, result[axis], size)
            if followed is None:
                return None
            source, parts = followed
            held[source] = tuple(part for part in held[source] if part not in parts)
    return tuple(held)


def _followed(held: Sequence[tuple[HeldSize, ...]], old: Dim, new: Dim) -> tuple[int, tuple[HeldSize, ...]] | None:
    """An axis, and what it holds by which a size that was `old` has become `new`: all of it, or one part."""
    for axis, parts in enumerate(held):
        for some in (parts, *((part,) for part in parts)):
            if some and grows_by(old, new, some):
                return axis, some
    return None


def _expand(at: Renewal) -> Operands:
    """input, shape: numbers that are the size of the axis that they are for."""
    shapes, integers = at.shapes(0), at.integers(1)
    if shapes is None or integers is None:
        return at.operands
    lead = len(integers) - len(shapes[0])
    sizes = {lead + axis: shapes[1][axis] for axis in at.changed(0) if shapes[0][axis] != 1 and lead + axis >= 0}
    return at.with_sizes(1, {i: size for i, size in sizes.items() if integers[i] == shapes[0][i - lead]})


def _slice(at: Renewal) -> Operands:
    """data, starts, ends, axes, steps: from the first stays so, as does to the last; of a batch no part is taken.

    Where all of an axis is counted from its end, as -20 of 20, the first is meant.
    """
    shapes, starts, ends = at.shapes(0), at.integers(1), at.integers(2)
    result = at.results[0].shape if at.results and at.results[0] is not None else None
    if shapes is None or starts is None or ends is None or result is None:
        return at.operands
    given = [
        at.integers(index) if index < len(at.operands) and at.operands[index] is not None else None for index in (3, 4)
    ]
    axes, steps = given[0] or tuple(range(len(ends))), given[1] or (1,) * len(ends)
    rank = len(shapes[0])
    first: dict[int, Dim] = {}
    last: dict[int, Dim] = {}
    for position, (axis, end, step) in enumerate(zip(axes, ends, steps, strict=False)):
        if axis is None or not -rank <= axis < rank or axis % rank not in at.changed(0):
            continue
        old, new = (shape[axis] for shape in shapes)
        if not _is_beside(at, axis % rank):
            is_forward = step is not None and step > 0
            first |= {position: 0} if is_forward and starts[position] == -old else {}
            last |= {position: new} if is_forward and end == old else {}
        elif result[axis] != old or step is None or step < 0:
            at.refuse(f"Slice takes a part of axis {axis % rank}, which now holds a batch or other sizes, or turns it")
        else:
            first[position], last[position] = 0, new
    operands = at.with_sizes(1, first)
    return replace(at, operands=operands).with_sizes(2, last)


def _is_beside(at: Renewal, axis: int) -> bool:
    """Whether an axis of the data holds a batch, or what is but a part of it."""
    shapes, held = at.shapes(0), at.held(0)
    return shapes is not None and any(part.is_batch or part.old != shapes[0][axis] for part in held[axis])


def _split(at: Renewal) -> Operands:
    """input, split: the only part is all there is."""
    axis, shapes, parts = at.axis(0), at.shapes(0), at.integers(1)
    if shapes is None or parts is None or len(parts) != 1 or axis not in at.changed(0) or parts[0] != shapes[0][axis]:
        return at.operands
    return at.with_sizes(1, {0: shapes[1][axis]})


def _resize(at: Renewal) -> Operands:
    """X, roi, scales, sizes: sizes of axes that are not resized, or are resized back to what they came from.

    Where the record `follows_resized`, all sizes grow as what is resized; along an axis of one, as the input does.
    """
    shapes, sizes = at.shapes(0), at.integers(3)
    if shapes is None or sizes is None:
        return at.operands
    chosen = at.node.attributes.get("axes")
    axes = chosen if isinstance(chosen, tuple) else tuple(range(len(shapes[0])))
    renewed: dict[int, Dim] = {}
    for position, (axis, size) in enumerate(zip(axes, sizes, strict=False)):
        if isinstance(axis, int) and size is not None:
            grown = _resized(at, axis % len(shapes[0]), size)
            renewed |= {} if grown is None else {position: grown}
    return at.with_sizes(3, renewed)


def _resized(at: Renewal, axis: int, size: int) -> Dim | None:
    """What `size` of a resized axis is now; None where it stays."""
    shapes = at.shapes(0)
    assert shapes is not None, at.node
    old, new = shapes[0][axis], shapes[1][axis]
    if size == old != new:
        return new
    growth = ratio_of(new, old)
    for declared, given in at.declared.overridden:
        if size == declared != 1 and growth is not None and growth == ratio_of(given, declared):
            return given
    pair = (old, new) if old != new else at.declared.input_pair(len(shapes[0]), axis) if old == 1 != size else None
    ratio = None if pair is None or not at.declared.follows_resized else ratio_of(pair[1], pair[0])
    return None if ratio is None else scaled(size, ratio)


def _gather_elements(at: Renewal) -> Operands:
    """data, indices: where one has come to hold a batch, the other is the same for each of it.

    Of data that was there before the batch, indices of one along an axis took the first element.
    """
    axis, shapes, indices = at.axis(0), at.shapes(0), at.shapes(1)
    if shapes is None or indices is None or len(shapes[0]) != len(indices[0]):
        return at.operands
    if at.batch(0, axis) is not None:
        at.refuse(f"GatherElements takes elements of axis {axis}, which now holds a batch")
    of_data = [other for other in at.changed(0) if other != axis]
    at = replace(at, operands=repeated_for_batch(at, apart=(axis - len(shapes[0]),)))
    operands = at.repeated(1, {other: shapes[1][other] for other in of_data if shapes[0][other] == 1})
    data, of_indices = operands[0], [other for other in at.changed(1) if other not in (axis, *of_data)]
    assert data is not None, at.node
    grown = {other: indices[1][other] for other in of_indices if indices[0][other] == 1}
    for other in grown:
        data = at.ir.slice_axis(data, other, 0, 1)
    return replace(at, operands=(data, *operands[1:])).repeated(0, grown)


def _elementwise(at: Renewal) -> Operands:
    """Operands that are broadcast: what each element of a batch has in common is repeated for each."""
    return repeated_for_batch(at)


def _matmul(at: Renewal) -> Operands:
    """A, B: as elementwise, but for the axes that are multiplied."""
    return repeated_for_batch(at, apart=(-2, -1))


def _normalized(at: Renewal) -> Operands:
    """X: what elements along axes become depends on all of them, so these may be of no batch."""
    shapes, reaches_end = at.shapes(0), at.node.operator == "LayerNormalization"
    if shapes is None or not shapes[0]:
        return at.operands
    is_flattened = at.node.operator in _SOFTMAXES and at.node.since < 13
    axis, rank = at.node.attributes.get("axis", 1 if is_flattened else -1), len(shapes[0])
    first = axis % rank if isinstance(axis, int) else 0
    for other in range(first, rank if is_flattened or reaches_end else first + 1):
        if at.batch(0, other) is not None:
            at.refuse(f"{at.node.operator} runs over axis {other}, which now holds a batch")
    return at.operands


def _concat(at: Renewal) -> Operands:
    """inputs: floats that do not depend on what is overridden are the same for all along axes that were of size 1.

    Integers may be indices, which differ along the axis.
    """
    axis = at.axis(0)
    wanted: dict[int, Dim] = {}
    ranks = set()
    for index in range(len(at.operands)):
        shapes = at.shapes(index)
        if shapes is None or not shapes[0]:
            return at.operands
        ranks.add(len(shapes[0]))
        wanted |= {other: shapes[1][other] for other in at.changed(index) if other != axis and shapes[0][other] == 1}
    if len(ranks) != 1:
        return at.operands
    operands = at.operands
    for index, value in enumerate(operands):
        if value is None or all(value.shape[other] == size for other, size in wanted.items()):
            continue
        if not value.dtype.is_float:
            at.refuse(f'Concat joins "{at.node.inputs[index]}" : {value.type}, made for one, with a batch')
        operands = replace(at, operands=operands).repeated(index, wanted)
    return operands


def _recurrent(at: Renewal) -> Operands:
    """X, W, R, B, sequence_lens, initial_h, initial_c: what all sequences begin with, and their one length."""
    layout = at.node.attributes.get("layout")
    batch, shapes = (0 if layout == 1 else 1), at.shapes(0)
    if shapes is None or batch not in at.changed(0) or shapes[0][batch] != 1:
        return at.operands
    operands = at.repeated(4, {0: shapes[1][batch]})
    for index in (5, 6):
        operands = replace(at, operands=operands).repeated(index, {batch: shapes[1][batch]})
    return operands


_FOLDING = (
    "Arg",
    "Einsum",
    "Gemm",
    "If",
    "Loop",
    "MatMul",
    "Negative",
    "Non",
    "Reduce",
    "Scan",
    "Shape",
    "Size",
    "Softmax",
)
"""How the names of operators begin that sum or choose over axes, tell shapes, or run graphs."""

_ELEMENTWISE = "Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mul Or Pow Sub Sum Where Xor"

_SOFTMAXES = ("Hardmax", "LogSoftmax", "Softmax")
"""Up to opset 12 they run over all axes from one on."""

_RULES: Mapping[str, Callable[[Renewal], Operands]] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys((*_SOFTMAXES, "LayerNormalization", "LpNormalization"), _normalized),
    "MatMul": _matmul,
    "Concat": _concat,
    "Expand": _expand,
    "GRU": _recurrent,
    "Gather": gathered,
    "GatherElements": _gather_elements,
    "GatherND": gathered_by_tuples,
    "LSTM": _recurrent,
    "RNN": _recurrent,
    "Reshape": _reshape,
    "Resize": _resize,
    "ScatterElements": scattered,
    "ScatterND": scattered,
    "Slice": _slice,
    "Split": _split,
}
