"""Floats of a byte as f32, and f32 rounded to them, by arithmetic on the bits of tiles, on every architecture alike.

The formats are those of the CPU, and so are the special cases: NaN, infinities, what is too large, the sign of zero.
"""

from onnxc.compiler.codegen_gpu.source.source_builder import Expr, SourceBuilder
from onnxc.compiler.ir.dtypes import F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, DType
from onnxc.compiler.ir.float_formats import F32_MANTISSA, FORMATS, Format

__all__ = ["NARROW_FLOATS", "narrow_float", "widen_float"]

NARROW_FLOATS = (F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ)


def widen_float(x: Expr, dtype: DType, b: SourceBuilder) -> Expr:
    """Bytes that hold elements of `dtype`, as f32."""
    format = FORMATS[dtype]
    byte = b.let(f"{x}.to(tl.int32)", x.dims)
    code = b.let(f"{byte} & {format.sign - 1}", x.dims)
    normal = b.let(f"({code} << {format.shift}) + {format.rebias << F32_MANTISSA}", x.dims)
    subnormal = b.let(f"{code}.to(tl.float32) * {format.least!r}", x.dims)
    is_normal = f"{code} >= {1 << format.mantissa}"
    magnitude = b.let(f"tl.where({is_normal}, {normal}.to(tl.float32, bitcast=True), {subnormal})", x.dims)
    signed = b.let(f"tl.where({byte} >= {format.sign}, {magnitude} * -1.0, {magnitude})", x.dims)
    if format.unsigned_zero:
        return b.let(f'tl.where({byte} == {format.nan}, float("nan"), {signed})', x.dims)
    return _special(signed, byte, code, format, b)


def _special(x: Expr, byte: Expr, code: Expr, format: Format, b: SourceBuilder) -> Expr:
    """Infinity and NaN where the codes after the largest number stand for them."""
    if format.overflow != format.nan:
        infinity = b.let(f'tl.where({byte} >= {format.sign}, float("-inf"), float("inf"))', x.dims)
        x = b.let(f"tl.where({code} == {format.overflow}, {infinity}, {x})", x.dims)
        return b.let(f'tl.where({code} > {format.overflow}, float("nan"), {x})', x.dims)
    return b.let(f'tl.where({code} > {format.largest}, float("nan"), {x})', x.dims)


def narrow_float(x: Expr, dtype: DType, b: SourceBuilder, *, saturate: bool) -> Expr:
    """f32 to the nearest in `dtype`, ties to even, as bytes.

    What is too large becomes the largest number where it is to `saturate`.
    """
    format = FORMATS[dtype]
    bits = b.let(f"{x}.to(tl.int32, bitcast=True)", x.dims)
    magnitude = b.let(f"{bits} & {0x7FFFFFFF}", x.dims)
    odd = b.let(f"({magnitude} >> {format.shift}) & 1", x.dims)
    rounded = b.let(f"({magnitude} + {odd} + {(1 << (format.shift - 1)) - 1}) >> {format.shift}", x.dims)
    # The sum with this power of two has its last bit where the least number has its only one.
    magic = format.least * 2.0**F32_MANTISSA
    sum = b.let(f"tl.abs({x}) + {magic!r}", x.dims)
    magic_bits = b.let(f"tl.full([], {magic!r}, tl.float32).to(tl.int32, bitcast=True)", prefix="c")
    subnormal = b.let(f"{sum}.to(tl.int32, bitcast=True) - {magic_bits}", x.dims)
    is_subnormal = f"{magnitude} < {(format.rebias + 1) << F32_MANTISSA}"
    normal = f"{rounded} - {format.rebias << format.mantissa}"
    code = b.let(f"tl.where({is_subnormal}, {subnormal}, {normal})", x.dims)
    beyond = format.largest if saturate else format.overflow
    code = b.let(f"tl.where({code} > {format.largest}, {beyond}, {code})", x.dims)
    code = b.let(f"tl.where({x} != {x}, {format.nan}, {code})", x.dims)
    signed = b.let(f"{code} ^ (({bits} >> {32 - format.bits}) & {format.sign})", x.dims)
    if format.unsigned_zero:
        signed = b.let(f"tl.where(({code} & {format.sign - 1}) == 0, {code}, {signed})", x.dims)
    return b.let(f"{signed}.to(tl.uint8)", x.dims)
