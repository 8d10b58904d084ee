"""A block in which each use of a constant has the constant for itself, so that uses may be divided differently.

Equal biases of many layers are one constant by now. Divided as one, what a layer asks would go on to all others.
"""

from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.op_facts import is_cheap
from onnxc.compiler.ir.prune import prune


def with_own_constants(block: Block) -> Block:
    """The block where constants, counters and either broadcast are made for each op that reads them."""
    made = _Copies()
    for op in block.ops:
        made.add(op)
    results = tuple(map(made.operand, block.results))
    return prune(Block(block.parameters, tuple(made.ops), results))


class _Copies:
    """The ops so far, and the values that stand for those of the original."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.values: dict[Value, Value] = {}

    def add(self, op: Op) -> Op:
        """A copy of the op behind those so far."""
        operands = tuple(map(self.operand, op.operands))
        blocks = tuple(map(with_own_constants, op.blocks))
        copy = Op(op.name, operands, op.attributes, blocks, op.result_types, op.location)
        self.ops.append(copy)
        self.values.update(zip(op.results, copy.results, strict=True))
        return copy

    def operand(self, value: Value) -> Value:
        """What stands for a value at one use."""
        if value.op is not None and is_cheap(value):
            return self.add(value.op).results[value.index]
        return self.values.get(value, value)
