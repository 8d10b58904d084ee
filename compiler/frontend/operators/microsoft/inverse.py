"""Inverse of com.microsoft: inverses of matrices, by elimination with the largest pivot of each column."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.elimination import Stack, square_matrices
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Block, Value
from onnxc.compiler.ir.types import TensorType


@operator("Inverse", since=(1,), domain=MICROSOFT)
def inverse(node: Node, ir: Builder) -> Value:
    """X: T[*, M, M]  ->  T[*, M, M]; of a singular matrix, infinities and NaN"""
    x, (stack, matrices) = node.input("X"), square_matrices(node, ir)
    (rows, _, batch), dtype = stack.sizes(matrices), matrices.dtype
    square, row, column = stack.shape(rows, rows, batch), stack.axis, stack.axis + 1
    identity = ir.cast(ir.equal(ir.iota(square, row, I64), ir.iota(square, column, I64)), dtype)
    joined = TensorType(dtype, stack.shape(rows, rows * 2, batch))
    (reduced,) = ir.while_(
        limit=ir.size(rows),
        condition=ir.scalar(True, BOOL),
        carried=(ir.with_shape(ir.concatenate([matrices, identity], column), joined.known_shape),),
        captures=(),
        body=_elimination(ir, stack, joined),
        types=(joined,),
        symbol=ir.symbols.fresh("columns"),
    )
    inverses = stack.unstacked(ir.slice_axis(reduced, column, rows, rows), ir)
    return ir.cast(ir.reshape(inverses, x.shape), x.dtype)


def _elimination(outer: Builder, stack: Stack, joined: TensorType) -> Block:
    """(column: i64[], joined: matrices of M rows and 2 M columns) -> the same, the column that of the identity."""
    ir = outer.nested()
    column = ir.parameter("column", TensorType(I64, ()))
    matrices = ir.parameter("joined", joined)
    step = stack.pivoted(matrices, column, ir)
    scaled = ir.div(step.top, stack.each_column(stack.each_row(step.pivot, ir), ir))
    factor = stack.each_column(step.column, ir)
    cleared = ir.sub(step.matrices, ir.mul(factor, scaled))
    at_column = stack.each_column(ir.equal(step.row, column), ir)
    return ir.block((column, matrices), (ir.scalar(True, BOOL), ir.select(at_column, scaled, cleared)))
