"""Nested blocks without `reshard` and `enter_stage`: what a branch or a loop computes, each device computes whole."""

from onnxc.compiler.ir.module import Block, Op, Value, walk

_SAYINGS = ("reshard", "enter_stage")


def without_reshards(block: Block) -> Block:
    """The block with what only says where values are replaced by its operand."""
    if not any(op.name in _SAYINGS for op in walk(block)):
        return block
    values: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in block.ops:
        operands = tuple(values.get(operand, operand) for operand in op.operands)
        if op.name in _SAYINGS:
            values[op.result] = operands[0]
            continue
        blocks = tuple(map(without_reshards, op.blocks))
        made = Op(op.name, operands, op.attributes, blocks, op.result_types, op.location)
        values.update(zip(op.results, made.results, strict=True))
        ops.append(made)
    return Block(block.parameters, tuple(ops), tuple(values.get(result, result) for result in block.results))
