"""Inverse of com.microsoft: inverses of matrices, by elimination with the largest pivot of each column."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Block, Value
from onnxc.compiler.ir.types import TensorType


@operator("Inverse", since=(1,), domain=MICROSOFT)
def inverse(node: Node, ir: Builder) -> Value:
    """X: T[*, M, M]  ->  T[*, M, M]; of a singular matrix, infinities and NaN"""
    x = node.input("X")
    if x.rank < 2:
        node.fail("det-rank", f"X has {x.rank} axes, no matrices", rule="ONNX Runtime Inverse")
    rows = ir.require_equal(x.shape[-2], x.shape[-1], "the matrices of X are not square", "not-square")
    batch, dtype = product(x.shape[:-2]), wide_type(x.dtype)
    matrices = ir.reshape(ir.cast(x, dtype), (batch, rows, rows))
    identity = ir.cast(ir.equal(ir.iota((batch, rows, rows), 1, I64), ir.iota((batch, rows, rows), 2, I64)), dtype)
    joined = TensorType(dtype, (batch, rows, rows * 2))
    (reduced,) = ir.while_(
        limit=ir.size(rows),
        condition=ir.scalar(True, BOOL),
        carried=(ir.with_shape(ir.concatenate([matrices, identity], 2), (batch, rows, rows * 2)),),
        captures=(),
        body=_elimination(ir, joined, rows),
        types=(joined,),
        symbol=ir.symbols.fresh("columns"),
    )
    return ir.cast(ir.reshape(ir.slice_axis(reduced, 2, rows, rows), x.shape), x.dtype)


def _elimination(outer: Builder, joined: TensorType, rows: Dim) -> Block:
    """(column: i64[], joined: T[B, M, 2 M]) -> the same, the column that of the identity."""
    ir = outer.nested()
    column = ir.parameter("column", TensorType(I64, ()))
    matrices = ir.parameter("joined", joined)
    batch, _, width = matrices.shape
    row = ir.iota((batch, rows), 1, I64)
    candidates = ir.abs(ir.gather(matrices, column, 2))
    pivot_row = ir.arg_reduce(ir.select(ir.less(row, column), -1, candidates), "max", 1)
    top = ir.gather_along(matrices, ir.broadcast(pivot_row, (0,), (batch, 1, width)), 1)
    pivot = ir.gather(ir.squeeze(top, [1]), column, 1)
    scaled = ir.div(top, ir.unsqueeze(pivot, [1, 2]))
    # The row that gives way goes where the pivot row was.
    displaced = ir.unsqueeze(ir.gather(matrices, column, 1), [1])
    at_pivot = ir.unsqueeze(ir.equal(row, ir.unsqueeze(pivot_row, [1])), [2])
    swapped = ir.select(at_pivot, displaced, matrices)
    factor = ir.unsqueeze(ir.gather(swapped, column, 2), [2])
    cleared = ir.sub(swapped, ir.mul(factor, scaled))
    at_column = ir.unsqueeze(ir.equal(row, column), [2])
    return ir.block((column, matrices), (ir.scalar(True, BOOL), ir.select(at_column, scaled, cleared)))
