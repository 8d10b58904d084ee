"""Layer normalisation, from the means, differences and roots that exporters write.

It grows from the inside: the standardisation becomes a `layer_norm` that scales by one and shifts by zero, and then
takes in the scale, the shift and the casts above and below it. Instance and group normalisation are recognized so, too.
"""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32
from onnxc.compiler.ir.makers import is_splat, made_by
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import as_trailing, repeated_over
from onnxc.compiler.passes.notes import note_refusal
from onnxc.compiler.passes.recognize.moments import mean_of, mean_square_of, normalizer_of, plus_epsilon


def recognize_layer_norm(module: Module) -> Module:
    """Makes one op of each layer normalisation."""
    return rewrite(module, [standardize, scale_layer_norm, shift_layer_norm, narrow_layer_norm], note_refusal)


@rule("div", "mul")
def standardize(op: Op, build: Rewriter) -> Value | Refusal | None:
    """(x - mean) / √(mean((x - mean)²) + ε) = layer_norm(x, 1, 0, ε) over trailing axes"""
    for centred, factor in (op.operands, reversed(op.operands)) if op.name == "mul" else (op.operands,):
        parts = _standardized(centred, factor, divides=op.name == "div")
        if parts is None:
            continue
        x, axes, epsilon = parts
        axis = x.rank - len(axes)
        if axes != tuple(range(axis, x.rank)):
            return Refusal(f"axes {list(axes)} are not the last of {x.type}")
        if build.uses(centred) > 3 or build.uses(factor) > 1:
            return Refusal("the difference from the mean or the deviation is used elsewhere, too")
        one, zero = (build.full(x.shape[axis:], constant, x.dtype) for constant in (1, 0))
        return build.layer_norm(x, one, zero, axis, epsilon)
    return None


def _standardized(centred: Value, factor: Value, *, divides: bool) -> tuple[Value, tuple[int, ...], float] | None:
    """(x, axes, epsilon)"""
    difference = made_by(centred, "sub")
    if difference is None:
        return None
    x = difference.operands[0]
    for axes in _axes_of_mean(x, difference.operands[1]):
        source = repeated_over(factor, axes)
        radicand = None if source is None else normalizer_of(source, divides=divides)
        summed = None if radicand is None else plus_epsilon(radicand)
        if summed is not None and mean_square_of(summed[0]) == (centred, axes):
            return x, axes, summed[1]
    return None


def _axes_of_mean(x: Value, value: Value) -> tuple[tuple[int, ...], ...]:
    """The axes over which `value` is the mean of `x`, if it is one: of none, or of one tuple of axes."""
    op = made_by(value, "broadcast")
    mean = None if op is None else mean_of(op.operands[0])
    if mean is None or mean[0] != x or repeated_over(value, mean[1]) is None:
        return ()
    return (mean[1],)


@rule("mul")
def scale_layer_norm(op: Op, build: Rewriter) -> Value | None:
    """layer_norm(x, 1, 0) * w = layer_norm(x, w, 0) for w of the normalised axes"""
    for value, other in (op.operands, reversed(op.operands)):
        norm = made_by(value, "layer_norm")
        if norm is None or build.uses(value) > 1 or not is_splat(norm.operands[2], 0):
            continue
        scale = as_trailing(other, norm.int("axis"), build)
        if scale is not None and is_splat(norm.operands[1], 1):
            return build.layer_norm(norm.operands[0], scale, norm.operands[2], norm.int("axis"), norm.float("epsilon"))
    return None


@rule("add")
def shift_layer_norm(op: Op, build: Rewriter) -> Value | None:
    """layer_norm(x, w, 0) + b = layer_norm(x, w, b) for b of the normalised axes"""
    for value, other in (op.operands, reversed(op.operands)):
        norm = made_by(value, "layer_norm")
        if norm is None or build.uses(value) > 1 or not is_splat(norm.operands[2], 0):
            continue
        bias = as_trailing(other, norm.int("axis"), build)
        if bias is not None:
            x, scale, _ = norm.operands
            return build.layer_norm(x, scale, bias, norm.int("axis"), norm.float("epsilon"))
    return None


@rule("cast")
def narrow_layer_norm(op: Op, build: Rewriter) -> Value | None:
    """cast(layer_norm(cast(x), w, b)) = layer_norm(x, w, b), for 16-bit x, w, b computed in f32"""
    norm = made_by(op.operands[0], "layer_norm")
    if norm is None or op.dtype() not in (F16, BF16) or build.uses(norm.result) > 1:
        return None
    operands = [narrowed(operand, op, build) for operand in norm.operands]
    x, scale, bias = operands
    if x is None or scale is None or bias is None:
        return None
    return build.layer_norm(x, scale, bias, norm.int("axis"), norm.float("epsilon"))


def narrowed(value: Value, cast: Op, build: Builder) -> Value | None:
    """`value` of f32 in the 16-bit type that `cast` makes, where it has nothing to lose: it was in it, or is 0 or 1."""
    if value.dtype != F32:
        return None
    for constant in (0, 1):
        if is_splat(value, constant):
            return build.full(value.shape, constant, cast.dtype())
    widened = made_by(value, "cast")
    return widened.operands[0] if widened is not None and widened.operands[0].dtype == cast.dtype() else None
