"""Branches and loops: which values inside of a body are those outside, and so are divided as they are.

What decides on a branch, or on another round, is whole on every device and has the same bits there: all devices take
the same way, so that exchanges may be in bodies.
"""

from collections.abc import Iterator

from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.op_facts import capture_count
from onnxc.compiler.sharding.factors import has_axes
from onnxc.runtime.records import record

__all__ = ["Link", "all_values", "captured", "carried", "entering", "has_divided_bodies", "leaving", "returning"]


@record
class Link:
    """Axis k of `source` is axis k + `shift` of `target`."""

    source: Value
    target: Value
    shift: int = 0


def has_divided_bodies(op: Op) -> bool:
    """Whether values in the bodies of `op` are divided: where they have the types of those outside."""
    if op.name == "if":
        return all(
            inner.type == outer.type
            for block in op.blocks
            for inner, outer in zip(block.results, op.results, strict=True)
        )
    if op.name != "while":
        return False
    same = all(initial.type == inner.type == made.type == last.type for initial, inner, made, last in carried(op))
    scans = [link for link in leaving(op) if link.shift]
    return same and all(
        has_axes(link.source) and has_axes(link.target) and link.source.shape == link.target.shape[1:] for link in scans
    )


def carried(op: Op) -> Iterator[tuple[Value, Value, Value, Value]]:
    """For each value that a loop carries: what it starts with, the parameter, what a round makes, the last one."""
    for index in range(op.int("carried")):
        block = op.blocks[0]
        yield op.operands[2 + index], block.parameters[1 + index], block.results[1 + index], op.results[index]


def captured(op: Op) -> Iterator[Link]:
    """From what bodies use from outside to their parameters."""
    count = capture_count(op)
    for block in op.blocks:
        parameters = block.parameters[len(block.parameters) - count :]
        yield from map(Link, op.operands[len(op.operands) - count :], parameters)


def entering(op: Op) -> Iterator[Link]:
    """From operands to the parameters of bodies."""
    if op.name == "while":
        yield from (Link(initial, inner) for initial, inner, _, _ in carried(op))
    yield from captured(op)


def returning(op: Op) -> Iterator[Link]:
    """From what a round of a loop makes to the parameters of the next."""
    if op.name == "while":
        yield from (Link(made, inner) for _, inner, made, _ in carried(op))


def leaving(op: Op) -> Iterator[Link]:
    """From values in bodies to results: those of branches, those that a loop carries, and those that it stacks."""
    if op.name == "if":
        yield from (Link(*pair) for block in op.blocks for pair in zip(block.results, op.results, strict=True))
        return
    yield from (Link(inner, last) for _, inner, _, last in carried(op))
    count = op.int("carried")
    scanned = zip(op.blocks[0].results[1 + count :], op.results[count:], strict=True)
    yield from (Link(made, stacked, 1) for made, stacked in scanned)


def all_values(block: Block) -> Iterator[Value]:
    """The values of a block, and of the bodies whose values are divided."""
    yield from block.parameters
    for op in block.ops:
        yield from op.results
        if has_divided_bodies(op):
            for inner in op.blocks:
                yield from all_values(inner)
