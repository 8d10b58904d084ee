"""Derivatives of functions of the host: those that compute floats from floats, of which there are the transforms."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.derivatives.movement import pad_axis
from onnxc.compiler.ir.differentiation.derivative import (
    Derivative,
    Gradients,
    NotDifferentiable,
    Step,
    derivative,
    independent,
)
from onnxc.compiler.ir.differentiation.pull_back import pull_back
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType


@derivative("host")
def host(step: Step, build: Builder) -> Gradients:
    """By function"""
    function = step.op.text("function")
    if function not in FUNCTIONS:
        raise NotDifferentiable(step.op, f"host function {function} has no derivative")
    return FUNCTIONS[function](step, build)


def _fourier_transform(step: Step, build: Builder) -> Gradients:
    """The transposed transform of g: forward and inverse change parts, and so do cutting and filling up with zeros

    Of a one-sided inverse, each bin but those that are real stands for itself and its conjugate.
    """
    x, length, axis = step.operands
    known = build.known(axis)
    if known is None or not isinstance(known[0], int):
        raise NotDifferentiable(step.op, "a transform along an axis that only data tells has no derivative")
    along, (count,) = known[0] % x.rank, build.read_sizes(length, "length")
    inverse, onesided = step.op.flag("inverse"), step.op.flag("onesided")
    size = build.cast(build.size(count), x.dtype)
    back = _transform(step.gradient, count, along, not inverse, inverse and onesided, build)
    back = build.div(back, size) if inverse else build.mul(back, size)
    if inverse and onesided:
        bin = build.iota(back.shape, along, I64)
        is_real = build.or_(build.equal(bin, 0), build.equal(build.mul(bin, 2), build.size(count)))
        back = build.select(is_real, back, build.mul(back, 2))
    fitted = _cut_or_fill(back, along, x.shape[along], build)
    return build.slice_axis(fitted, x.rank - 1, 0, x.shape[-1]), None, None


def _transform(x: Value, length: Dim, axis: int, inverse: bool, onesided: bool, build: Builder) -> Value:
    """T[..., 1 or 2]  ->  T[..., 2]: `length` bins, or half of them and one."""
    bins = floordiv(length, 2) + 1 if onesided else length
    type = TensorType(x.dtype, (*x.shape[:axis], bins, *x.shape[axis + 1 : -1], 2))
    operands = (x, build.size(length), build.scalar(axis, I64))
    return build.host("fourier_transform", operands, (type,), {"inverse": inverse, "onesided": onesided})[0]


def _cut_or_fill(x: Value, axis: int, size: Dim, build: Builder) -> Value:
    kept = minimum(x.shape[axis], size)
    return pad_axis(build.slice_axis(x, axis, 0, kept), axis, 0, maximum(size - kept, 0), build)


def _short_time_fourier_transform(step: Step, build: Builder) -> Gradients:
    """Through the transform of frames that are gathered and multiplied by the window"""
    x, window = (
        independent(operand, build) if is_wanted else operand
        for operand, is_wanted in zip(step.operands[::2], step.wanted[::2], strict=True)
    )
    frames, length = step.y.shape[1], window.shape[0]
    first = build.mul(build.iota((frames, length), 0, I64), step.operands[1])
    gathered = build.gather(x, build.add(first, build.iota((frames, length), 1, I64)), 1)
    windowed = build.mul(gathered, build.broadcast(window, (2,), gathered.shape))
    result = _transform(windowed, length, 2, False, step.op.flag("onesided"), build)
    in_x, in_window = pull_back([result], step.gradients, [x, window], build)
    return in_x, None, in_window


FUNCTIONS: dict[str, Derivative] = {
    "fourier_transform": _fourier_transform,
    "short_time_fourier_transform": _short_time_fourier_transform,
}
