"""AffineGrid: the positions of pixels, moved by an affine map."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F64
from onnxc.compiler.ir.module import Value


@operator("AffineGrid", since=(20,))
def affine_grid(node: Node, ir: Builder) -> Value:
    """theta: T[N, r, r + 1], size: i64[r + 2] = (N, C, *S)  ->  T[N, *S, r], r = 2 or 3; the last axis counts x, y, z.

    Positions are in f64, as zeros are expected to come out as such.
    Source: https://onnx.ai/onnx/operators/onnx__AffineGrid.html
    """
    theta = node.input("theta")
    if theta.rank != 3:
        node.fail("affine-grid-theta", f"theta has rank {theta.rank}, not 3", rule="ONNX AffineGrid, theta")
    known_rank = theta.shape[1] if theta.rank == 3 and isinstance(theta.shape[1], int) else None
    entries = None if known_rank is None else known_rank + 2
    size = read_lengths(node.input("size"), "size", node, ir, entries, code="affine-grid-size")
    rank = len(size) - 2
    if rank not in (2, 3):
        node.fail("affine-grid-size", f"size has {len(size)} entries, not 4 or 5", rule="ONNX AffineGrid, size")
    theta = of_shape(theta, (size[0], rank, rank + 1), "theta", node, ir, "affine-grid-theta")
    batch, spatial = theta.shape[0], size[2:]
    wide, shape = ir.cast(theta, F64), (batch, *spatial, rank)
    moved = ir.broadcast(_column(wide, rank, ir), (0, rank + 1), shape)
    for k in range(rank):
        axis = rank - 1 - k
        position = ir.broadcast(_positions(spatial[axis], node.flag("align_corners"), ir), (axis + 1,), shape)
        moved = ir.add(moved, ir.mul(ir.broadcast(_column(wide, k, ir), (0, rank + 1), shape), position))
    return ir.cast(moved, theta.dtype)


def _column(theta: Value, k: int, ir: Builder) -> Value:
    """theta[N, r, k]"""
    return ir.squeeze(ir.slice_axis(theta, 2, k, 1), (2,))


def _positions(length: Dim, align_corners: bool, ir: Builder) -> Value:
    """f64[S]: the coordinates along an axis, from -1 to 1 over the centers of the pixels or over all of them.

    The center of a single pixel is 0, as in PyTorch.
    """
    index, count = ir.iota((length,), 0, F64), ir.cast(ir.size(length), F64)
    if not align_corners:
        return ir.sub(ir.div(ir.add(ir.mul(index, 2.0), 1.0), count), 1.0)
    step = ir.div(2.0, ir.sub(count, 1.0))
    return ir.select(ir.less(1.0, count), ir.sub(ir.mul(index, step), 1.0), 0.0)
