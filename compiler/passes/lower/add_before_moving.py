"""Sums with residuals, and products by gates, move before the reshapes and transposes of a product, whose kernel adds.

A residual is in memory, where any order of its axes is a view; what a product is turned into has to be written first.
Of a turn of the last axis the kernel reads the residual as it writes the result, along its rows.
"""

from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.movements import moved, moved_back


def add_before_moving(module: Module) -> Module:
    """Adds what is in memory to products and joined parts, and multiplies them by it, before their axes are moved."""
    return rewrite(module, [move_sum])


@rule("add", "mul")
def move_sum(op: Op, build: Rewriter) -> Outcome:
    """move(x) + r = move(x + move back(r)) for reshapes and transposes, and the same of products"""
    for result, residual in (op.operands, op.operands[::-1]):
        movements = _movements(result, build)
        if not movements or not _is_computed_there(movements[0].operands[0]):
            continue
        back = _read_back(residual, movements, build)
        if back is not None:
            (inner,) = build.op(op.name, [movements[0].operands[0], back], op.attributes)
            return moved(inner, movements, build)
    return None


def _movements(value: Value, build: Rewriter) -> list[Op]:
    """The reshapes and transposes that lead to `value`, nothing else using what is between."""
    chain: list[Op] = []
    while build.uses(value) == 1 and (op := made_by(value, "reshape", "transpose")) is not None:
        chain.append(op)
        value = op.operands[0]
    return chain[::-1] if build.uses(value) == 1 else []


def _is_computed_there(value: Value) -> bool:
    """Whether the kernel that makes `value` may go on with a sum: of a product, or of parts that are joined."""
    op = value.op
    while op is not None and PRIMITIVES[op.name].elementwise:
        op = next((operand.op for operand in op.operands if not _is_repeated(operand)), None)
    return op is not None and op.name in ("dot", "convolution", "concatenate")


def _is_repeated(value: Value) -> bool:
    return made_by(value, "broadcast", "constant") is not None


def _read_back(value: Value, movements: list[Op], build: Rewriter) -> Value | None:
    """A value that is in memory, or cast from one that is, in front of the movements; None where it is computed."""
    part = made_by(value, "slice")
    # A turned part of what is in memory is a view of it; in another shape it may be none.
    is_part = part is not None and all(op.name == "transpose" for op in movements)
    if _is_in_memory(part.operands[0] if part is not None and is_part else value, build):
        return moved_back(value, movements, build)
    cast = made_by(value, "cast")
    if cast is None or not _is_in_memory(cast.operands[0], build):
        return None
    return build.op("cast", [moved_back(cast.operands[0], movements, build)], cast.attributes)[0]


def _is_in_memory(value: Value, build: Rewriter) -> bool:
    """Whether a value is written in any case."""
    return value.op is None or PRIMITIVES[value.op.name].anchor is not None or build.uses(value) > 1
