"""Keys of elements: integers in whose order the elements are, NaN after every number and -0.0 equal to 0.0."""

from onnxc.compiler.codegen_gpu.schedules.radix import key_bits
from onnxc.compiler.codegen_gpu.source.scalars import to_memory
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, SourceBuilder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I64, U64, DType

__all__ = ["key_of"]

_MANTISSA = {F64: 52, F32: 23, F16: 10, BF16: 7}
"""How many bits of a float are its mantissa."""

_WIDE_SIGN = -(1 << 63)


def key_of(x: Expr, dtype: DType, descending: bool, b: SourceBuilder) -> Expr:
    """Keys of elements as they are computed with, or of all of them backwards.

    In 64 bits: those of narrower elements are not negative, those of elements of 64 bits are without a sign.
    """
    order = _float_order(x, dtype, b) if dtype.is_float else _integer_order(x, dtype, b)
    if descending:
        order = b.let(f"-1 - {order}", x.dims)
    if key_bits(dtype) == I64.bits:
        return b.let(f"{order} ^ {_sign(b)}", x.dims)
    return b.let(f"{order} + {1 << (key_bits(dtype) - 1)}", x.dims)


def _sign(b: SourceBuilder) -> Expr:
    return b.let(f"tl.full([], {_WIDE_SIGN}, tl.int64)", prefix="c")


def _integer_order(x: Expr, dtype: DType, b: SourceBuilder) -> Expr:
    """Signed integers around 0, as many below it as not."""
    if dtype == U64:
        return b.let(f"{x}.to(tl.int64, bitcast=True) ^ {_sign(b)}", x.dims)
    wide = b.let(f"{x}.to(tl.int64)", x.dims)
    return wide if dtype.is_signed else b.let(f"{wide} - {1 << (key_bits(dtype) - 1)}", x.dims)


def _float_order(x: Expr, dtype: DType, b: SourceBuilder) -> Expr:
    """The magnitude as an integer, with the sign of the element; the greatest one for NaN."""
    bits = key_bits(dtype)
    most = (1 << (bits - 1)) - 1
    infinity = (1 << (bits - 1)) - (1 << _MANTISSA[dtype])
    word = b.let(f"{to_memory(x, dtype, b)}.to(tl.int{bits}, bitcast=True).to(tl.int64)", x.dims)
    magnitude = b.let(f"{word} & {most}", x.dims)
    signed = b.let(f"tl.where({word} < 0, 0 - {magnitude}, {magnitude})", x.dims)
    return b.let(f"tl.where({magnitude} > {infinity}, {most}, {signed})", x.dims)
