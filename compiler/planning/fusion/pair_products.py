"""Products of one operand of which one is wanted beside the other alone, as gates: one kernel may make both."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.fusion.groups import Group

__all__ = ["pair_products"]


def pair_products(
    groups: Sequence[Group],
    uses: Mapping[Value, Sequence[Op]],
    outputs: Collection[Value],
    pairs: Callable[[Op, Op], bool],
) -> Iterator[Group]:
    """Takes products into the groups of those whose epilogue alone reads them; the groups that are no more.

    What follows the first product is elementwise, as what follows the other one is where it reads the result.
    """
    maker = {group.outputs[0]: group for group in groups if group.kind == "contraction"}
    for group in groups:
        if maker.get(group.outputs[0]) is not group:
            continue
        for value in {operand: None for op in group.ops for operand in op.operands}:
            first = maker.get(value)
            if first is None or not _is_part(first, group, uses, outputs) or not pairs(first.anchor, group.anchor):
                continue
            group.ops.update(first.ops)
            group.beside, group.anchor = group.anchor, first.anchor
            del maker[value]
            yield first
            break


def _is_part(first: Group, group: Group, uses: Mapping[Value, Sequence[Op]], outputs: Collection[Value]) -> bool:
    """Whether a group may be computed within another one, which alone reads it."""
    (value,) = first.outputs
    follows = all(PRIMITIVES[op.name].elementwise for op in first.ops if op is not first.anchor)
    is_read_there = value not in outputs and all(user in group.ops for user in uses[value])
    is_single = first is not group and first.beside is None and group.beside is None
    return follows and is_read_there and is_single and value.shape == group.anchor.result.shape
