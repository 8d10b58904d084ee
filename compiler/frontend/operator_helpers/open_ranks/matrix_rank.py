"""Products of matrices of which only data tells the ranks.

Cases would be one for each combination of ranks: 49 of two operands, and so many more for scales and zero points.
Instead all have one rank: vectors are the matrices that they are promoted to, before which there are axes of size 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from onnxc.compiler.frontend.case_split import MOST_AXES
from onnxc.compiler.frontend.joining.squeezed_ones import may_have_any_rank
from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import rank_of, with_leading_ones
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType

COLUMNS = frozenset(("B", "b", "a_zero_point", "a_scale", "y_scale", "y_zero_point"))
"""Inputs whose vectors are columns, and not rows: the right matrix, and what there is for each row of the left one."""

_MATRICES = frozenset("AaBb")

ProductLowering = Callable[[Node, Builder], Value]


def at_matrix_rank(lowering: ProductLowering) -> ProductLowering:
    """`lowering`, without cases where only data tells the rank of one matrix and of another operand; else as it is."""

    def lower(node: Node, ir: Builder) -> Value:
        named = {
            formal.name: value for formal, value in zip(node.graph_node.schema.inputs, node.operands, strict=False)
        }
        given = {name: value for name, value in named.items() if value is not None}
        matrices = [value for name, value in given.items() if name in _MATRICES]
        if not _is_open(matrices, tuple(given.values())):
            return lowering(node, ir)
        ranked = {name: _at_rank(name, value, ir) for name, value in given.items()}
        product = lowering(replace(node, operands=tuple(map(ranked.get, named))), ir)
        ranks = [rank_of(value, ir) for value in matrices]
        return ir.host("without_promoted_axes", (product, *ranks), (TensorType(product.dtype, None),), {})[0]

    return lower


def _is_open(matrices: Sequence[Value], operands: Sequence[Value]) -> bool:
    """Whether only data tells the rank of one of the matrices and of another operand."""
    loose = [value for value in dict.fromkeys(operands) if may_have_any_rank(value)]
    most = max((value.rank for value in operands if value.tensor.shape is not None), default=0)
    return len(loose) > 1 and any(map(may_have_any_rank, matrices)) and most <= MOST_AXES


def _at_rank(name: str, value: Value, ir: Builder) -> Value:
    """The operand with MOST_AXES axes, a vector as a row or a column."""
    if value.tensor.shape is None:
        return _as_columns(value, ir) if name in COLUMNS else with_leading_ones(value, ir)
    if value.rank == 1 and name in COLUMNS:
        value = ir.unsqueeze(value, [1])
    return ir.reshape(value, (1,) * (MOST_AXES - value.rank) + value.shape)


def _as_columns(value: Value, ir: Builder) -> Value:
    sizes = tuple(ir.fresh_symbol("axis") for _ in range(MOST_AXES))
    return ir.host("as_columns", (value,), (TensorType(value.tensor.dtype, sizes),), {"rank": MOST_AXES})[0]
