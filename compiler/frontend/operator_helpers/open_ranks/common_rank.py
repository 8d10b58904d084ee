"""Operators of elements, whose operands are broadcast together, where only data tells the ranks of several.

Cases would be one for each combination of ranks: 343 of three operands. Instead each operand gets leading axes of
size 1 up to the greatest rank that is told apart, and the result loses those that none of the operands has.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from onnxc.compiler.frontend.case_split import MOST_AXES
from onnxc.compiler.frontend.joining.squeezed_ones import may_have_any_rank
from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.broadcasting import NUMPY_SINCE
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType

_WITHOUT = "without_leading_ones"

ElementLowering = Callable[[Node, Builder], Value]


def at_common_rank(lowering: ElementLowering) -> ElementLowering:
    """`lowering`, without cases where only data tells the ranks of two operands or more; other nodes as they are.

    An operand that was computed so goes on so, alone too: a case for each of its ranks would not tell those of the
    operands that it comes from.
    """

    def lower(node: Node, ir: Builder) -> Value:
        operands = [value for value in node.operands if value is not None]
        loose = [value for value in dict.fromkeys(operands) if may_have_any_rank(value)]
        is_alone = len(loose) < 2 and not any(map(_spread, loose))
        if is_alone or (len(operands) > 1 and node.since < NUMPY_SINCE):
            return lowering(node, ir)
        ranked = {value: with_leading_ones(value, ir) for value in loose}
        result = lowering(replace(node, operands=tuple(ranked.get(value, value) for value in operands)), ir)
        return without_leading_ones(result, reduce(ir.max, [rank_of(value, ir) for value in operands]), ir)

    return lower


def _spread(value: Value) -> tuple[Value, Value] | None:
    """The tensor of the common rank and the rank, i64[], of which a value was made here."""
    if value.op is None or value.op.name != "host" or value.op.text("function") != _WITHOUT:
        return None
    x, rank = value.op.operands
    return x, rank


def broadcast_input(name: str, onto: Value, node: Node, ir: Builder) -> Value:
    """The required input `name`, which is broadcast to `onto`: where only data tells its rank, at that of `onto`."""
    value = optional_broadcast_input(name, onto, node, ir)
    return node.input(name) if value is None else value


def optional_broadcast_input(name: str, onto: Value, node: Node, ir: Builder) -> Value | None:
    """As `broadcast_input`; None where the input is absent."""
    value = node.host_input(name)
    if value is None or not may_have_any_rank(value):
        return node.optional(name)
    return with_leading_ones(value, ir, onto.rank)


def with_leading_ones(value: Value, ir: Builder, rank: int = MOST_AXES) -> Value:
    """A tensor of any rank, up to `rank`, with that many axes."""
    spread = _spread(value)
    if spread is not None and spread[0].rank == rank:
        return spread[0]
    sizes = tuple(ir.fresh_symbol("axis") for _ in range(rank))
    return ir.host("with_leading_ones", (value,), (TensorType(value.tensor.dtype, sizes),), {"rank": rank})[0]


def without_leading_ones(value: Value, rank: Value, ir: Builder) -> Value:
    """The tensor, of no rank, of the last axes; rank: i64[], how many."""
    return ir.host(_WITHOUT, (value, rank), (TensorType(value.dtype, None),), {})[0]


def rank_of(value: Value, ir: Builder) -> Value:
    """i64[]: the number of axes."""
    spread = _spread(value)
    if spread is not None:
        return spread[1]
    if value.tensor.shape is not None:
        return ir.size(value.rank)
    return ir.host("rank_of", (value,), (TensorType(I64, ()),), {})[0]
