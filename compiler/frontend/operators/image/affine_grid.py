"""AffineGrid: the positions of pixels, moved by an affine map."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
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
    rows = [_positions(spatial, axis, node.flag("align_corners"), ir) for axis in reversed(range(rank))]
    rows.append(ir.full(spatial, 1.0, F64))
    count = product(spatial)
    points = ir.concatenate([ir.reshape(row, (1, count)) for row in rows], 0)
    moved = ir.dot(ir.cast(theta, F64), points, "nrk,ks->nsr")
    return ir.cast(ir.reshape(moved, (batch, *spatial, rank)), theta.dtype)


def _positions(spatial: tuple[Dim, ...], axis: int, align_corners: bool, ir: Builder) -> Value:
    """f64[*S]: the coordinate along `axis`, from -1 to 1 over the centers of the pixels or over all of them.

    The center of a single pixel is 0, as in PyTorch.
    """
    index, length = ir.iota(spatial, axis, F64), ir.cast(ir.size(spatial[axis]), F64)
    if not align_corners:
        return ir.sub(ir.div(ir.add(ir.mul(index, 2.0), 1.0), length), 1.0)
    step = ir.div(2.0, ir.sub(length, 1.0))
    return ir.select(ir.less(1.0, length), ir.sub(ir.mul(index, step), 1.0), 0.0)
