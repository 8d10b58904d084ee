"""Casts between native element types, all total: out of range saturates, NaN becomes 0, integers wrap."""

from onnxc.compiler.codegen_cpu.complex_numbers import join_complex, part_dtype, split_complex
from onnxc.compiler.codegen_cpu.element_types import (
    computed_dtype,
    from_memory,
    memory_type,
    narrow,
    register_type,
    round_register,
    to_memory,
    widen,
)
from onnxc.compiler.codegen_cpu.narrow_floats import narrow_float
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, intrinsic_suffix, register, vector_type
from onnxc.compiler.ir.dtypes import F32, I32, DType


def emit_cast(
    x: Reg, source: DType, target: DType, f: FunctionBuilder, *, saturate: bool = True, round_mode: str = "nearest"
) -> Reg:
    """`x` of element type `source` as `target`."""
    if source.is_complex:
        return _from_complex(x, source, target, f, saturate=saturate, round_mode=round_mode)
    if target.is_complex:
        part = part_dtype(target)
        real = emit_cast(x, source, part, f)
        return join_complex((real, f.constant(real.type, 0.0)), target, f)
    x, source = widen(x, source, f), computed_dtype(source)
    if computed_dtype(target) == target:
        return _emit_cast(x, source, target, f)
    if target.is_float:
        return narrow_float(_emit_cast(x, source, F32, f), target, f, saturate=saturate, round_mode=round_mode)
    if source.is_float:
        # Below eight bits the range is that of i32, of which the low bits are kept.
        x, source = _emit_cast(x, source, I32, f), I32
    return narrow(_emit_cast(x, source, computed_dtype(target), f), target, f)


def _from_complex(x: Reg, source: DType, target: DType, f: FunctionBuilder, *, saturate: bool, round_mode: str) -> Reg:
    """The real part in another type; both in a complex one, and for bool whether either is not 0."""
    part = part_dtype(source)
    real, imaginary = split_complex(x, source, f)
    if target.is_bool:
        return f.or_(_to_bool(real, part, f), _to_bool(imaginary, part, f))
    if not target.is_complex:
        return emit_cast(real, part, target, f, saturate=saturate, round_mode=round_mode)
    other = part_dtype(target)
    return join_complex((emit_cast(real, part, other, f), emit_cast(imaginary, part, other, f)), target, f)


def _emit_cast(x: Reg, source: DType, target: DType, f: FunctionBuilder) -> Reg:
    """Between types that are computed with as they are."""
    wanted = vector_type(register_type(target), x.lanes)
    if target.is_bool:
        return _to_bool(x, source, f)
    if target.is_float:
        return round_register(_to_float(x, source, wanted, f), target, f)
    if source.is_float:
        return _to_integer(x, target, wanted, f)
    if source.is_bool or target.bits > source.bits:
        return register(f.convert("sext" if source.is_signed else "zext", x, wanted))
    return x if target.bits == source.bits else register(f.convert("trunc", x, wanted))


def _to_integer(x: Reg, target: DType, wanted: str, f: FunctionBuilder) -> Reg:
    """A float within the range of an integer type, NaN as 0."""
    name = "si" if target.is_signed else "ui"
    if x.lanes == 1 or target.bits > 32:
        return f.intrinsic(f"llvm.fpto{name}.sat.{intrinsic_suffix(wanted)}.{intrinsic_suffix(x.type)}", wanted, x)
    # LLVM makes scalars of saturating vectors; within the range all lanes are converted at once.
    low, high = _bounds(target, x.element)
    number = f.select(f.fcmp("uno", x, x), 0.0, x)
    above = f.select(f.fcmp("ogt", number, low), number, low)
    within = f.select(f.fcmp("olt", above, high), above, high)
    narrow = target.bits < 32
    wide = register(f.convert("fptosi" if narrow else f"fpto{name}", within, vector_type("i32", x.lanes)))
    if narrow:
        return register(f.convert("trunc", wide, wanted))
    return wide if x.element == "double" else f.select(f.fcmp("ogt", x, high), f.constant(wanted, _most(target)), wide)


def _most(dtype: DType) -> int:
    return (1 << dtype.bits - dtype.is_signed) - 1


def _bounds(dtype: DType, element: str) -> tuple[float, float]:
    """The least and the greatest float that is a number of an integer type."""
    low, high = float(-(1 << dtype.bits - 1) if dtype.is_signed else 0), float(_most(dtype))
    # f32 has 24 bits for a number.
    dropped = dtype.bits - dtype.is_signed - 24
    return low, float(_most(dtype) >> dropped << dropped) if element == "float" and dropped > 0 else high


def _to_bool(x: Reg, source: DType, f: FunctionBuilder) -> Reg:
    if source.is_bool:
        return x
    return f.fcmp("une", x, 0.0) if source.is_float else f.icmp("ne", x, 0)


def _to_float(x: Reg, source: DType, wanted: str, f: FunctionBuilder) -> Reg:
    if not source.is_float:
        return register(f.convert("sitofp" if source.is_signed else "uitofp", x, wanted))
    if x.type == wanted:
        return x
    return register(f.convert("fpext" if x.element == "float" else "fptrunc", x, wanted))


def emit_bitcast(x: Reg, source: DType, target: DType, f: FunctionBuilder) -> Reg:
    """The bits of `x` read as another type of the same width."""
    bits = f.convert("bitcast", to_memory(x, source, f), vector_type(memory_type(target), x.lanes))
    return from_memory(register(bits), target, f)
