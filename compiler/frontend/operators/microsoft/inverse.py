"""Inverse of com.microsoft: inverses of matrices, by elimination with the largest pivot of each column."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.elimination import pivoted, square_matrices
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Block, Value
from onnxc.compiler.ir.types import TensorType


@operator("Inverse", since=(1,), domain=MICROSOFT)
def inverse(node: Node, ir: Builder) -> Value:
    """X: T[*, M, M]  ->  T[*, M, M]; of a singular matrix, infinities and NaN"""
    x, matrices = node.input("X"), square_matrices(node, ir)
    (batch, rows, _), dtype = matrices.shape, matrices.dtype
    identity = ir.cast(ir.equal(ir.iota((batch, rows, rows), 1, I64), ir.iota((batch, rows, rows), 2, I64)), dtype)
    joined = TensorType(dtype, (batch, rows, rows * 2))
    (reduced,) = ir.while_(
        limit=ir.size(rows),
        condition=ir.scalar(True, BOOL),
        carried=(ir.with_shape(ir.concatenate([matrices, identity], 2), (batch, rows, rows * 2)),),
        captures=(),
        body=_elimination(ir, joined),
        types=(joined,),
        symbol=ir.symbols.fresh("columns"),
    )
    return ir.cast(ir.reshape(ir.slice_axis(reduced, 2, rows, rows), x.shape), x.dtype)


def _elimination(outer: Builder, joined: TensorType) -> Block:
    """(column: i64[], joined: T[B, M, 2 M]) -> the same, the column that of the identity."""
    ir = outer.nested()
    column = ir.parameter("column", TensorType(I64, ()))
    matrices = ir.parameter("joined", joined)
    step = pivoted(matrices, column, ir)
    scaled = ir.div(step.top, ir.unsqueeze(step.pivot, [1, 2]))
    factor = ir.unsqueeze(ir.gather(step.matrices, column, 2), [2])
    cleared = ir.sub(step.matrices, ir.mul(factor, scaled))
    at_column = ir.unsqueeze(ir.equal(step.row, column), [2])
    return ir.block((column, matrices), (ir.scalar(True, BOOL), ir.select(at_column, scaled, cleared)))
