"""What is quantised as it was before: bytes that were widened, then moved or compared, stay bytes.

round((n - zero) * scale / scale) is n - zero for every byte n: the product and the quotient are each within half a unit
in the last place, and what is rounded is less than 256.
"""

import numpy as np

from onnxc.compiler.ir.dtypes import I8, U8
from onnxc.compiler.ir.makers import made_by, splat_of
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.quantized_operands import Quantized, quantized_operand
from onnxc.compiler.passes.notes import note_refusal
from onnxc.runtime.records import record

BOUNDS = {I8: (-128, 127), U8: (0, 255)}


def recognize_requantization(module: Module) -> Module:
    """Leaves out what widens bytes and makes the same bytes again."""
    return rewrite(module, [requantize], note_refusal)


@record
class _Quantization:
    """round(x / scale) + zero, within the range of a type of 8 bits; scale and zero are one number each."""

    x: Value
    scale: float
    zero: float


@rule("cast")
def requantize(op: Op, build: Rewriter) -> Value | None:
    """quantize(f(dequantize(x))) = f(x) of one scale and zero point, for f a movement, gather, maximum or joining"""
    quantization = _quantization(op)
    return None if quantization is None else _bytes(quantization.x, quantization, op, build)


def _bytes(x: Value, by: _Quantization, op: Op, build: Rewriter) -> Value | None:
    """The bytes that `x` was made of; None where they were others."""
    inner = quantized_operand(x, build)
    if inner is not None:
        return inner.source if inner.source.dtype == op.dtype() and _is_same(inner, by) else None
    window = made_by(x, "reduce_window")
    if window is not None and window.text("kind") == "max":
        source = _bytes(window.operands[0], by, op, build)
        return None if source is None else build.op("reduce_window", [source], window.attributes)[0]
    picked = made_by(x, "gather", "gather_along", "gather_nd")
    if picked is not None:
        source = _bytes(picked.operands[0], by, op, build)
        return None if source is None else build.op(picked.name, [source, picked.operands[1]], picked.attributes)[0]
    joined = made_by(x, "concatenate")
    parts = [] if joined is None else [_bytes(operand, by, op, build) for operand in joined.operands]
    known = [part for part in parts if part is not None]
    return build.concatenate(known, joined.int("axis")) if joined is not None and len(known) == len(parts) else None


def _quantization(op: Op) -> _Quantization | None:
    """What a cast to 8 bits ends, if it is a quantisation."""
    if op.dtype() not in BOUNDS:
        return None
    least, most = BOUNDS[op.dtype()]
    below = _by_splat(op.operands[0], "min")
    above = None if below is None or below[1] != most else _above(below[0], least)
    if above is None:
        return None
    shifted, zero = _by_splat(above, "add") or (above, 0.0)
    rounded = made_by(shifted, "round")
    quotient = None if rounded is None else _by_splat(rounded.operands[0], "div")
    if quotient is None or not np.finfo(np.float32).tiny <= quotient[1] <= np.finfo(np.float32).max / 256:
        return None
    return _Quantization(*quotient, zero)


def _above(value: Value, least: int) -> Value | None:
    """x of max(x, least), or of select(least < x, x, least), which makes the least of NaN; None for anything else."""
    maximum, chosen = _by_splat(value, "max"), made_by(value, "select")
    if chosen is None:
        return maximum[0] if maximum is not None and maximum[1] == least else None
    condition, x, low = chosen.operands
    compared = made_by(condition, "less")
    if compared is None or compared.operands[1] != x:
        return None
    return x if splat_of(compared.operands[0]) == least == splat_of(low) else None


def _by_splat(value: Value, name: str) -> tuple[Value, float] | None:
    """The operand of an op of two whose other operand is one number, and that number."""
    op = made_by(value, name)
    splat = None if op is None else splat_of(op.operands[1])
    return None if op is None or splat is None else (op.operands[0], float(splat))


def _is_same(inner: Quantized, by: _Quantization) -> bool:
    """Whether bytes were widened by the scale and zero point that they are quantised by."""
    scale, zero = inner.scale, inner.zero
    if scale is None or scale.array is None or scale.axes or (zero is not None and (zero.array is None or zero.axes)):
        return False
    known = 0 if zero is None or zero.array is None else int(zero.array)
    return float(scale.array) == by.scale and known == by.zero
