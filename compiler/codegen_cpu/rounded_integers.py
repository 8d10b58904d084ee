"""Narrow integers that are rounded floats within bounds, as a quantization writes them: rounded by one addition.

Added to 1.5 * 2^23, a float below 2^22 in magnitude is rounded to the nearest integer, half to even, which stands in
the low bits of the sum: neither a rounding nor a conversion is left, of which processors start fewer at a time.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type
from onnxc.compiler.ir.dtypes import F32, I8, I16, U8, U16
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.runtime.records import record

__all__ = ["RoundedInteger", "rounded_integer"]

UNIT = 1.5 * 2.0**23
"""Floats around it are 1 apart."""

LARGEST_SHIFT = 1 << 16
"""So that bounds and shift together stay below 2^22."""


@record
class RoundedInteger:
    """clamp(round(operand) + shift, least, greatest) in an integer of so many `bits`, and `nan` for NaN."""

    operand: Value
    bits: int
    shift: int
    least: int
    greatest: int
    nan: int

    def emit(self, f: FunctionBuilder, x: Reg) -> Reg:
        """The integers of the operand in a register."""
        low, high = float(self.least - self.shift), float(self.greatest - self.shift)
        if self.nan != self.least:
            x = f.select(f.fcmp("ord", x, x), x, f.constant(x.type, float(self.nan - self.shift)))
        x = f.select(f.fcmp("ogt", x, low), x, f.constant(x.type, low))
        x = f.select(f.fcmp("olt", x, high), x, f.constant(x.type, high))
        rounded = register(f.convert("bitcast", f.fadd(x, UNIT), vector_type("i32", x.lanes)))
        return register(f.convert("trunc", f.add(rounded, self.shift), vector_type(f"i{self.bits}", x.lanes)))


def rounded_integer(value: Value) -> RoundedInteger | None:
    """How `value` is made of a float that is rounded; None where it is not, or its bounds are no integers."""
    if value.dtype not in (I8, U8, I16, U16) or _made_by(value, "cast") is None:
        return None
    bits, is_signed = value.dtype.bits, value.dtype.is_signed
    least, greatest, nan = -(1 << bits - 1) * is_signed, (1 << bits - is_signed) - 1, 0
    assert value.op is not None
    x = value.op.operands[0]
    while (bound := _bound(x)) is not None:
        x, kind, limit = bound
        if not least <= limit <= greatest:
            return None
        least, greatest = (least, limit) if kind == "min" else (limit, greatest)
        nan = limit if kind == "number" else nan
    shift = 0
    if (total := _made_by(x, "add")) is not None and (added := _integer(total.operands[1])) is not None:
        x, shift = total.operands[0], added
    rounding = _made_by(x, "round")
    if rounding is None or rounding.results[0].dtype != F32 or abs(shift) > LARGEST_SHIFT:
        return None
    if not least <= nan <= greatest:
        return None
    return RoundedInteger(rounding.operands[0], bits, shift, least, greatest, nan)


def _bound(value: Value) -> tuple[Value, str, int] | None:
    """(x, kind, limit) of what bounds x by an integer: by "min", "max", or "number", a maximum that is it for NaN."""
    for kind in ("min", "max"):
        bounded = _made_by(value, kind)
        if bounded is not None and (limit := _integer(bounded.operands[1])) is not None:
            return bounded.operands[0], kind, limit
    choice = _made_by(value, "select")
    test = None if choice is None else _made_by(choice.operands[0], "less")
    if choice is None or test is None or test.operands != (choice.operands[2], choice.operands[1]):
        return None
    limit = _integer(choice.operands[2])
    return None if limit is None else (choice.operands[1], "number", limit)


def _made_by(value: Value, name: str) -> Op | None:
    return value.op if value.op is not None and value.op.name == name else None


def _integer(value: Value) -> int | None:
    """The integer that a value is in every element, as a float; None where it is another or not known."""
    while value.op is not None and PRIMITIVES[value.op.name].is_view and value.op.operands:
        value = value.op.operands[0]
    if value.op is None or value.op.name != "constant" or value.dtype != F32:
        return None
    array = value.op.array()
    if array.size != 1 or not float(array.reshape(-1)[0]).is_integer():
        return None
    return int(array.reshape(-1)[0])
