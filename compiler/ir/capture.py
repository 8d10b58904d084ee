"""Closing blocks: values used from outside become operands of the op that owns the block, and parameters of it.

Constants, known sizes and counters are not passed but made again inside, so that a nested block folds as its function
does.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.ir.module import Block, Op, Parameter, Value
from onnxc.compiler.ir.op_facts import is_generated


def close_blocks(blocks: Sequence[Block]) -> tuple[tuple[Value, ...], tuple[Block, ...]]:
    """The values that `blocks` use from outside, and the blocks with one more parameter for each of them."""
    captured = dict.fromkeys(value for block in blocks for value in _free_values(block))
    passed = tuple(value for value in captured if not is_generated(value))
    return passed, tuple(_close(block, tuple(captured)) for block in blocks)


def _free_values(block: Block) -> list[Value]:
    inside = {*block.parameters, *(result for op in block.ops for result in op.results)}
    used = [operand for op in block.ops for operand in op.operands] + list(block.results)
    return [value for value in used if value not in inside]


def _close(block: Block, captured: Sequence[Value]) -> Block:
    inner: dict[Value, Value] = {}
    parameters, ops = list(block.parameters), []
    for index, value in enumerate(captured):
        if value.op is not None and is_generated(value):
            copy = Op(value.op.name, (), value.op.attributes, (), value.op.result_types, value.op.location)
            ops.append(copy)
            inner[value] = copy.results[value.index]
        else:
            parameter = Parameter(f"captured{index}", value.type).value
            parameters.append(parameter)
            inner[value] = parameter
    rewritten, inner = replace_operands(block.ops, inner)
    return Block(tuple(parameters), (*ops, *rewritten), tuple(inner.get(value, value) for value in block.results))


def replace_operands(ops: Sequence[Op], replacements: Mapping[Value, Value]) -> tuple[list[Op], dict[Value, Value]]:
    """`ops` with operands replaced, and `replacements` extended by the results of the ops that had to be made anew."""
    known, made = dict(replacements), []
    for op in ops:
        if not any(operand in known for operand in op.operands):
            made.append(op)
            continue
        operands = tuple(known.get(operand, operand) for operand in op.operands)
        copy = Op(op.name, operands, op.attributes, op.blocks, op.result_types, op.location)
        known.update(zip(op.results, copy.results, strict=True))
        made.append(copy)
    return made, known
