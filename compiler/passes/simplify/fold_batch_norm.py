"""Batch normalisation: factors and summands per channel go into the constants of the convolution or product before.

x * a + b per channel after a convolution with constant weights w is a convolution with w * a, plus b. Chains of such
steps become one multiplication and one addition first. Rounding happens after other steps than in the chain.
"""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.makers import constant_of, made_by, unbroadcast
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_dimensions, parse_equation
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.notes import note_refusal
from onnxc.runtime.records import record

# An estimate: exporters write four steps at most (scale, shift, mean and deviation), and a longer chain folds in parts.
LONGEST_CHAIN = 8

BYTE = 8

COARSEST = 2.0**-6
"""What is added to a summand so large that numbers near it are so far apart is rounded; shifts of normalisations are
smaller."""

SUMMED_PARTS = 256
"""A sum of an integer and of so many parts of one is exact in f32 up to 2^16, which is more than coordinates are."""


def fold_batch_norm(module: Module) -> Module:
    """Moves factors per channel into the weights before them."""
    return rewrite(module, [fold_chain], note_refusal)


@record
class Affine:
    """source * factor + offset, in f64, for one scalar or one element per index of `axis` of the source.

    is_exact: whether no step rounds where the source is a small integer. cancels: whether a summand that leaves few
    bits of the source is taken back, which is how models round.
    """

    source: Value
    axis: int | None
    factor: np.ndarray
    offset: np.ndarray
    steps: int
    scaling: int
    is_exact: bool
    cancels: bool

    def is_finite(self) -> bool:
        """Whether factor and offset are finite in the type of the source."""
        with np.errstate(over="ignore"):
            narrow = [array.astype(self.source.dtype.numpy) for array in (self.factor, self.offset)]
        return all(bool(np.isfinite(array.astype(np.float64)).all()) for array in narrow)


@rule("add", "sub", "mul", "div")
def fold_chain(op: Op, build: Rewriter) -> Value | Refusal | None:
    """convolution(x, w) * a + b = convolution(x, w * a) + b, and the same for a dot with constant weights

    A chain after anything else becomes source * a + b where that is shorter.
    """
    affine = _chain(op, build)
    if affine is None or (not affine.scaling and affine.steps < 2):
        return None
    if not affine.is_finite():
        return Refusal("a factor or summand is not finite")
    if affine.cancels:
        return Refusal("a summand so large that it rounds what it is added to, and is subtracted again")
    if not affine.scaling:
        return _plus(affine.source, affine, build)
    weighted = made_by(affine.source, "convolution", "dot")
    folded = None
    if weighted is not None and build.uses(affine.source) == 1:
        folded = (_scaled_convolution if weighted.name == "convolution" else _scaled_dot)(weighted, affine, build)
    return _shortened(affine, build) if folded is None else _plus(folded, affine, build)


def _chain(op: Op, build: Rewriter) -> Affine | None:
    """The steps by constants that end in `op`, composed; only those that nothing else reads the middle of."""
    steps: list[tuple[Op, np.ndarray]] = []
    axis: int | None = None
    value = op.result
    while (step := made_by(value, "add", "sub", "mul", "div")) is not None and len(steps) < LONGEST_CHAIN:
        constant = _per_channel(step.operands[1], axis)
        if constant is None or (value != op.result and build.uses(value) > 1):
            break
        axis, array = constant
        steps.append((step, array))
        value = step.operands[0]
    if not steps or not op.result.dtype.is_float:
        return None
    factor, offset, cancels = np.ones(()), np.zeros(()), False
    with np.errstate(all="ignore"):
        for step, array in reversed(steps):
            before = offset
            factor, offset = _composed(step.name, factor, offset, array)
            if step.name in ("add", "sub"):
                spacing = np.spacing(np.abs(before).astype(value.dtype.numpy)).astype(np.float64)
                cancels |= bool(((spacing >= COARSEST) & (np.abs(offset) < np.abs(before) / 2)).any())
    scaling = sum(step.name in ("mul", "div") for step, _ in steps)
    is_exact = all(_is_exact(step.name, array) for step, array in steps)
    return Affine(value, axis, np.asarray(factor), np.asarray(offset), len(steps), scaling, is_exact, cancels)


def _is_exact(name: str, array: np.ndarray) -> bool:
    """Whether a step only changes exponents, or adds few bits."""
    if name in ("mul", "div"):
        return bool((np.abs(np.frexp(array)[0]) == 0.5).all())
    return bool((array * SUMMED_PARTS % 1 == 0).all())


def _composed(name: str, factor: np.ndarray, offset: np.ndarray, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    match name:
        case "add":
            return factor, offset + array
        case "sub":
            return factor, offset - array
        case "mul":
            return factor * array, offset * array
    return factor / array, offset / array


def _per_channel(value: Value, axis: int | None) -> tuple[int | None, np.ndarray] | None:
    """The constant that `value` repeats along all axes but one, and that axis; `axis` if that is settled already."""
    source, axes = unbroadcast(value)
    array = constant_of(source)
    if array is None:
        return None
    own = [own_axis for own_axis, size in zip(axes, array.shape, strict=True) if size != 1]
    if len(own) > 1 or (own and axis not in (None, own[0])):
        return None
    dense = array.reshape(-1).astype(np.float64) if own else array.reshape(()).astype(np.float64)
    return (own[0] if own else axis), dense


def _scaled_convolution(op: Op, affine: Affine, build: Rewriter) -> Value | None:
    """M filters, of which each is scaled by its own factor."""
    weights, labels = _own_constant(op.operands[1], build), parse_dimensions(op.text("dimensions"))
    if weights is None or affine.axis not in (None, labels.result.channel):
        return None
    scaled = _scaled(weights, affine.factor, labels.w.output)
    return build.op("convolution", [op.operands[0], build.constant(scaled)], op.attributes)[0]


def _scaled_dot(op: Op, affine: Affine, build: Rewriter) -> Value | None:
    """The constant operand scaled along the letter of the channels, which the other one must not have.

    One factor for all is left to the product's own loop: it is not worth a copy of the weights.
    """
    left, right, result = parse_equation(op.text("equation"))
    if affine.axis is None:
        return None
    letter = result[affine.axis]
    for side, (term, other) in enumerate(((left, right), (right, left))):
        weights = _own_constant(op.operands[side], build)
        if weights is None or letter not in term or letter in other:
            continue
        operands = list(op.operands)
        operands[side] = build.constant(_scaled(weights, affine.factor, term.index(letter)))
        return build.op("dot", operands, op.attributes)[0]
    return None


def _own_constant(value: Value, build: Rewriter) -> np.ndarray | None:
    """The elements of a constant that nothing else uses: a scaled copy of a shared one would stand beside it.

    Scaled floats of 8 bits would be other numbers.
    """
    return constant_of(value) if build.uses(value) == 1 and value.dtype.bits > BYTE else None


def _scaled(weights: np.ndarray, factor: np.ndarray, axis: int) -> np.ndarray:
    shape = [1] * weights.ndim
    if factor.ndim:
        shape[axis] = factor.size
    return np.asarray(weights.astype(np.float64) * factor.reshape(shape)).astype(weights.dtype)


def _shortened(affine: Affine, build: Builder) -> Value | None:
    """source * a + b, where that is fewer steps than the chain has.

    What is made of a counter is left as it is where steps round: coordinates may be whole or half numbers, which other
    roundings miss.
    """
    is_wide = affine.source.dtype.bits >= F32.bits
    if affine.steps <= 2 or (_is_counted(affine.source) and not (affine.is_exact and is_wide)):
        return None
    factor = _spread(affine.factor, affine.axis, affine.source, build)
    return _plus(build.mul(affine.source, factor), affine, build)


def _is_counted(value: Value) -> bool:
    """Whether the value is a counter, in any type and along any axis."""
    while (step := made_by(value, "cast", "broadcast", "reshape")) is not None:
        value = step.operands[0]
    return made_by(value, "iota") is not None


def _plus(value: Value, affine: Affine, build: Builder) -> Value:
    return build.add(value, _spread(affine.offset, affine.axis, value, build)) if affine.offset.any() else value


def _spread(array: np.ndarray, axis: int | None, like: Value, build: Builder) -> Value:
    """`array`, one scalar or one element per index of `axis`, in the type of `like`."""
    constant = build.constant(np.asarray(array).astype(like.dtype.numpy))
    axes: Sequence[int] = () if axis is None or not array.ndim else (axis,)
    return build.broadcast(constant, axes, like.shape)
