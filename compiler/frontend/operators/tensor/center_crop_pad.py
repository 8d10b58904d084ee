"""CenterCropPad: the middle of a tensor, or the tensor in the middle."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_vector, read_lengths, zero
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.module import Value


@operator("CenterCropPad", since=(18,))
def center_crop_pad(node: Node, ir: Builder) -> Value:
    """input_data: T[d...], shape: I[n]  ->  T[*shape], cropped or zero-padded evenly, an odd element on the right.

    Source: https://onnx.ai/onnx/operators/onnx__CenterCropPad.html
    """
    x = node.input("input_data")
    axes = node.axes_list(node.ints("axes", range(x.rank)), x.rank)
    wanted = as_vector(node.input("shape"), "shape", node, ir, len(axes), "crop-shape")
    lengths = read_lengths(wanted, "shape", node, ir)
    starts: list[Dim] = [0] * x.rank
    low: list[Dim] = [0] * x.rank
    high: list[Dim] = [0] * x.rank
    shape, result = list(x.shape), list(x.shape)
    for axis, length in zip(axes, lengths, strict=True):
        size = x.shape[axis]
        starts[axis], shape[axis] = floordiv(maximum(size - length, 0), 2), minimum(size, length)
        padding = maximum(length - size, 0)
        low[axis] = floordiv(padding, 2)
        high[axis] = padding - low[axis]
        result[axis] = length
    return ir.with_shape(ir.pad(ir.slice(x, starts, shape), low, high, zero(x.dtype, ir)), result)
