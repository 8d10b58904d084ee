"""Casts between native element types, all total: out of range saturates, NaN becomes 0, integers wrap."""

from functools import reduce

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
from onnxc.compiler.codegen_host.llvm_masks import every_lane
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type
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
    """Toward 0, saturating, 0 for NaN: LLVM's own conversion of that kind is written lane by lane on x86.

    Bounds are numbers of the float; narrow integers are converted as i32, which every vector unit has.
    """
    bits = target.bits - target.is_signed
    least, greatest = -(1 << bits) if target.is_signed else 0, (1 << bits) - 1
    below = _below_power_of_two(x.element, bits)
    wide = wanted if target.bits >= 32 else vector_type("i32", x.lanes)

    def saturated() -> tuple[Reg]:
        # NaN is not above the least integer, which is 0 where there is no sign.
        ordered = f.select(f.fcmp("ord", x, x), x, f.constant(x.type, 0.0)) if least else x
        bounded = f.select(f.fcmp("ogt", ordered, float(least)), ordered, f.constant(x.type, float(least)))
        bounded = f.select(f.fcmp("ogt", bounded, below), f.constant(x.type, below), bounded)
        if target.bits == 64 and _goes_by_lanes(x, f):
            result = _by_halves(bounded, wide, f)
        else:
            is_signed = target.is_signed or target.bits < 32
            result = register(f.convert("fptosi" if is_signed else "fptoui", bounded, wide))
        if int(below) != greatest:
            result = f.select(f.fcmp("ogt", x, below), f.constant(wide, greatest), result)
        return (register(f.convert("trunc", result, wanted)) if wide != wanted else result,)

    if target.bits < 64 or not _goes_by_lanes(x, f):
        return saturated()[0]
    magnitude = f.intrinsic("llvm.fabs.*", x.type, x) if target.is_signed else x
    inside = [f.fcmp("olt", magnitude, _LARGEST_SUMMED)]
    if not target.is_signed:
        inside.append(f.fcmp("oge", x, 0.0))
    return f.if_(every_lane(f, reduce(f.and_, inside)), lambda: (_by_sum(x, wide, f),), saturated)[0]


def _goes_by_lanes(x: Reg, f: FunctionBuilder) -> bool:
    """Whether floats become integers of 64 bits one by one, as those of a vector do on x86 before AVX-512."""
    return x.lanes > 1 and "sse4.1" in f.features and "avx512dq" not in f.features


_LARGEST_SUMMED = 2.0**51
"""Whole numbers below it in magnitude are the low bits of their sum with `_HIGH_UNIT`."""


def _by_sum(x: Reg, wanted: str, f: FunctionBuilder) -> Reg:
    """Integers of 64 bits of floats that are below 2^51 in magnitude, as nearly all are."""
    wide = _as_doubles(x, f)
    summed = f.fadd(f.intrinsic("llvm.trunc.*", wide.type, wide), _HIGH_UNIT)
    bits = register(f.convert("bitcast", summed, wanted))
    return register(f.sub(bits, _HIGH_UNIT_BITS))


def _as_doubles(x: Reg, f: FunctionBuilder) -> Reg:
    return register(f.convert("fpext", x, vector_type("double", x.lanes))) if x.element == "float" else x


_HIGH_UNIT, _LOW_UNIT = 1.5 * 2.0**52, 2.0**52
"""Added to an integer below 2^51 in magnitude, or to one from 0 to 2^52, these leave it in the low bits of a double."""

_HIGH_UNIT_BITS = 0x4338_0000_0000_0000
"""Those of `_HIGH_UNIT`."""


def _by_halves(x: Reg, wanted: str, f: FunctionBuilder) -> Reg:
    """Integers of 64 bits, with a sign or without, of floats within their range: the halves are exact in doubles.

    f32[128, 768] takes 72 us so on AVX2 and 119 us lane by lane, f64 60 and 110, f16 73 and 121.
    """
    wide = _as_doubles(x, f)
    whole = f.intrinsic("llvm.trunc.*", wide.type, wide)
    high = f.intrinsic("llvm.floor.*", wide.type, f.fmul(whole, 2.0**-32))
    low = f.fsub(whole, f.fmul(high, 2.0**32))
    high_bits, low_bits = (
        register(f.convert("bitcast", f.fadd(half, unit), wanted))
        for half, unit in ((high, _HIGH_UNIT), (low, _LOW_UNIT))
    )
    return register(f.or_(f.shl(high_bits, 32), f.and_(low_bits, (1 << 32) - 1)))


def _below_power_of_two(element: str, exponent: int) -> float:
    """The greatest integer below 2^exponent that is a number of the float."""
    mantissa = {"float": 24, "double": 53}[element]
    return 2.0**exponent - max(2.0 ** (exponent - mantissa), 1.0)


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
