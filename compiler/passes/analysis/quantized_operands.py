"""Operands that quantisation made: integers of 8 bits less a zero point, times a scale, through the movements between.

`(source - zero) * scale` is what DequantizeLinear and the subtractions before integer products come to. Nothing here
knows of the products that read it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F8E4M3FN, F8E5M2, F32, I8, I32, U8
from onnxc.compiler.ir.makers import constant_of, made_by, unbroadcast
from onnxc.compiler.ir.module import Op, Value
from onnxc.runtime.records import record

__all__ = ["Quantized", "Spread", "quantized_operand"]

NARROW = (I8, U8, F8E4M3FN, F8E5M2)
"""The types of 8 bits that processors multiply."""

BYTE = 255
"""The largest of u8, and so how far apart bytes are."""

MOVEMENTS = ("transpose", "reshape", "slice", "broadcast")


@record
class Spread:
    """A value without axes of size 1, whose axes are `axes` of an operand; it repeats along the others."""

    value: Value
    axes: tuple[int, ...] = ()

    @property
    def array(self) -> np.ndarray | None:
        """Its elements, where they are known."""
        return constant_of(self.value)


@record
class Quantized:
    """(source - zero) * scale: `source` is i8 or u8, `zero` i32 or none for 0, `scale` f32 or none for 1.

    Or `source` is of floats of 8 bits, without a zero point.
    """

    source: Value
    zero: Spread | None = None
    scale: Spread | None = None


def quantized_operand(value: Value, build: Builder) -> Quantized | None:
    """What `value` is as 8-bit integers, a zero point and a scale; None where it is not that."""
    op = value.op
    if value.dtype in NARROW:
        return Quantized(value)
    if op is None:
        return None
    if op.name in MOVEMENTS:
        inner = quantized_operand(op.operands[0], build)
        return None if inner is None else _moved(inner, op, build)
    scaled = _scaled(value, build) if value.dtype == F32 else None
    return _shifted(value, build) if scaled is None else scaled


def _scaled(value: Value, build: Builder) -> Quantized | None:
    """The operand of a multiplication by a scale; None where `value` is no product."""
    product = made_by(value, "mul")
    if product is None:
        return None
    for x, factor in (product.operands, product.operands[::-1]):
        inner = _shifted(x, build)
        if inner is not None:
            return replace(inner, scale=_spread(factor, build))
    return None


def _shifted(value: Value, build: Builder) -> Quantized | None:
    """The operand of a subtraction of a zero point, or of a cast alone."""
    difference = made_by(value, "sub")
    if difference is None:
        widened = made_by(value, "cast")
        source = None if widened is None else widened.operands[0]
        return Quantized(source) if source is not None and source.dtype in NARROW else _narrow_constant(value, build)
    inner = _shifted(difference.operands[0], build)
    zero = _zero_point(difference.operands[1], build)
    if inner is None or inner.zero is not None or zero is None:
        return None
    if zero.array is not None and not zero.array.any():
        return inner
    return None if inner.source.dtype.is_float else replace(inner, zero=zero)


def _narrow_constant(value: Value, build: Builder) -> Quantized | None:
    """A constant of i32 that fits in 8 bits less a zero point: weights whose subtraction has been carried out."""
    array = constant_of(value)
    if array is None or value.dtype != I32 or array.size == 0:
        return None
    for dtype in (I8, U8):
        narrow = array.astype(dtype.numpy)
        if np.array_equal(narrow, array):
            return Quantized(build.constant(narrow))
    least, most = int(array.min()), int(array.max())
    # A byte less another is no further from 0 than bytes reach.
    if not -BYTE <= least <= most <= min(BYTE, least + BYTE):
        return None
    return Quantized(build.constant((array - least).astype(np.uint8)), Spread(build.constant(np.array(-least, "i4"))))


def _zero_point(value: Value, build: Builder) -> Spread | None:
    """A zero point as i32: of integers, or of f32 that hold what was an integer of 8 bits."""
    spread = _spread(value, build)
    cast = made_by(spread.value, "cast")
    source = spread.value if cast is None else cast.operands[0]
    array = constant_of(source)
    if source.dtype in (I8, U8):
        # A long constant has not been folded with its cast.
        return replace(spread, value=build.cast(source, I32) if array is None else build.constant(array.astype("i4")))
    if array is None or not np.array_equal(array, np.clip(np.rint(array), -128, 255)):
        return None
    return replace(spread, value=build.constant(array.astype("i4")))


def _spread(value: Value, build: Builder) -> Spread:
    """`value` without the axes along which it repeats."""
    source, axes = unbroadcast(value)
    array = constant_of(source)
    if array is not None:
        # Repeated constants of few elements have been folded.
        source = build.constant(_unrepeated(array))
    kept = [axis for axis, size in enumerate(source.shape) if size != 1]
    dense = build.with_shape(source, [source.shape[axis] for axis in kept])
    return Spread(dense, tuple(axes[axis] for axis in kept))


def _unrepeated(array: np.ndarray) -> np.ndarray:
    """One element of each axis along which all are equal."""
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] > 1 else array
        array = first if np.array_equal(np.broadcast_to(first, array.shape), array) else array
    return array


def _moved(inner: Quantized, op: Op, build: Builder) -> Quantized | None:
    """The same integers after a movement; zero points and scales of an axis only follow a transpose."""
    spreads = [spread for spread in (inner.zero, inner.scale) if spread is not None and spread.axes]
    if spreads and op.name != "transpose":
        return None
    source = build.op(op.name, [inner.source], op.attributes)[0]
    if not spreads:
        return replace(inner, source=source)
    order = op.ints("permutation")
    zero, scale = (_turned(spread, order, build) for spread in (inner.zero, inner.scale))
    return Quantized(source, zero, scale)


def _turned(spread: Spread | None, order: Sequence[int], build: Builder) -> Spread | None:
    """`spread` beside an operand whose axis i was its axis order[i]."""
    if spread is None:
        return None
    axes = [order.index(axis) for axis in spread.axes]
    moved = sorted(axes)
    return Spread(build.transpose(spread.value, [axes.index(axis) for axis in moved]), tuple(moved))
