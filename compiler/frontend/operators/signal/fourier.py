"""DFT and STFT: discrete Fourier transforms."""

import math

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least, floordiv
from onnxc.compiler.ir.dtypes import F32, F64, I64, DType
from onnxc.compiler.ir.module import Value


@operator("DFT", since=(17,))
def dft_with_axis_attribute(node: Node, ir: Builder) -> Value:
    """input: T[B, ..., 1 or 2], dft_length: I[]?  ->  T[..., 2 or 1], along the attribute `axis`

    Source: https://onnx.ai/onnx/operators/onnx__DFT.html
    """
    return _along_known_axis(_signal(node), node.int("axis"), node, ir)


@operator("DFT", since=(20,))
def dft(node: Node, ir: Builder) -> Value:
    """input: T[..., 1 or 2], dft_length: I[]?, axis: i64[]?  ->  T[..., 2 or 1], along `axis`, the last one by default

    Source: https://onnx.ai/onnx/operators/onnx__DFT.html
    """
    x, axis = _signal(node), node.optional("axis")
    if axis is None:
        return _along_known_axis(x, -2, node, ir)
    axis = as_scalar(axis, "axis", node, ir)
    known = ir.known(axis)
    if known is not None and isinstance(known[0], int):
        return _along_known_axis(x, known[0], node, ir)
    return _along_unknown_axis(x, ir.cast(axis, I64), node, ir)


def _signal(node: Node) -> Value:
    x = node.input("input")
    if x.rank < 2 or (isinstance(x.shape[-1], int) and x.shape[-1] not in (1, 2)):
        message = f"input is {x.type}: its last axis does not hold real, or real and imaginary parts"
        node.fail("complex-parts", message, rule=f"ONNX {node.operator}, input")
    is_inverse, is_onesided = node.flag("inverse"), _is_onesided(node)
    if is_onesided and not is_inverse and x.shape[-1] == 2:
        node.fail("complex-signal", f"a one-sided transform of a complex signal {x.type}", rule="ONNX DFT, onesided")
    if is_onesided and is_inverse and x.shape[-1] == 1:
        node.fail("complex-signal", f"a one-sided inverse of a real spectrum {x.type}", rule="ONNX DFT, onesided")
    return x


def _is_onesided(node: Node) -> bool:
    value = node.int("onesided")
    if value not in (0, 1):
        rule = f"ONNX {node.operator}, attribute onesided"
        node.fail("attribute-range", f"onesided is {value}, neither 0 nor 1", rule=rule)
    return value == 1


def _along_known_axis(x: Value, axis: int, node: Node, ir: Builder) -> Value:
    if not -x.rank <= axis < x.rank - 1 or axis == -1:
        message = f"axis is {axis}, outside [{-x.rank}, -2] and [0, {x.rank - 2}]"
        node.fail("axis-out-of-range", message, rule="ONNX DFT, axis")
    axis %= x.rank
    order = [*(other for other in range(x.rank - 1) if other != axis), axis, x.rank - 1]
    is_inverse, is_onesided = node.flag("inverse"), _is_onesided(node)
    length = _length(x.shape[axis], node, ir)
    y = _transformed(ir.transpose(x, order), length, node, ir, inverse=is_inverse, onesided=is_onesided)
    return ir.transpose(y, [order.index(other) for other in range(x.rank)])


def _along_unknown_axis(x: Value, axis: Value, node: Node, ir: Builder) -> Value:
    """The transform along an axis that only the call tells: the axes before it are one, and so are those behind it."""
    last = x.rank - 1
    wrapped = ir.wrap_negative(axis, x.rank)
    is_legal = ir.and_(ir.greater_equal(wrapped, 0), ir.less(wrapped, last))
    (ordinal,) = ir.read_sizes(ir.select(is_legal, wrapped, last), "axis")
    ir.guard(last - 1, ordinal, "at_least", f"DFT: the axis is no signal axis of {list(x.shape)}")
    sizes, ordinals = ir.sizes(x.shape[:-1]), ir.iota((last,), 0, I64)
    sides = [
        ir.reduce(ir.select(compare(ordinals, wrapped), sizes, 1), "prod", (0,), keepdims=True)
        for compare in (ir.less, ir.equal, ir.greater)
    ]
    before, size, behind = read_lengths(ir.concatenate(sides, 0), "axis", node, ir)
    flat = ir.reshape(x, (before, size, behind, x.shape[-1]))
    y = _along_known_axis(flat, 1, node, ir)
    if y.shape[1] == size:
        return ir.reshape(y, (*x.shape[:-1], y.shape[-1]))
    shape = ir.select(ir.equal(ordinals, wrapped), ir.size(y.shape[1]), sizes)
    return ir.reshape(y, (*read_lengths(shape, "axis", node, ir), y.shape[-1]))


def _length(size: Dim, node: Node, ir: Builder) -> Dim:
    """How long the signal is to be: `dft_length`, or as long as it is; behind half a spectrum of an even length."""
    given = node.optional("dft_length")
    if given is not None:
        (size,) = ir.read_sizes(as_scalar(given, "dft_length", node, ir), "length")
    elif node.flag("inverse") and node.flag("onesided"):
        size = 2 * (size - 1)
    if at_least(0, size):
        node.fail("dft-length", f"the length of the signal is {size}, not above 0", rule="ONNX DFT, dft_length")
    ir.guard(size, 1, "at_least", "DFT: the length of the signal is not above 0")
    return size


def _transformed(x: Value, length: Dim, node: Node, ir: Builder, *, inverse: bool, onesided: bool) -> Value:
    """The transform along the axis before the last.

    Forward ones are computed in f64. Inverse ones are in the type of the signal, for the standard's tests expect what
    those of f32 leave where the exact result is 0.
    """
    narrow = F64 if x.dtype == F64 else F32
    signal = _with_known_parts(ir.cast(x, narrow), node, ir, is_real=onesided and not inverse)
    if onesided and inverse and signal.shape[-1] == 1:
        signal = ir.pad(signal, (0,) * x.rank, (*[0] * (x.rank - 1), 1))
    roots = roots_of_one(length, narrow if inverse else F64, ir)
    return ir.cast(ir.fourier(signal, roots, inverse=inverse, onesided=onesided), x.dtype)


def roots_of_one(length: Dim, dtype: DType, ir: Builder) -> Value:
    """dtype[length, 2]: cosine and sine of each multiple of the length-th part of a turn."""
    step = ir.div(ir.scalar(2 * math.pi, F64), ir.cast(ir.size(length), F64))
    angle = ir.mul(ir.iota((length, 1), 0, F64), step)
    return ir.cast(ir.concatenate([ir.unary("cos", angle), ir.unary("sin", angle)], 1), dtype)


def _with_known_parts(x: Value, node: Node, ir: Builder, *, is_real: bool) -> Value:
    """`x` with 1 part, or with 2 where only the call tells, of which the imaginary one may be zeros."""
    parts, last = x.shape[-1], x.rank - 1
    if isinstance(parts, int):
        return x
    ir.guard(parts, 1, "at_least", f"{node.operator}: a signal without parts")
    real = ir.slice_axis(x, last, 0, 1)
    if is_real:
        ir.guard(parts, 1, "equal", f"{node.operator}: a one-sided transform takes a real signal")
        return real
    ir.guard(2, parts, "at_least", f"{node.operator}: a signal of more than 2 parts")
    ordinal = ir.reshape(ir.size(parts - 1), (1,))
    imaginary = ir.select(ir.equal(ir.broadcast_to(ordinal, real.shape), 1), ir.gather(x, ordinal, last), 0.0)
    return ir.concatenate([real, imaginary], last)


@operator("STFT", since=(17,))
def stft(node: Node, ir: Builder) -> Value:
    """signal: T[B, S, 1 or 2], frame_step: I[], window: T[L]?, frame_length: I[]?  ->  T[B, frames, bins, 2]

    A signal T[B, S] is real: PyTorch's exporter writes it so, and ONNX Runtime takes it.

    Source: https://onnx.ai/onnx/operators/onnx__STFT.html
    """
    x, window = node.input("signal"), node.optional("window")
    if x.rank == 2:
        x = ir.unsqueeze(x, [2])
    if x.rank != 3 or (isinstance(x.shape[-1], int) and x.shape[-1] not in (1, 2)):
        node.fail("signal-shape", f"signal is {x.type}, neither [B, S] nor [B, S, 1 or 2]", rule="ONNX STFT, signal")
    is_onesided = _is_onesided(node)
    if is_onesided and x.shape[-1] == 2:
        node.fail("complex-signal", f"a one-sided transform of a complex signal {x.type}", rule="ONNX STFT, onesided")
    frames = _frames(x, _frame_step(node, ir), _frame_length(x, window, node, ir), ir)
    if window is not None:
        wide = ir.cast(window, frames.dtype)
        frames = ir.mul(frames, ir.broadcast(wide, (2,), frames.shape))
    y = _transformed(frames, frames.shape[2], node, ir, inverse=False, onesided=is_onesided)
    return ir.cast(y, x.dtype)


def _frames(x: Value, step: Dim, length: Dim, ir: Builder) -> Value:
    """T[B, frames, length, parts], in f32 at least: a frame begins `step` behind the one before."""
    count = floordiv(x.shape[1] - length, step) + 1
    starts = ir.mul(ir.iota((count, length), 0, I64), ir.size(step))
    frames = ir.gather(x, ir.add(starts, ir.iota((count, length), 1, I64)), 1)
    return ir.cast(frames, F64 if x.dtype == F64 else F32)


def _frame_step(node: Node, ir: Builder) -> Dim:
    (step,) = ir.read_sizes(as_scalar(node.input("frame_step"), "frame_step", node, ir), "step")
    if at_least(0, step):
        node.fail("frame-step", f"frame_step is {step}, not positive", rule="ONNX STFT, frame_step")
    ir.guard(step, 1, "at_least", "STFT: frame_step is not positive")
    return step


def _frame_length(x: Value, window: Value | None, node: Node, ir: Builder) -> Dim:
    length = _said_length(x, window, node, ir)
    message = f"the signal of {x.shape[1]} is shorter than a frame of {length}"
    if at_least(0, length) or at_least(length, x.shape[1] + 1):
        node.fail("frame-length", message, rule="ONNX STFT, frame_length")
    ir.guard(x.shape[1], length, "at_least", message)
    ir.guard(length, 1, "at_least", "STFT: a frame has no elements")
    return length


def _said_length(x: Value, window: Value | None, node: Node, ir: Builder) -> Dim:
    given = node.optional("frame_length")
    if window is not None and window.rank != 1:
        node.fail("window-rank", f"window is {window.type}, not a vector", rule="ONNX STFT, window")
    if given is None:
        return x.shape[1] if window is None else window.shape[0]
    (length,) = ir.read_sizes(as_scalar(given, "frame_length", node, ir), "frame")
    if window is None:
        return length
    return ir.require_equal(length, window.shape[0], "frame_length and the length of window differ", "frame-length")
