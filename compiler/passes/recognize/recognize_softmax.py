"""Softmax and its logarithm, from the exponentials and sums that exporters write.

Without the subtraction of the maximum it is left alone: that overflows where the composite does not.
"""

from onnxc.compiler.ir.dtypes import BF16, F16
from onnxc.compiler.ir.makers import is_splat, made_by
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import bare, repeated_over
from onnxc.compiler.passes.notes import note_refusal


def recognize_softmax(module: Module) -> Module:
    """Makes one op of each softmax and log_softmax."""
    return rewrite(module, [divide_by_sum, subtract_log_of_sum, narrow_softmax], note_refusal)


@rule("div", "mul")
def divide_by_sum(op: Op, build: Rewriter) -> Value | Refusal | None:
    """e / sum(e) = softmax(x), for e = exp(x - max(x)) along one axis"""
    for e, total in (op.operands, reversed(op.operands)) if op.name == "mul" else (op.operands,):
        axis = _summed_axis(e, total, inverted=op.name == "mul")
        exponential = made_by(e, "exp")
        if axis is None or exponential is None:
            continue
        x = _shifted(exponential.operands[0], axis)
        if x is None:
            return Refusal("the maximum is not subtracted, so that it may overflow")
        if build.uses(e) > 2:
            return Refusal("the exponentials are used elsewhere, too")
        return build.softmax(x, axis)
    return None


def _summed_axis(e: Value, total: Value, *, inverted: bool) -> int | None:
    """The one axis over which `total` repeats the sum of `e`, or one over it."""
    spread = made_by(total, "broadcast")
    if spread is None:
        return None
    source = bare(spread.operands[0])
    if inverted:
        inverse = made_by(source, "div")
        if inverse is None or not is_splat(inverse.operands[0], 1):
            return None
        source = bare(inverse.operands[1])
    return _reduced_axis(source, "sum", e, total)


def _reduced_axis(source: Value, kind: str, x: Value, spread: Value) -> int | None:
    """The one axis over which `source` reduces `x`, and `spread` repeats it again."""
    reduced = made_by(source, "reduce")
    if reduced is None or reduced.text("kind") != kind or reduced.operands[0] != x or len(reduced.ints("axes")) != 1:
        return None
    return None if repeated_over(spread, reduced.ints("axes")) is None else reduced.ints("axes")[0]


def _shifted(value: Value, axis: int) -> Value | None:
    """x where `value` is x - max(x) along `axis`."""
    difference = made_by(value, "sub")
    top = None if difference is None else made_by(difference.operands[1], "broadcast")
    if difference is None or top is None:
        return None
    x = difference.operands[0]
    return x if _reduced_axis(bare(top.operands[0]), "max", x, top.result) == axis else None


@rule("sub")
def subtract_log_of_sum(op: Op, build: Rewriter) -> Value | None:
    """s - log(sum(exp(s))) = log_softmax(x), for s = x - max(x) along one axis"""
    shifted, spread = op.operands[0], made_by(op.operands[1], "broadcast")
    logarithm = None if spread is None else made_by(bare(spread.operands[0]), "log")
    if spread is None or logarithm is None:
        return None
    total = made_by(bare(logarithm.operands[0]), "reduce")
    e = None if total is None else made_by(total.operands[0], "exp")
    if total is None or e is None or e.operands[0] != shifted:
        return None
    axis = _reduced_axis(total.result, "sum", e.result, spread.result)
    x = None if axis is None else _shifted(shifted, axis)
    return None if axis is None or x is None or build.uses(e.result) > 1 else build.log_softmax(x, axis)


@rule("cast")
def narrow_softmax(op: Op, build: Rewriter) -> Value | None:
    """cast(softmax(cast(x))) = softmax(x) for 16-bit x, which is computed in f32"""
    inner = made_by(op.operands[0], "softmax", "log_softmax")
    widened = None if inner is None else made_by(inner.operands[0], "cast")
    if inner is None or widened is None or build.uses(inner.result) > 1:
        return None
    x, dtype = widened.operands[0], op.dtype()
    if x.dtype != dtype or dtype not in (F16, BF16):
        return None
    return build.op(inner.name, [x], inner.attributes)[0]
