"""Det: determinants, by Gaussian elimination with the largest pivot of each column."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.elimination import Stack, square_matrices
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Block, Value
from onnxc.compiler.ir.types import TensorType

FEWEST_PARTED, WIDTH, MOST_PARTS = 12, 16, 8
"""All rows and columns that there are take part in the elimination of each. So matrices of more rows than the first
lose rows and columns in parts, which leave whole vectors, lines of so many elements, or half of more of them."""


@operator("Det", since=(11, 22))
def det(node: Node, ir: Builder) -> Value:
    """X: T[*, M, M]  ->  T[*]; of no rows, 1

    Source: https://onnx.ai/onnx/operators/onnx__Det.html
    """
    x, (stack, matrices) = node.input("X"), square_matrices(node, ir)
    rows, _, batch = stack.sizes(matrices)
    determinants = ir.full((batch,), 1, matrices.dtype)
    for columns in _parts(rows):
        matrices, determinants = _eliminated(matrices, determinants, columns, stack, ir)
    return ir.cast(ir.reshape(determinants, x.shape[:-2]), x.dtype)


def _parts(rows: Dim) -> list[Dim]:
    """The columns that are eliminated one after another in matrices of one size."""
    parts: list[Dim] = []
    while isinstance(rows, int) and rows > FEWEST_PARTED:
        left = rows // 2 if rows > MOST_PARTS * WIDTH or rows <= WIDTH else rows - 1
        left -= left % WIDTH if left > WIDTH else 0
        parts.append(rows - left)
        rows = left
    return [*parts, rows]


def _eliminated(matrices: Value, determinants: Value, columns: Dim, stack: Stack, ir: Builder) -> tuple[Value, Value]:
    """The matrices without their first rows and columns, and the determinants times the pivots of these."""
    rows, _, batch = stack.sizes(matrices)
    types = (matrices.tensor, determinants.tensor)
    changed, products = ir.while_(
        limit=ir.size(columns),
        condition=ir.scalar(True, BOOL),
        carried=(matrices, determinants),
        captures=(),
        body=_elimination(ir, stack, types),
        types=types,
        symbol=ir.symbols.fresh("columns"),
    )
    if rows == columns:
        return changed, products
    left: Dim = rows - columns
    starts: list[Dim] = [0] * matrices.rank
    starts[stack.axis] = starts[stack.axis + 1] = columns
    return ir.slice(changed, starts, stack.shape(left, left, batch)), products


def _elimination(outer: Builder, stack: Stack, types: tuple[TensorType, TensorType]) -> Block:
    """(column: i64[], matrices, determinants: T[B]) -> the same, the column cleared below the diagonal."""
    ir = outer.nested()
    column = ir.parameter("column", TensorType(I64, ()))
    matrices, determinants = ir.parameter("matrices", types[0]), ir.parameter("determinants", types[1])
    step = stack.pivoted(matrices, column, ir)
    below = ir.and_(ir.less(column, step.row), stack.each_row(ir.not_equal(step.pivot, 0), ir))
    factor = ir.div(step.column, stack.each_row(step.pivot, ir))
    factor = stack.each_column(ir.select(below, factor, 0), ir)
    sign = ir.select(ir.equal(step.pivot_row, column), ir.scalar(1, step.pivot.dtype), -1)
    results = (
        ir.scalar(True, BOOL),
        ir.sub(step.matrices, ir.mul(factor, step.top)),
        ir.mul(determinants, ir.mul(sign, step.pivot)),
    )
    return ir.block((column, matrices, determinants), results)
