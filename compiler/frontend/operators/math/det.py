"""Det: determinants, by Gaussian elimination with the largest pivot of each column."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Block, Value
from onnxc.compiler.ir.types import TensorType


@operator("Det", since=(11, 22))
def det(node: Node, ir: Builder) -> Value:
    """X: T[*, M, M]  ->  T[*]; of no rows, 1

    Source: https://onnx.ai/onnx/operators/onnx__Det.html
    """
    x = node.input("X")
    if x.rank < 2:
        node.fail("det-rank", f"X has {x.rank} axes, no matrices", rule="ONNX Det")
    rows = ir.require_equal(x.shape[-2], x.shape[-1], "the matrices of X are not square", "not-square")
    batch, dtype = product(x.shape[:-2]), wide_type(x.dtype)
    matrices = ir.reshape(ir.cast(x, dtype), (batch, rows, rows))
    types = (TensorType(dtype, (batch, rows, rows)), TensorType(dtype, (batch,)))
    _, determinants = ir.while_(
        limit=ir.size(rows),
        condition=ir.scalar(True, BOOL),
        carried=(matrices, ir.full((batch,), 1, dtype)),
        captures=(),
        body=_elimination(ir, types, rows),
        types=types,
        symbol=ir.symbols.fresh("columns"),
    )
    return ir.cast(ir.reshape(determinants, x.shape[:-2]), x.dtype)


def _elimination(outer: Builder, types: tuple[TensorType, TensorType], rows: Dim) -> Block:
    """(column: i64[], matrices: T[B, M, M], determinants: T[B]) -> the same, the column cleared below the diagonal."""
    ir = outer.nested()
    column = ir.parameter("column", TensorType(I64, ()))
    matrices, determinants = ir.parameter("matrices", types[0]), ir.parameter("determinants", types[1])
    batch = determinants.shape[0]
    row = ir.iota((batch, rows), 1, I64)
    candidates = ir.abs(ir.gather(matrices, column, 2))
    pivot_row = ir.arg_reduce(ir.select(ir.less(row, column), -1, candidates), "max", 1)
    picked = ir.broadcast(pivot_row, (0,), (batch, 1, rows))
    top = ir.gather_along(matrices, picked, 1)
    pivot = ir.gather(ir.squeeze(top, [1]), column, 1)
    at_pivot = ir.equal(row, ir.unsqueeze(pivot_row, [1]))
    # The row that gives way goes where the pivot row was; the pivot row itself is not needed any more.
    displaced = ir.unsqueeze(ir.gather(matrices, column, 1), [1])
    swapped = ir.select(ir.unsqueeze(at_pivot, [2]), displaced, matrices)
    below = ir.and_(ir.less(column, row), ir.unsqueeze(ir.not_equal(pivot, 0), [1]))
    factor = ir.div(ir.gather(swapped, column, 2), ir.unsqueeze(pivot, [1]))
    factor = ir.unsqueeze(ir.select(below, factor, 0), [2])
    sign = ir.select(ir.equal(pivot_row, column), ir.scalar(1, pivot.dtype), -1)
    results = (
        ir.scalar(True, BOOL),
        ir.sub(swapped, ir.mul(factor, top)),
        ir.mul(determinants, ir.mul(sign, pivot)),
    )
    return ir.block((column, matrices, determinants), results)
