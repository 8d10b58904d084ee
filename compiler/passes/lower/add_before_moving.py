"""Residual sums move before the reshapes and transposes of a product, so that the product's kernel adds.

A residual is in memory, where any order of its axes is a view; what a product is turned into has to be written first.
"""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import made_by


def add_before_moving(module: Module) -> Module:
    """Adds what is in memory to products and joined parts before their axes are moved."""
    return rewrite(module, [move_sum])


@rule("add")
def move_sum(op: Op, build: Rewriter) -> Outcome:
    """move(x) + r = move(x + move back(r)) for reshapes and transposes that leave the last axis where it is"""
    for moved, residual in (op.operands, op.operands[::-1]):
        chain = _movements(moved, build)
        if not chain or not _is_computed_there(chain[-1].operands[0]):
            continue
        inner, back = chain[-1].operands[0], _read_back(residual, chain, build)
        if back is None:
            continue
        total = build.add(inner, back)
        for movement in reversed(chain):
            total = build.op(movement.name, [total], movement.attributes)[0]
        return total
    return None


def _movements(value: Value, build: Rewriter) -> list[Op]:
    """The reshapes and transposes that lead to `value`, the last first, nothing else using what is between."""
    chain: list[Op] = []
    while build.uses(value) == 1 and (op := made_by(value, "reshape", "transpose")) is not None:
        if op.name == "transpose" and op.ints("permutation")[-1] != value.rank - 1:
            break
        chain.append(op)
        value = op.operands[0]
    return chain if build.uses(value) == 1 else []


def _is_computed_there(value: Value) -> bool:
    """Whether the kernel that makes `value` may go on with a sum: of a product, or of parts that are joined."""
    op = value.op
    while op is not None and PRIMITIVES[op.name].elementwise:
        op = next((operand.op for operand in op.operands if not _is_repeated(operand)), None)
    return op is not None and op.name in ("dot", "convolution", "concatenate")


def _is_repeated(value: Value) -> bool:
    return made_by(value, "broadcast", "constant") is not None


def _read_back(value: Value, chain: list[Op], build: Rewriter) -> Value | None:
    """A value that is in memory, or cast from one that is, as `_moved_back` gives it; None where it is computed."""
    if _is_in_memory(value, build):
        return _moved_back(value, chain, build)
    cast = made_by(value, "cast")
    if cast is None or not _is_in_memory(cast.operands[0], build):
        return None
    return build.op("cast", [_moved_back(cast.operands[0], chain, build)], cast.attributes)[0]


def _is_in_memory(value: Value, build: Rewriter) -> bool:
    """Whether a value is written in any case."""
    return value.op is None or PRIMITIVES[value.op.name].anchor is not None or build.uses(value) > 1


def _moved_back(value: Value, chain: list[Op], build: Builder) -> Value:
    """`value` in the order and shape of what the movements of `chain` begin with."""
    for movement in chain:
        if movement.name == "reshape":
            value = build.with_shape(value, movement.operands[0].shape)
        else:
            order = movement.ints("permutation")
            value = build.transpose(value, [order.index(axis) for axis in range(len(order))])
    return value
