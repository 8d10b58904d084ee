"""OneHot: indices as vectors that are on at one index."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, element, of_shape, read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.known_elements import LIMIT
from onnxc.compiler.ir.module import Value

NEGATIVE_SINCE = 11


@operator("OneHot", since=(9, 11, 28))
def one_hot(node: Node, ir: Builder) -> Value:
    """indices: T1[...], depth: T2[], values: T3[2] = (off, on)  ->  T3[... depth ...], the new axis at `axis`.

    Since 11 negative indices count from the end; before, they must not be. What is out of range is off everywhere.
    Source: https://onnx.ai/onnx/operators/onnx__OneHot.html
    """
    indices, depth, values = node.inputs("indices", "depth", "values")
    axis = node.axis("axis", rank=indices.rank + 1)
    values = of_shape(values, (2,), "values", node, ir, "one-hot-values")
    (size,) = read_lengths(as_scalar(depth, "depth", node, ir), "depth", node, ir)
    wide = ir.cast(indices, I64)
    if node.since >= NEGATIVE_SINCE:
        wide = ir.wrap_negative(wide, size)
    else:
        _warn_of_negative(node, ir.known_array(indices))
    shape = (*indices.shape[:axis], size, *indices.shape[axis:])
    axes = [other for other in range(len(shape)) if other != axis]
    hot = ir.equal(ir.broadcast(wide, axes, shape), _positions(indices, shape, axis, ir))
    off, on = (ir.broadcast(element(values, ordinal, ir), (), shape) for ordinal in (0, 1))
    return ir.select(hot, on, off)


def _positions(indices: Value, shape: Sequence[Dim], axis: int, ir: Builder) -> Value:
    """The place along the new axis, known where the indices are: then what is a size where it is on stays one."""
    size = shape[axis]
    if ir.known_array(indices) is None or not isinstance(size, int) or size > LIMIT:
        return ir.iota(shape, axis, I64)
    return ir.broadcast(ir.constant(np.arange(size, dtype=np.int64)), (axis,), shape)


def _warn_of_negative(node: Node, indices: np.ndarray | None) -> None:
    if indices is not None and indices.size and indices.min() < 0:
        message = f"indices has {indices.min()}, which is off everywhere before opset {NEGATIVE_SINCE}"
        node.warn("negative-index", message, "ONNX OneHot-9, indices must be non-negative")
