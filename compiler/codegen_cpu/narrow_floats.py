"""Floats of a byte or less: their bits as f32, and f32 rounded to them, by arithmetic on the bits of vectors.

The special cases are those of ml_dtypes, whose casts are the meaning. Where a processor does not convert f16, that is
done so too.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.compiler.ir.dtypes import F8E8M0, DType
from onnxc.compiler.ir.float_formats import F32_MANTISSA, FORMATS, HALF, Format

_MAGNITUDE, _INFINITY, _QUIET_NAN = 0x7FFFFFFF, 0x7F800000, 0x7FC00000


NARROW_FLOATS = (*FORMATS, F8E8M0)


def widen_float(x: Reg, dtype: DType, f: FunctionBuilder) -> Reg:
    """Bytes that hold elements of `dtype`, as f32."""
    byte = register(f.convert("zext", x, vector_type("i32", x.lanes)))
    if dtype == F8E8M0:
        return _widen_exponent(byte, f)
    return _widen_bits(byte, FORMATS[dtype], f)


def converts_halves(f: FunctionBuilder) -> bool:
    """Whether the processor has instructions between f16 and f32: of those of x86 before AVX2 few have.

    Without them LLVM calls a function for each element.
    """
    return "sse2" not in f.features or "f16c" in f.features


def widen_half(x: Reg, f: FunctionBuilder) -> Reg:
    """The bits of f16 as f32."""
    return _widen_bits(register(f.convert("zext", x, vector_type("i32", x.lanes))), HALF, f)


def narrow_half(x: Reg, f: FunctionBuilder) -> Reg:
    """f32 to the bits of the nearest f16, ties to even."""
    code = _signed_code(x, _narrow_code(x, HALF, f, saturate=False), HALF, f)
    return register(f.convert("trunc", code, vector_type("i16", x.lanes)))


def _widen_bits(bits: Reg, format: Format, f: FunctionBuilder) -> Reg:
    code = register(f.and_(bits, format.sign - 1))
    magnitude = _special(_widen_code(code, format, f), code, format, f)
    # Whatever is set above the code is the sign: bits that a type narrower than a byte leaves unused count as well.
    sign = f.select(f.icmp("uge", bits, format.sign), f.constant(bits.type, -1 << 31), f.constant(bits.type, 0))
    wide = f.or_(magnitude, sign)
    if format.unsigned_zero:
        wide = f.select(f.icmp("eq", bits, format.nan), f.constant(bits.type, -1 << 31 | _QUIET_NAN), register(wide))
    return _as_float(wide, f)


def _widen_code(code: Reg, format: Format, f: FunctionBuilder) -> Reg:
    """The bits of a number in f32."""
    normal = f.add(f.shl(code, format.shift), format.rebias << F32_MANTISSA)
    whole = register(f.convert("uitofp", code, vector_type("float", code.lanes)))
    subnormal = _bits(f.fmul(whole, format.least), f)
    return f.select(f.icmp("ult", code, 1 << format.mantissa), subnormal, register(normal))


def _special(magnitude: Reg, code: Reg, format: Format, f: FunctionBuilder) -> Reg:
    """Infinity and NaN where the codes after the largest number stand for them."""
    if format.nan >= format.sign:
        return magnitude
    special = f.constant(code.type, _QUIET_NAN)
    if format.overflow != format.nan:
        is_infinite = f.icmp("eq", code, format.overflow)
        special = f.select(is_infinite, f.constant(code.type, _INFINITY), special)
    return f.select(f.icmp("ugt", code, format.largest), special, magnitude)


def _widen_exponent(byte: Reg, f: FunctionBuilder) -> Reg:
    """A power of two, whose exponent is the byte; the least one is a subnormal number of f32, and 255 is NaN."""
    least, nan = (f.constant(byte.type, bits) for bits in (1 << (F32_MANTISSA - 1), _QUIET_NAN))
    bits = f.select(f.icmp("eq", byte, 0), least, register(f.shl(byte, F32_MANTISSA)))
    return _as_float(f.select(f.icmp("eq", byte, 255), nan, bits), f)


def narrow_float(x: Reg, dtype: DType, f: FunctionBuilder, *, saturate: bool, round_mode: str = "nearest") -> Reg:
    """f32 to the nearest in `dtype`, ties to even, as bytes; `round_mode` is that of f8e8m0.

    What is too large becomes the largest number where it is to `saturate`.
    """
    if dtype == F8E8M0:
        code = _narrow_exponent(x, f, saturate, round_mode)
    else:
        code = _signed_code(x, _narrow_code(x, FORMATS[dtype], f, saturate), FORMATS[dtype], f)
    return register(f.convert("trunc", code, vector_type("i8", x.lanes)))


def _narrow_code(x: Reg, format: Format, f: FunctionBuilder, saturate: bool) -> Reg:
    """The code of the magnitude."""
    magnitude = register(f.and_(_bits(x, f), _MAGNITUDE))
    odd = f.and_(f.lshr(magnitude, format.shift), 1)
    rounded = f.lshr(f.add(magnitude, f.add(odd, (1 << (format.shift - 1)) - 1)), format.shift)
    normal = f.sub(rounded, format.rebias << format.mantissa)
    # The sum with this power of two has its last bit where the least number has its only one.
    magic = f.constant(x.type, format.least * 2.0**F32_MANTISSA)
    subnormal = f.sub(_bits(f.fadd(_as_float(magnitude, f), magic), f), _bits(magic, f))
    is_subnormal = f.icmp("ult", magnitude, (format.rebias + 1) << F32_MANTISSA)
    code = f.select(is_subnormal, register(subnormal), register(normal))
    beyond = f.constant(code.type, format.largest if saturate else format.overflow)
    code = f.select(f.icmp("ugt", code, format.largest), beyond, code)
    return f.select(f.fcmp("uno", x, x), f.constant(code.type, format.nan), code)


def _signed_code(x: Reg, code: Reg, format: Format, f: FunctionBuilder) -> Reg:
    """The code with the sign of `x`, which the zero that NaN becomes has the other way round."""
    sign = f.and_(f.lshr(_bits(x, f), 32 - format.bits), format.sign)
    signed = register(f.xor(code, sign))
    if not format.unsigned_zero:
        return signed
    return f.select(f.icmp("eq", f.and_(code, format.sign - 1), 0), code, signed)


def _narrow_exponent(x: Reg, f: FunctionBuilder, saturate: bool, round_mode: str) -> Reg:
    """f8e8m0 of f32: NaN for what is below 0, and what is out of range saturates or is NaN."""
    magnitude = register(f.and_(_bits(x, f), _MAGNITUDE))
    least, one = 1 << (F32_MANTISSA - 1), 1 << F32_MANTISSA
    # The numbers of the least power of two are subnormal in f32: doubled, their bits go on where those of others begin.
    doubled = f.shl(f.sub(magnitude, least), 1)
    bits = f.select(f.icmp("ult", magnitude, one), register(doubled), magnitude)
    up = {"nearest": one >> 1, "up": one - 1, "down": 0}[round_mode]
    code = register(f.lshr(f.add(bits, up), F32_MANTISSA))
    too_small, too_large = f.icmp("ult", magnitude, least), f.icmp("ugt", magnitude, 254 << F32_MANTISSA)
    code = f.select(too_small, f.constant(code.type, 0 if saturate else 255), code)
    code = f.select(too_large, f.constant(code.type, 254 if saturate else 255), code)
    return f.select(f.fcmp("ult", x, 0.0), f.constant(code.type, 255), code)


def _bits(x: Reg, f: FunctionBuilder) -> Reg:
    return register(f.convert("bitcast", x, vector_type("i32", x.lanes)))


def _as_float(bits: Int, f: FunctionBuilder) -> Reg:
    bits = register(bits)
    return register(f.convert("bitcast", bits, vector_type("float", bits.lanes)))
