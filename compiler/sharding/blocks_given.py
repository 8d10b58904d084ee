"""A block of ops that gets blocks of its parameters, where it would cut them from the whole and read nothing else."""

from collections.abc import Mapping, Set

from onnxc.compiler.ir.module import Block, Op, Parameter, Value
from onnxc.compiler.ir.prune import prune

__all__ = ["with_blocks_given"]


def with_blocks_given(block: Block, cut: Mapping[Value, Value]) -> tuple[Block, frozenset[Value]]:
    """The block where parameters are what `cut` says is made of them, and which parameters these are.

    A parameter that something else reads, too, stays whole.
    """
    wholly = _read(prune(_with_parameters(block, cut)))
    kept = {parameter: value for parameter, value in cut.items() if parameter not in wholly}
    return (prune(_with_parameters(block, kept)), frozenset(kept)) if kept else (block, frozenset())


def _with_parameters(block: Block, cut: Mapping[Value, Value]) -> Block:
    """The block with new parameters, which stand for the values that are cut from those that they replace."""
    given = {parameter: Parameter(parameter.producer.name, value.type).value for parameter, value in cut.items()}
    values = {value: given[parameter] for parameter, value in cut.items()}
    ops: list[Op] = []
    for op in block.ops:
        operands = tuple(values.get(operand, operand) for operand in op.operands)
        made = op
        if operands != op.operands:
            made = Op(op.name, operands, op.attributes, op.blocks, op.result_types, op.location)
            for old, new in zip(op.results, made.results, strict=True):
                values.setdefault(old, new)
        ops.append(made)
    parameters = tuple(given.get(parameter, parameter) for parameter in block.parameters)
    return Block(parameters, tuple(ops), tuple(values.get(result, result) for result in block.results))


def _read(block: Block) -> Set[Value]:
    """What ops and results read."""
    return {*block.results, *(operand for op in block.ops for operand in op.operands)}
