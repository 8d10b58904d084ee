"""DFT and STFT: discrete Fourier transforms, by the fast transforms of the host."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least, floordiv
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Attribute, Value
from onnxc.compiler.ir.types import TensorType


@operator("DFT", since=(17,))
def dft_with_axis_attribute(node: Node, ir: Builder) -> Value:
    """input: T[B, ..., 1 or 2], dft_length: I[]?  ->  T[..., 2 or 1], along the attribute `axis`

    Source: https://onnx.ai/onnx/operators/onnx__DFT.html
    """
    return _transformed(_signal(node), node.int("axis"), None, node, ir)


@operator("DFT", since=(20,))
def dft(node: Node, ir: Builder) -> Value:
    """input: T[..., 1 or 2], dft_length: I[]?, axis: i64[]?  ->  T[..., 2 or 1], along `axis`, the last one by default

    Source: https://onnx.ai/onnx/operators/onnx__DFT.html
    """
    x, axis = _signal(node), node.optional("axis")
    if axis is None:
        return _transformed(x, -2, None, node, ir)
    axis = as_scalar(axis, "axis", node, ir)
    known = ir.known(axis)
    static_axis = known[0] if known is not None and isinstance(known[0], int) else None
    return _transformed(x, static_axis, axis, node, ir)


def _signal(node: Node) -> Value:
    x = node.input("input")
    if x.rank < 2 or (isinstance(x.shape[-1], int) and x.shape[-1] not in (1, 2)):
        message = f"input is {x.type}: its last axis does not hold real, or real and imaginary parts"
        node.fail("complex-parts", message, rule=f"ONNX {node.operator}, input")
    return x


def _is_onesided(node: Node) -> bool:
    value = node.int("onesided")
    if value not in (0, 1):
        rule = f"ONNX {node.operator}, attribute onesided"
        node.fail("attribute-range", f"onesided is {value}, neither 0 nor 1", rule=rule)
    return value == 1


def _transformed(x: Value, static_axis: int | None, axis: Value | None, node: Node, ir: Builder) -> Value:
    """The transform along an axis that is known, or that `axis` tells at the call."""
    is_inverse, is_onesided = node.flag("inverse"), _is_onesided(node)
    if is_onesided and not is_inverse and x.shape[-1] == 2:
        node.fail("complex-signal", f"a one-sided transform of a complex signal {x.type}", rule="ONNX DFT, onesided")
    if is_onesided and is_inverse and x.shape[-1] == 1:
        node.fail("complex-signal", f"a one-sided inverse of a real spectrum {x.type}", rule="ONNX DFT, onesided")
    if static_axis is None:
        assert axis is not None, node
        shape, length = _of_unknown_axis(x, axis, node, ir)
    else:
        if not -x.rank <= static_axis < x.rank - 1 or static_axis == -1:
            message = f"axis is {static_axis}, outside [{-x.rank}, -2] and [0, {x.rank - 2}]"
            node.fail("axis-out-of-range", message, rule="ONNX DFT, axis")
        static_axis %= x.rank
        axis = ir.scalar(static_axis, I64)
        shape, length = _of_axis(x, static_axis, node, ir)
    attributes: dict[str, Attribute] = {"inverse": is_inverse, "onesided": is_onesided}
    operands = (x, length, ir.cast(axis, I64))
    return ir.host("fourier_transform", operands, (TensorType(x.dtype, shape),), attributes)[0]


def _length(node: Node, ir: Builder) -> Dim | None:
    value = node.optional("dft_length")
    return None if value is None else ir.read_sizes(as_scalar(value, "dft_length", node, ir), "length")[0]


def _of_axis(x: Value, axis: int, node: Node, ir: Builder) -> tuple[tuple[Dim, ...], Value]:
    """The shape of the result, and the length of the signal as i64[]."""
    is_inverse, is_onesided = node.flag("inverse"), node.flag("onesided")
    length = _length(node, ir)
    if length is not None and at_least(0, length):
        node.fail("dft-length", f"dft_length is {length}, not above 0", rule="ONNX DFT, dft_length")
    if length is None:
        length = 2 * (x.shape[axis] - 1) if is_inverse and is_onesided else x.shape[axis]
    shape = list(x.shape)
    shape[axis] = floordiv(length, 2) + 1 if is_onesided and not is_inverse else length
    shape[-1] = 1 if is_onesided and is_inverse else 2
    return tuple(shape), ir.size(length)


def _of_unknown_axis(x: Value, axis: Value, node: Node, ir: Builder) -> tuple[tuple[Dim, ...], Value]:
    """As `_of_axis`: any size may be another, unless the transform keeps them all."""
    is_inverse, is_onesided = node.flag("inverse"), node.flag("onesided")
    length = node.optional("dft_length")
    if length is not None:
        wanted = ir.cast(as_scalar(length, "dft_length", node, ir), I64)
    else:
        wanted = ir.gather(ir.sizes(x.shape), ir.wrap_negative(axis, x.rank), 0)
        wanted = ir.mul(ir.sub(wanted, 1), 2) if is_inverse and is_onesided else wanted
        if not is_onesided:
            return (*x.shape[:-1], 2), wanted
    sizes = tuple(ir.fresh_symbol("transformed") for _ in x.shape[:-1])
    return (*sizes, 1 if is_onesided and is_inverse else 2), wanted


@operator("STFT", since=(17,))
def stft(node: Node, ir: Builder) -> Value:
    """signal: T[B, S, 1 or 2], frame_step: I[], window: T[L]?, frame_length: I[]?  ->  T[B, frames, bins, 2]

    Source: https://onnx.ai/onnx/operators/onnx__STFT.html
    """
    x, window = node.input("signal"), node.optional("window")
    if x.rank != 3 or (isinstance(x.shape[-1], int) and x.shape[-1] not in (1, 2)):
        node.fail("signal-shape", f"signal is {x.type}, not [B, S, 1 or 2]", rule="ONNX STFT, signal")
    (step,) = ir.read_sizes(as_scalar(node.input("frame_step"), "frame_step", node, ir), "step")
    if isinstance(step, int) and step < 1:
        node.fail("frame-step", f"frame_step is {step}, not positive", rule="ONNX STFT, frame_step")
    length = _frame_length(x, window, node, ir)
    message = f"the signal of {x.shape[1]} is shorter than a frame of {length}"
    if at_least(0, length) or at_least(length, x.shape[1] + 1):
        node.fail("frame-length", message, rule="ONNX STFT, frame_length")
    ir.guard(x.shape[1], length, "at_least", message)
    if window is None:
        window = ir.full((length,), 1, x.dtype)
    is_onesided = _is_onesided(node)
    if is_onesided and x.shape[-1] == 2:
        node.fail("complex-signal", f"a one-sided transform of a complex signal {x.type}", rule="ONNX STFT, onesided")
    frames = floordiv(x.shape[1] - length, step) + 1
    bins = floordiv(length, 2) + 1 if is_onesided else length
    type = TensorType(x.dtype, (x.shape[0], frames, bins, 2))
    operands = (x, ir.size(step), window)
    return ir.host("short_time_fourier_transform", operands, (type,), {"onesided": is_onesided})[0]


def _frame_length(x: Value, window: Value | None, node: Node, ir: Builder) -> Dim:
    given = node.optional("frame_length")
    if window is not None and window.rank != 1:
        node.fail("window-rank", f"window is {window.type}, not a vector", rule="ONNX STFT, window")
    if given is None:
        return x.shape[1] if window is None else window.shape[0]
    (length,) = ir.read_sizes(as_scalar(given, "frame_length", node, ir), "frame")
    if window is None:
        return length
    return ir.require_equal(length, window.shape[0], "frame_length and the length of window differ", "frame-length")
