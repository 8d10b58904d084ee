"""Groups that compute values of one shape beside each other become one: a launch writes them all.

Keys and values of a cache, cosines and sines, the weights along both axes of a resize: each such kernel alone takes
little longer than its launch. Where one reads what the other writes, element by element, that is read no more.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace

from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.fusion.groups import GROUP_LIMIT, Group
from onnxc.compiler.planning.kernel_plan import KernelKind

REACH = 4
"""How many launches later a value may be written than it could be: its buffer, and what it is made of, live so long.

An estimate: what belongs together stands together, as one node, or neighbouring ones, make it."""


def merge_groups(
    groups: Sequence[Group], outputs: Sequence[Value], aliases: Mapping[Value, Value], kinds: Collection[KernelKind]
) -> tuple[Group, ...]:
    """The groups in launch order; those of one of these kinds and of one shape are joined, where order lets them.

    outputs: what is wanted behind all groups, beside what they read of each other.
    """
    wanted = {_resolved(value, aliases) for value in outputs}
    waiting = list(groups)
    merged: list[Group] = []
    while waiting:
        group = waiting.pop(0)
        later = _sibling(group, waiting[:REACH], aliases) if group.kind in kinds else None
        if later is None:
            merged.append(group)
        else:
            others = [other for ordinal, other in enumerate(waiting) if ordinal != later]
            read = wanted.union(*({_resolved(x, aliases) for x in _values_read(other)} for other in others))
            waiting[later] = _joined(group, waiting[later], read)
    return tuple(merged)


def _sibling(group: Group, following: Sequence[Group], aliases: Mapping[Value, Value]) -> int | None:
    """The ordinal among `following` of a group that may write what `group` does as well; None where there is none."""
    for ordinal, other in enumerate(following):
        read = {operand for operand in _values_read(other) if _resolved(operand, aliases) in group.outputs}
        # What has another name has another shape.
        if not (read <= {*group.outputs} and _computes_each_of(read, other)):
            return None
        if _are_alike(group, other):
            return ordinal
        if read:
            return None
    return None


def _values_read(group: Group) -> set[Value]:
    """What a group has from outside."""
    return {operand for op in group.ops for operand in op.operands if operand.op not in group.ops}


def _computes_each_of(read: Set[Value], group: Group) -> bool:
    """Whether a group, to compute an element, wants one of each of these values, at the same place."""
    reached = {*read}
    for op in group.ops:
        if not reached.isdisjoint(op.operands):
            if PRIMITIVES[op.name].kind != "pointwise":
                return False
            reached.update(op.results)
    return True


def _are_alike(one: Group, other: Group) -> bool:
    """Whether both write values of one shape, computed in that shape, and are small enough."""
    values = (*one.outputs, *other.outputs)
    is_small = len(one.ops) + len(other.ops) <= GROUP_LIMIT
    # A reshape at the end is not computed: memory is written in the shape before it.
    is_computed = all(value.op is not None and value.op.name != "reshape" for value in values)
    # An index out of range is told of the one node that a launch has for it.
    has_one_node = not (_picks(one) and _picks(other))
    is_alike = one.kind == other.kind and len({value.shape for value in values}) == 1
    return is_alike and is_small and is_computed and has_one_node


def _picks(group: Group) -> bool:
    return any(PRIMITIVES[op.name].kind == "indexed" for op in group.ops)


def _joined(one: Group, other: Group, read: Set[Value]) -> Group:
    """`other`, which stands where it stood, with what `one` computes; it writes what is read elsewhere."""
    outputs = (*other.outputs, *(value for value in one.outputs if value in read))
    return replace(other, outputs=outputs, ops={**one.ops, **other.ops})


def _resolved(value: Value, aliases: Mapping[Value, Value]) -> Value:
    while value in aliases:
        value = aliases[value]
    return value
