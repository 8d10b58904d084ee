"""Gaussian elimination in stacks of matrices: the step that all uses of it have in common."""

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

__all__ = ["Pivoted", "Stack", "square_matrices"]

LARGEST_IN_LANES = 16
"""Matrices of more rows are computed one after another. us on Zen 5 for f32 one after another and in lanes: [64, 8, 8]
27.4, 6.9; [500, 3, 3] 21.7, 6.6; [500, 64, 64] 35,600, 41,200; one of 64 rows alone 29, 428."""


@record
class Stack:
    """B matrices of M rows: T[M, W, B], each in a lane, or T[B, M, W]. `axis` is that of the rows: 0 or 1.

    What has one number for each row and matrix is [M, B] or [B, M], its rows on the same axis.
    """

    axis: int

    def shape(self, rows: Dim, width: Dim, batch: Dim) -> tuple[Dim, ...]:
        """The shape of such matrices."""
        return (rows, width, batch) if self.axis == 0 else (batch, rows, width)

    def sizes(self, matrices: Value) -> tuple[Dim, Dim, Dim]:
        """(M, W, B)"""
        shape = matrices.shape
        return (shape[0], shape[1], shape[2]) if self.axis == 0 else (shape[1], shape[2], shape[0])

    def stacked(self, matrices: Value, ir: Builder) -> Value:
        """T[B, M, W] in this order."""
        return ir.transpose(matrices, (1, 2, 0)) if self.axis == 0 else matrices

    def unstacked(self, matrices: Value, ir: Builder) -> Value:
        """Matrices in this order as T[B, M, W]."""
        return ir.transpose(matrices, (2, 0, 1)) if self.axis == 0 else matrices

    def each_row(self, batch: Value, ir: Builder) -> Value:
        """T[B] as what each row of a matrix has."""
        return ir.unsqueeze(batch, [self.axis])

    def each_column(self, rows: Value, ir: Builder) -> Value:
        """What each row has as what each of its elements has."""
        return ir.unsqueeze(rows, [self.axis + 1])

    def column(self, matrices: Value, ordinal: Value, ir: Builder) -> Value:
        """The elements of a column, one for each row."""
        return ir.gather(matrices, ordinal, self.axis + 1)

    def pivoted(self, matrices: Value, column: Value, ir: Builder) -> "Pivoted":
        """The largest element at or below the diagonal of a column: i64[], and its row exchanged."""
        rows, width, batch = self.sizes(matrices)
        row = ir.iota((rows, 1) if self.axis == 0 else (1, rows), self.axis, I64)
        below = self.column(matrices, column, ir)
        candidates = ir.abs(below)
        pivot_row = ir.arg_reduce(ir.select(ir.less(row, column), -1, candidates), "max", self.axis)
        picked = ir.broadcast(pivot_row, (2 - 2 * self.axis,), self.shape(1, width, batch))
        top = ir.gather_along(matrices, picked, self.axis)
        pivot = ir.gather(ir.squeeze(top, [self.axis]), column, self.axis)
        displaced = ir.unsqueeze(ir.gather(matrices, column, self.axis), [self.axis])
        is_pivot = ir.equal(row, self.each_row(pivot_row, ir))
        exchanged = ir.select(self.each_column(is_pivot, ir), displaced, matrices)
        # Not taken from the exchanged matrices, which nobody else then reads: they need not be written.
        first = ir.gather(ir.squeeze(displaced, [self.axis]), column, self.axis)
        factors = ir.select(is_pivot, self.each_row(first, ir), below)
        return Pivoted(top, pivot, exchanged, factors, pivot_row, row)


@record
class Pivoted:
    """A column whose row has the largest pivot there is.

    top: the row of the pivot, of each matrix; pivot: T[B]; matrices: with the row that gave way in its place; column:
    the one of them in which the pivot is;
    pivot_row: i64[B], where it was; row: the ordinals of rows, the same for all matrices.
    """

    top: Value
    pivot: Value
    matrices: Value
    column: Value
    pivot_row: Value
    row: Value


def square_matrices(node: Node, ir: Builder) -> tuple[Stack, Value]:
    """X: T[*, M, M] as a stack of matrices, in a type that is computed in; f32 at least."""
    x = node.input("X")
    if x.rank < 2:
        node.fail("det-rank", f"X has {x.rank} axes, no matrices", rule=f"ONNX {node.operator}")
    rows = ir.require_equal(x.shape[-2], x.shape[-1], "the matrices of X are not square", "not-square")
    matrices = ir.reshape(ir.cast(x, wide_type(x.dtype)), (product(x.shape[:-2]), rows, rows))
    stack = Stack(0 if isinstance(rows, int) and rows <= LARGEST_IN_LANES else 1)
    return stack, stack.stacked(matrices, ir)
