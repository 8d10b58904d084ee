"""Derivatives of Fourier transforms, which are Fourier transforms."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.derivatives.movement import pad_axis
from onnxc.compiler.ir.differentiation.derivative import Gradients, Step, derivative
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value


@derivative("fourier")
def fourier(step: Step, build: Builder) -> Gradients:
    """The transposed transform of g: forward and inverse change parts, and so do cutting and filling up with zeros

    Of a one-sided inverse, each bin but those that are real stands for itself and its conjugate.
    """
    x, roots = step.operands
    along, count = x.rank - 2, roots.shape[0]
    inverse, onesided = step.op.flag("inverse"), step.op.flag("onesided")
    size = build.cast(build.size(count), x.dtype)
    back = build.fourier(step.gradient, roots, inverse=not inverse, onesided=inverse and onesided)
    back = build.div(back, size) if inverse else build.mul(back, size)
    if inverse and onesided:
        bin = build.iota(back.shape, along, I64)
        is_real = build.or_(build.equal(bin, 0), build.equal(build.mul(bin, 2), build.size(count)))
        back = build.select(is_real, back, build.mul(back, 2))
    fitted = _cut_or_fill(back, along, x.shape[along], build)
    return build.slice_axis(fitted, x.rank - 1, 0, x.shape[-1]), None


def _cut_or_fill(x: Value, axis: int, size: Dim, build: Builder) -> Value:
    kept = minimum(x.shape[axis], size)
    return pad_axis(build.slice_axis(x, axis, 0, kept), axis, 0, maximum(size - kept, 0), build)
