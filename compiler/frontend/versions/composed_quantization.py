"""Quantisation by the operators of numbers: exact in integers, then scaled in f32 as the operators do."""

from collections.abc import Mapping

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.sizes import along
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.compiler.frontend.versions.upward import Adapter

__all__ = [
    "conv_integer",
    "dequantize_linear",
    "dequantize_linear_21",
    "dynamic_quantize_linear",
    "matmul_integer",
    "per_axis",
    "qlinear_conv",
    "qlinear_matmul",
    "quantize_linear",
    "quantize_linear_21",
]

F32, I32 = TensorProto.FLOAT, TensorProto.INT32
BOUNDS: Mapping[int, tuple[int, int]] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767),
}
ROUND_SINCE = 11
CLIP_BY_INPUTS_SINCE = 11

FARTHEST = 2.0**17
"""Beyond what any zero point brings to an integer of 16 bits; what is infinite has no fraction."""


def _quantized(at: Steps, scaled: str, zero_point: str, element: int) -> None:
    """Makes the node the integers next to `scaled`, an even one of two, behind the zero point."""
    if element not in BOUNDS:
        at.change.fail("the type of its result is not known")
    is_old = at.change.version < ROUND_SINCE
    whole = _rounded(at, _clipped(at, scaled, -FARTHEST, FARTHEST)) if is_old else at("Round", scaled)
    moved = at("Add", whole, at("Cast", zero_point, to=F32)) if zero_point else whole
    at.become("Cast", _clipped(at, moved, *BOUNDS[element]), to=element)


def _clipped(at: Steps, x: str, low: float, high: float) -> str:
    """f32 within bounds, which were attributes first."""
    if at.change.version < CLIP_BY_INPUTS_SINCE:
        return at("Clip", x, min=float(low), max=float(high))
    return at("Clip", x, at.constant(low, np.float32), at.constant(high, np.float32))


def _rounded(at: Steps, x: str) -> str:
    """The nearest integer of finite numbers of f32, the even one of two, without a choice, which opset 8 lacks."""
    half = at.constant(0.5, np.float32)
    floor = at("Floor", x)
    rest, halved = at("Sub", x, floor), at("Mul", floor, half)
    is_odd = at("Less", at("Floor", halved), halved)
    goes_up = at("Or", at("Greater", rest, half), at("And", at("Not", at("Less", rest, half)), is_odd))
    return at("Add", floor, at("Cast", goes_up, to=F32))


def quantize_linear(change: Change) -> None:
    """round(x / scale) + zero point, clamped"""
    at, zero = Steps(change), change.input(2)
    scaled = at("Div", at.cast(change.input(0), F32), _granular(at, 1))
    _quantized(at, scaled, _granular(at, 2) if zero else "", change.element(2) if zero else TensorProto.UINT8)


def dequantize_linear(change: Change) -> None:
    """(x - zero point) scale"""
    at = Steps(change)
    x = at.cast(change.input(0), I32)
    if change.input(2):
        x = at("Sub", x, at("Cast", _granular(at, 2), to=I32))
    at.become("Mul", at("Cast", x, to=F32), _granular(at, 1))


def per_axis(composed: Adapter) -> Adapter:
    """Composed where a scale is not known to be one number, for which alone there are older words."""

    def adapt(change: Change) -> None:
        if change.shape(change.input(1)) not in ((), (1,)):
            composed(change)

    return adapt


def quantize_linear_21(change: Change) -> None:
    """Composed where the result has 16 bits."""
    if change.element(2) in (TensorProto.UINT16, TensorProto.INT16) and not change.integer("block_size"):
        quantize_linear(change)


def dequantize_linear_21(change: Change) -> None:
    """Composed where the operand has 16 bits."""
    if change.element(0) in (TensorProto.UINT16, TensorProto.INT16) and not change.integer("block_size"):
        dequantize_linear(change)


def _granular(at: Steps, position: int) -> str:
    """A scale or zero point, which is one number, or one for each index of an axis."""
    shape, rank = at.change.shape(at.change.input(position)), at.change.rank(0)
    if rank < 2 or shape in ((), (1,)):
        return at.change.input(position) if rank and shape != (1,) else _scalar(at, position)
    return along(at, at.change.input(position), at.change.axis(at.change.integer("axis", 1)), rank)


def _scalar(at: Steps, position: int) -> str:
    """A scale or zero point, which is one element, of rank 0."""
    name = at.change.input(position)
    if at.change.shape(name) == ():
        return name
    return at("Reshape", name, at.integers())


def dynamic_quantize_linear(change: Change) -> None:
    """Quantised by the range of x and 0; the scale and the zero point are outputs too."""
    at, x = Steps(change), change.input(0)
    zero = at.constant(0, np.float32)
    high = at("Max", at("ReduceMax", x, keepdims=0), zero)
    low = at("Min", at("ReduceMin", x, keepdims=0), zero)
    extent = at("Sub", high, low)
    is_flat = at("Not", at("Or", at("Greater", extent, zero), at("IsNaN", extent)))
    extent = at("Where", is_flat, at.constant(1, np.float32), extent)
    scale = at("Div", extent, at.constant(255, np.float32))
    clamped = at("Min", at("Max", at("Div", at("Neg", low), scale), zero), at.constant(255, np.float32))
    zero_point = at("Cast", _rounded(at, clamped), to=TensorProto.UINT8)
    at.give(1, scale)
    at.give(2, zero_point)
    at.become("QuantizeLinear", x, scale, zero_point)


# Products


def _shifted(at: Steps, x: str, zero_point: str, element: int) -> str:
    """x - zero point, exactly."""
    wide = at("Cast", x, to=element)
    return at("Sub", wide, at("Cast", zero_point, to=element)) if zero_point else wide


def _per_row(at: Steps, position: int, rank: int) -> str:
    """One value, or one for each row, ready to broadcast."""
    name = at.change.input(position)
    shape = at.change.shape(name) if name else None
    if not name or rank < 2 or shape is None or len(shape) != 1 or shape == (1,):
        return name
    return at.over("Unsqueeze", name, [1])


def _shifted_pair(at: Steps, operands: tuple[int, int], zeros: tuple[int, int]) -> tuple[str, str]:
    """i32: what is multiplied, at positions of the inputs."""
    left, right = (at.change.input(position) for position in operands)
    rows = _per_row(at, zeros[0], at.change.rank(operands[0]))
    return _shifted(at, left, rows, I32), _shifted(at, right, at.change.input(zeros[1]), I32)


def matmul_integer(change: Change) -> None:
    """The product of what is left of the zero points, in i32."""
    at = Steps(change)
    at.become("MatMul", *_shifted_pair(at, (0, 1), (2, 3)))


def qlinear_matmul(change: Change) -> None:
    """The product, scaled and quantised."""
    at, element = Steps(change), change.element(7)
    rank = max(change.rank(0), change.rank(3))
    product = at("Cast", at("MatMul", *_shifted_pair(at, (0, 3), (2, 5))), to=F32)
    scales = at("Mul", _per_row(at, 1, rank), change.input(4))
    factor = at("Div", scales, _per_row(at, 6, rank))
    _quantized(at, at("Mul", product, factor), _per_row(at, 7, rank), element)


def _convolved(at: Steps, x: str, w: str) -> str:
    """i64: a convolution, summed in f64, which holds its terms exactly; as i32 it wraps."""
    total = at("Conv", x, w)
    at.change.ahead[-1].attribute.extend(at.change.node.attribute)
    return at("Cast", total, to=TensorProto.INT64)


def _filters(at: Steps, position: int, axis: int, rank: int) -> str:
    """One value, or one for each filter, along the axis of the filters."""
    name = at.change.input(position)
    shape = at.change.shape(name) if name else None
    if not name or shape is None or len(shape) != 1 or shape == (1,):
        return name
    behind = [*range(1, rank - axis)]
    return at.over("Unsqueeze", name, behind) if behind else name


def conv_integer(change: Change) -> None:
    """The convolution of what is left of the zero points."""
    at, rank, wide = Steps(change), change.rank(0), TensorProto.DOUBLE
    x = _shifted(at, change.input(0), _scalar(at, 2) if change.input(2) else "", wide)
    w = _shifted(at, change.input(1), _filters(at, 3, 0, rank), wide)
    at.become("Cast", _convolved(at, x, w), to=I32)


def qlinear_conv(change: Change) -> None:
    """The convolution with its bias, scaled and quantised."""
    at, rank, element, wide = Steps(change), change.rank(0), change.element(7), TensorProto.DOUBLE
    x = _shifted(at, change.input(0), _scalar(at, 2), wide)
    w = _shifted(at, change.input(3), _filters(at, 5, 0, rank), wide)
    total = at("Cast", _convolved(at, x, w), to=I32)
    if change.input(8):
        total = at("Add", total, _filters(at, 8, 1, rank))
    factor = at("Div", at("Mul", _filters(at, 4, 1, rank), _scalar(at, 1)), _scalar(at, 6))
    _quantized(at, at("Mul", at("Cast", total, to=F32), factor), _scalar(at, 7), element)
