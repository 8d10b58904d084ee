"""Det: determinants, by Gaussian elimination with the largest pivot of each column."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.elimination import Stack, square_matrices
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Block, Value
from onnxc.compiler.ir.types import TensorType


@operator("Det", since=(11, 22))
def det(node: Node, ir: Builder) -> Value:
    """X: T[*, M, M]  ->  T[*]; of no rows, 1

    Source: https://onnx.ai/onnx/operators/onnx__Det.html
    """
    x, (stack, matrices) = node.input("X"), square_matrices(node, ir)
    (rows, _, batch), dtype = stack.sizes(matrices), matrices.dtype
    types = (matrices.tensor, TensorType(dtype, (batch,)))
    _, determinants = ir.while_(
        limit=ir.size(rows),
        condition=ir.scalar(True, BOOL),
        carried=(matrices, ir.full((batch,), 1, dtype)),
        captures=(),
        body=_elimination(ir, stack, types),
        types=types,
        symbol=ir.symbols.fresh("columns"),
    )
    return ir.cast(ir.reshape(determinants, x.shape[:-2]), x.dtype)


def _elimination(outer: Builder, stack: Stack, types: tuple[TensorType, TensorType]) -> Block:
    """(column: i64[], matrices, determinants: T[B]) -> the same, the column cleared below the diagonal."""
    ir = outer.nested()
    column = ir.parameter("column", TensorType(I64, ()))
    matrices, determinants = ir.parameter("matrices", types[0]), ir.parameter("determinants", types[1])
    step = stack.pivoted(matrices, column, ir)
    below = ir.and_(ir.less(column, step.row), stack.each_row(ir.not_equal(step.pivot, 0), ir))
    factor = ir.div(stack.column(step.matrices, column, ir), stack.each_row(step.pivot, ir))
    factor = stack.each_column(ir.select(below, factor, 0), ir)
    sign = ir.select(ir.equal(step.pivot_row, column), ir.scalar(1, step.pivot.dtype), -1)
    results = (
        ir.scalar(True, BOOL),
        ir.sub(step.matrices, ir.mul(factor, step.top)),
        ir.mul(determinants, ir.mul(sign, step.pivot)),
    )
    return ir.block((column, matrices, determinants), results)
