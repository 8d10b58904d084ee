"""Gaussian elimination in stacks of matrices: the step that all uses of it have in common."""

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

__all__ = ["Pivoted", "pivoted", "square_matrices"]


@record
class Pivoted:
    """A column whose row has the largest pivot there is.

    top: T[B, 1, W], the row of the pivot; pivot: T[B]; matrices: T[B, M, W] with the row that gave way in its place;
    pivot_row: i64[B], where it was; row: i64[B, M], the ordinals of rows.
    """

    top: Value
    pivot: Value
    matrices: Value
    pivot_row: Value
    row: Value


def square_matrices(node: Node, ir: Builder) -> Value:
    """X: T[*, M, M] as T[B, M, M], in a type that is computed in; f32 at least."""
    x = node.input("X")
    if x.rank < 2:
        node.fail("det-rank", f"X has {x.rank} axes, no matrices", rule=f"ONNX {node.operator}")
    rows = ir.require_equal(x.shape[-2], x.shape[-1], "the matrices of X are not square", "not-square")
    return ir.reshape(ir.cast(x, wide_type(x.dtype)), (product(x.shape[:-2]), rows, rows))


def pivoted(matrices: Value, column: Value, ir: Builder) -> Pivoted:
    """Of T[B, M, W] the largest element at or below the diagonal of a column: i64[], and its row exchanged."""
    batch, rows, width = matrices.shape
    row = ir.iota((batch, rows), 1, I64)
    candidates = ir.abs(ir.gather(matrices, column, 2))
    pivot_row = ir.arg_reduce(ir.select(ir.less(row, column), -1, candidates), "max", 1)
    top = ir.gather_along(matrices, ir.broadcast(pivot_row, (0,), (batch, 1, width)), 1)
    pivot = ir.gather(ir.squeeze(top, [1]), column, 1)
    displaced = ir.unsqueeze(ir.gather(matrices, column, 1), [1])
    at_pivot = ir.unsqueeze(ir.equal(row, ir.unsqueeze(pivot_row, [1])), [2])
    return Pivoted(top, pivot, ir.select(at_pivot, displaced, matrices), pivot_row, row)
