"""Narrow integers of floats within bounds, as a quantization writes them: bounded once, and rounded by one addition.

A cast has bounds of its own, those of its type. Added to 1.5 * 2^23, a float below 2^22 in magnitude is rounded to the
nearest integer, half to even, which stands in the low bits of the sum: neither a rounding nor a conversion is left, of
which processors start fewer at a time.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type
from onnxc.compiler.ir.dtypes import F32, I8, I16, U8, U16
from onnxc.compiler.ir.makers import made_by, splat_of
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

__all__ = ["BoundedInteger", "bounded_integer"]

UNIT = 1.5 * 2.0**23
"""Floats around it are 1 apart."""

LARGEST_SHIFT = 1 << 16
"""So that bounds and shift together stay below 2^22."""


@record
class BoundedInteger:
    """clamp(x + shift, least, greatest) in an integer of so many `bits`, and `nan` for NaN.

    x is the operand, rounded, or toward 0.
    """

    operand: Value
    bits: int
    is_rounded: bool
    shift: int
    least: int
    greatest: int
    nan: int

    def emit(self, f: FunctionBuilder, x: Reg) -> Reg:
        """The integers of the operand in a register."""
        low, high = float(self.least - self.shift), float(self.greatest - self.shift)
        words = vector_type("i32", x.lanes)
        if self.nan != self.least:
            x = f.select(f.fcmp("ord", x, x), x, f.constant(x.type, float(self.nan - self.shift)))
        x = f.select(f.fcmp("ogt", x, low), x, f.constant(x.type, low))
        x = f.select(f.fcmp("olt", x, high), x, f.constant(x.type, high))
        integers = f.convert("bitcast", f.fadd(x, UNIT), words) if self.is_rounded else f.convert("fptosi", x, words)
        return register(
            f.convert("trunc", f.add(register(integers), self.shift), vector_type(f"i{self.bits}", x.lanes))
        )


def bounded_integer(value: Value) -> BoundedInteger | None:
    """How `value` is made of a float that is rounded or has bounds; None where it is not, or these are no integers."""
    if value.dtype not in (I8, U8, I16, U16) or made_by(value, "cast") is None:
        return None
    bits, is_signed = value.dtype.bits, value.dtype.is_signed
    least, greatest, nan = -(1 << bits - 1) * is_signed, (1 << bits - is_signed) - 1, 0
    assert value.op is not None
    source = x = value.op.operands[0]
    while (bound := _bound(x)) is not None:
        x, kind, limit = bound
        if not least <= limit <= greatest:
            return None
        least, greatest = (least, limit) if kind == "min" else (limit, greatest)
        nan = limit if kind == "number" else nan
    if x.dtype != F32 or not least <= nan <= greatest:
        return None
    operand, shift = _rounded(x)
    if operand is None:
        return None if x is source else BoundedInteger(x, bits, False, 0, least, greatest, nan)
    return BoundedInteger(operand, bits, True, shift, least, greatest, nan)


def _rounded(value: Value) -> tuple[Value | None, int]:
    """What is rounded and shifted by an integer; None where nothing is."""
    total, shift = made_by(value, "add"), 0
    if total is not None and (added := _integer(total.operands[1])) is not None:
        value, shift = total.operands[0], added
    rounding = made_by(value, "round") if abs(shift) <= LARGEST_SHIFT else None
    return (None if rounding is None else rounding.operands[0]), shift


def _bound(value: Value) -> tuple[Value, str, int] | None:
    """(x, kind, limit) of what bounds x by an integer: by "min", "max", or "number", a maximum that is it for NaN."""
    for kind in ("min", "max"):
        bounded = made_by(value, kind)
        if bounded is not None and (limit := _integer(bounded.operands[1])) is not None:
            return bounded.operands[0], kind, limit
    choice = made_by(value, "select")
    test = None if choice is None else made_by(choice.operands[0], "less")
    if choice is None or test is None or test.operands != (choice.operands[2], choice.operands[1]):
        return None
    limit = _integer(choice.operands[2])
    return None if limit is None else (choice.operands[1], "number", limit)


def _integer(value: Value) -> int | None:
    """The integer that a value is in every element, as a float; None where it is another or not known."""
    splat = splat_of(value)
    return int(splat) if isinstance(splat, float) and splat.is_integer() else None
