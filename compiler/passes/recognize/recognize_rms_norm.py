"""RMS normalisation, from the squares, means and roots that exporters write. To be run after layer normalisation."""

from onnxc.compiler.ir.dtypes import BF16, F16
from onnxc.compiler.ir.makers import is_splat, made_by
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import as_trailing, repeated_over
from onnxc.compiler.passes.notes import note_refusal
from onnxc.compiler.passes.recognize.moments import mean_square_of, normalizer_of, plus_epsilon
from onnxc.compiler.passes.recognize.recognize_layer_norm import narrowed


def recognize_rms_norm(module: Module) -> Module:
    """Makes one op of each RMS normalisation."""
    return rewrite(module, [divide_by_root_mean_square, scale_rms_norm, narrow_rms_norm], note_refusal)


@rule("div", "mul")
def divide_by_root_mean_square(op: Op, build: Rewriter) -> Value | Refusal | None:
    """x / √(mean(x²) + ε) = rms_norm(x, 1, ε) over trailing axes"""
    for x, factor in (op.operands, reversed(op.operands)) if op.name == "mul" else (op.operands,):
        parts = _normalized(x, factor, divides=op.name == "div")
        if parts is None:
            continue
        axes, epsilon = parts
        axis = x.rank - len(axes)
        if axes != tuple(range(axis, x.rank)):
            return Refusal(f"axes {list(axes)} are not the last of {x.type}")
        if build.uses(factor) > 1:
            return Refusal("the root of the mean square is used elsewhere, too")
        return build.rms_norm(x, build.full(x.shape[axis:], 1, x.dtype), axis, epsilon)
    return None


def _normalized(x: Value, factor: Value, *, divides: bool) -> tuple[tuple[int, ...], float] | None:
    """(axes, epsilon)"""
    op = made_by(factor, "broadcast")
    radicand = None if op is None else normalizer_of(op.operands[0], divides=divides)
    summed = None if radicand is None else plus_epsilon(radicand)
    mean = None if summed is None else mean_square_of(summed[0])
    if summed is None or mean is None or mean[0] != x or repeated_over(factor, mean[1]) is None:
        return None
    return mean[1], summed[1]


@rule("mul")
def scale_rms_norm(op: Op, build: Rewriter) -> Value | None:
    """rms_norm(x, 1) * w = rms_norm(x, w) for w of the normalised axes"""
    for value, other in (op.operands, reversed(op.operands)):
        norm = made_by(value, "rms_norm")
        if norm is None or build.uses(value) > 1 or not is_splat(norm.operands[1], 1):
            continue
        scale = as_trailing(other, norm.int("axis"), build)
        if scale is not None:
            return build.rms_norm(norm.operands[0], scale, norm.int("axis"), norm.float("epsilon"))
    return None


@rule("cast")
def narrow_rms_norm(op: Op, build: Rewriter) -> Value | None:
    """cast(rms_norm(cast(x), w)) = rms_norm(x, w), for 16-bit x and w computed in f32"""
    norm = made_by(op.operands[0], "rms_norm")
    if norm is None or op.dtype() not in (F16, BF16) or build.uses(norm.result) > 1:
        return None
    x, scale = (narrowed(operand, op, build) for operand in norm.operands)
    if x is None or scale is None:
        return None
    return build.rms_norm(x, scale, norm.int("axis"), norm.float("epsilon"))
