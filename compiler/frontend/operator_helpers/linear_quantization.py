"""Quantisation: scales and zero points at the granularity of a tensor, and the rounding that all operators share."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.broadcasting import broadcast_onto, expect_spreads
from onnxc.compiler.frontend.operator_helpers.precision import integer_bounds
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F32, F64, I32, U8, DType
from onnxc.compiler.ir.makers import constant_of
from onnxc.compiler.ir.module import Value

RULE = "ONNX QuantizeLinear, granularity of y_scale"


def granular(
    value: Value, shape: Sequence[Dim], axis: int, block_size: int, node: Node, ir: Builder, *, split: bool = False
) -> Value:
    """A scale or zero point at `shape`: one for the tensor, one per index of `axis`, or one per block of it.

    split: blocks are an axis of their own, as `with_blocks` makes it.
    """
    if block_size:
        return _blocked(value, shape, axis, block_size, node, ir, split=split)
    if all(size == 1 for size in value.shape):
        return ir.broadcast(ir.reshape(value, ()), (), shape)
    if value.rank != 1:
        node.fail("quantization-granularity", f"a scale or zero point is {value.type}, block_size is 0", rule=RULE)
    if not shape:
        node.fail("quantization-granularity", f"a scale or zero point is {value.type} for a scalar", rule=RULE)
    expect_spreads(
        value.shape[0], shape[axis], f"a scale or zero point does not fit axis {axis}", ir, "quantization-axis"
    )
    return ir.broadcast(value, (axis,), shape)


def splits_blocks(x: Value, axis: int, block: int) -> bool:
    """Whether `x` is better seen with an axis of blocks: no scale is then repeated in memory.

    Constants keep their shape, which passes look for that make products with codes of these.
    """
    size = x.shape[axis] if block else 1
    return bool(block) and isinstance(size, int) and size % block == 0 and constant_of(x) is None


def with_blocks(x: Value, axis: int, block: int, ir: Builder) -> Value:
    """T[... da ...] -> T[... da / block, block ...]"""
    return ir.reshape(x, (*x.shape[:axis], floordiv(x.shape[axis], block), block, *x.shape[axis + 1 :]))


def _blocked(
    value: Value, shape: Sequence[Dim], axis: int, block: int, node: Node, ir: Builder, *, split: bool
) -> Value:
    """T[d0 ... ceil(da / block) ... dr-1] -> T[d0 ... da ... dr-1], each element of the axis `block` times

    split: at the shape of `with_blocks`, of whole blocks.
    """
    if value.rank != len(shape):
        node.fail("quantization-granularity", f"a scale or zero point is {value.type} for {len(shape)} axes", rule=RULE)
    message = "a scale or zero point does not fit axis {}"
    blocks = floordiv(shape[axis] + block - 1, block)
    sizes = [
        ir.require_equal(own, blocks if checked == axis else size, message.format(checked), "quantization-blocks")
        for checked, (own, size) in enumerate(zip(value.shape, shape, strict=True))
    ]
    value = ir.unsqueeze(ir.with_shape(value, sizes), [axis + 1])
    repeated = ir.broadcast_to(value, (*sizes[: axis + 1], block, *sizes[axis + 1 :]))
    if split:
        return repeated
    whole = ir.reshape(repeated, (*sizes[:axis], blocks * block, *sizes[axis + 1 :]))
    return ir.slice(whole, (0,) * len(shape), shape)


def expect_same_shape(scale: Value, zero_point: Value | None, node: Node, ir: Builder) -> None:
    """A scale and its zero point have one shape; of one element each, whatever their ranks."""
    if zero_point is None or all(size == 1 for size in (*scale.shape, *zero_point.shape)):
        return
    message = f"the scale is {scale.type}, its zero point {zero_point.type}"
    pairs = [*zip(scale.shape, zero_point.shape, strict=False)]
    if scale.rank != zero_point.rank:
        if 0 not in (scale.rank, zero_point.rank):
            node.fail("quantization-zero-point", message, rule=f"ONNX {node.operator}, zero point")
        pairs = [(size, 1) for size in (*scale.shape, *zero_point.shape)]
    for left, right in pairs:
        ir.require_equal(left, right, message, "quantization-zero-point")


def quantize(scaled: Value, zero_point: Value | None, dtype: DType, ir: Builder, *, saturate: bool = True) -> Value:
    """What `scaled`, already divided by its scale, is as `dtype`: integers round to even, and clamp after the shift.

    NaN is the least integer: the standard says nothing of it, onnx's reference and ONNX Runtime agree on that.
    """
    wide = ir.cast(scaled, F64 if scaled.dtype == F64 else F32)
    rounded = ir.round(wide) if dtype.is_integer else wide
    if zero_point is not None and not is_zero(zero_point, ir):
        rounded = ir.add(rounded, ir.cast(zero_point, wide.dtype))
    if not dtype.is_integer:
        return ir.cast(rounded, dtype, saturate=saturate)
    low, high = integer_bounds(dtype)
    # A cast makes 0 of NaN, which is the least where there is no sign.
    above = ir.select(ir.less(low, rounded), rounded, low) if low else ir.max(rounded, low)
    return ir.cast(ir.min(above, high), dtype)


def dynamically_quantized(x: Value, ir: Builder) -> tuple[Value, Value, Value]:
    """x as u8[...], with its scale f32[] and its zero point u8[], which make the most of the range of x and 0."""
    high = ir.max(ir.reduce(x, "max", range(x.rank)), 0)
    low = ir.min(ir.reduce(x, "min", range(x.rank)), 0)
    extent = ir.select(ir.equal(high, low), 1, ir.sub(high, low))
    scale = ir.div(extent, 255)
    zero_point = ir.round(ir.clamp(ir.div(ir.neg(low), scale), 0, 255))
    return quantize(ir.div(x, scale), zero_point, U8, ir), scale, ir.cast(zero_point, U8)


def dequantized(x: Value, scale: Value, zero_point: Value | None, ir: Builder) -> Value:
    """(x - zero_point) * scale in f32; both broadcast to x: integers of up to 16 bits."""
    value = ir.cast(x, F32)
    if zero_point is not None and not is_zero(zero_point, ir):
        value = ir.sub(value, ir.cast(zero_point, F32))
    return ir.mul(value, scale)


def is_zero(zero_point: Value, ir: Builder) -> bool:
    """Whether a zero point is known to be 0 everywhere."""
    known = ir.known_array(zero_point)
    return known is not None and not known.any()


def shifted(x: Value, zero_point: Value | None, ir: Builder) -> Value:
    """x - zero_point as i32; `x` as it is where that is 0."""
    if zero_point is None or is_zero(zero_point, ir):
        return x
    return ir.sub(ir.cast(x, I32), ir.cast(zero_point, I32))


def onto(value: Value, shape: Sequence[Dim], name: str, node: Node, ir: Builder, code: str) -> Value:
    """A scale or zero point that broadcasts to `shape`; of one element, whatever its rank.

    Raises ModelError with `code` where it does not.
    """
    if all(size == 1 for size in value.shape):
        return ir.broadcast(ir.reshape(value, ()), (), shape)
    return broadcast_onto(value, shape, name, node, ir, code)
