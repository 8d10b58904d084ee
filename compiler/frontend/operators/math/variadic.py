"""Sum, Mean, Max and Min of any number of tensors.

data_0 ... data_n: T[...]  ->  T[...], broadcast; before opset 8 all of one shape.

Source: https://onnx.ai/onnx/operators/
"""

from collections.abc import Sequence
from functools import reduce as fold

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import ElementLowering, at_common_rank
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

BROADCASTS_SINCE = 8

# operator: primitive, versions
ROWS: dict[str, tuple[str, Sequence[int]]] = {
    "Max": ("max", (1, 6, 8, 12, 13)),
    "Min": ("min", (1, 6, 8, 12, 13)),
}


def _lowering(primitive: str) -> ElementLowering:
    def lower(node: Node, ir: Builder) -> Value:
        return fold(lambda a, b: ir.binary(primitive, a, b), _operands(node, ir))

    return lower


for _name, (_primitive, _since) in ROWS.items():
    operator(_name, since=_since)(at_common_rank(_lowering(_primitive)))


@operator("Sum", since=(1, 6, 8, 13))
@at_common_rank
def sum(node: Node, ir: Builder) -> Value:
    """The sum; of 16-bit floats in f32, rounded once.

    Source: https://onnx.ai/onnx/operators/onnx__Sum.html
    """
    operands = _operands(node, ir)
    return ir.cast(_total(operands, ir), operands[0].dtype)


@operator("Mean", since=(1, 6, 8, 13))
@at_common_rank
def mean(node: Node, ir: Builder) -> Value:
    """The sum divided by the number of tensors.

    Source: https://onnx.ai/onnx/operators/onnx__Mean.html
    """
    operands = _operands(node, ir)
    return ir.cast(ir.div(_total(operands, ir), len(operands)), operands[0].dtype)


def _total(operands: Sequence[Value], ir: Builder) -> Value:
    return fold(ir.add, (widened(operand, ir) for operand in operands))


def _operands(node: Node, ir: Builder) -> tuple[Value, ...]:
    operands = node.variadic()
    if node.since < BROADCASTS_SINCE:
        _expect_one_shape(operands, node, ir)
    return ir.broadcast_together(*operands)


def _expect_one_shape(operands: Sequence[Value], node: Node, ir: Builder) -> None:
    first, *others = operands
    rule = f"ONNX {node.operator} before opset {BROADCASTS_SINCE}"
    for other in others:
        if other.rank != first.rank:
            node.fail("shapes-differ", f"the ranks differ: {first.rank} and {other.rank}", rule=rule)
        for axis, (left, right) in enumerate(zip(first.shape, other.shape, strict=True)):
            ir.require_equal(left, right, f"axis {axis} differs", "shapes-differ")
