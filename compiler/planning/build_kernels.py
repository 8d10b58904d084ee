"""From groups of ops to kernels: blocks with canonical names, so that equal work is one kernel wherever it stands."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.dim_functions import bcast
from onnxc.compiler.ir.dim_symbols import lone_symbol, substitute, symbols_of
from onnxc.compiler.ir.dims import Apply, Dim, Size, lower_bound, terms_of
from onnxc.compiler.ir.module import Attribute, Block, Op, Parameter, Value, walk
from onnxc.compiler.ir.op_verifier import op_findings
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType, change_sizes
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.fuse_kernels import INLINES_OPERANDS
from onnxc.compiler.planning.fusion.groups import Group
from onnxc.runtime.records import record

BEYOND_ALL = 1 << 63
"""So many elements an int64 does not count, and no memory holds."""

INLINE_ELEMENTS = 1
"""Constants of any other number of elements are read from the weights."""


@record
class BoundProblem:
    """A kernel without its schedule, the values it reads and writes, what its symbols are here, and its nodes."""

    problem: KernelProblem
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    symbols: Mapping[str, str]
    location: Location | None
    nodes: tuple[Location, ...]


def build_kernel(group: Group, read: Collection[Op] = ()) -> BoundProblem:
    """The kernel of `group`: inputs become a0, a1, ..., and symbols s0, ?s1, ..., in order of appearance.

    read: the constants of one element that are read from the weights all the same.
    """
    inputs = _inputs(group, read)
    names = _symbol_names([value.tensor for value in inputs], list(group.ops))
    replacements: dict[str, Dim] = {old: Size.symbol(new) for old, new in names.items()}
    rename = partial(substitute, replacements=replacements, known={})
    inner: dict[Value, Value] = {}
    for index, value in enumerate(inputs):
        inner[value] = Parameter(f"a{index}", change_sizes(value.type, rename)).value
    block = _copied([op for op in group.ops if op.results[0] not in inner], inner, rename, group.outputs)
    constants = tuple(index for index, value in enumerate(inputs) if _holds_constant(value))
    own = {new: old for old, new in names.items()}
    problem = KernelProblem(group.kind, block, constants)
    return BoundProblem(problem, inputs, group.outputs, own, _location(group), _nodes(group))


def specialized(problem: KernelProblem, sizes: Mapping[str, Dim]) -> KernelProblem | None:
    """The kernel where symbols of its own have these sizes; None where no call gets to it with them."""
    copied = _copied_block(problem.block, partial(substitute, replacements=dict(sizes), known={}))
    return replace(problem, block=copied) if _is_possible(copied) else None


def joined_symbols(block: Block) -> Mapping[str, Dim]:
    """Symbols that are broadcast with others, with the one symbol for all that a symbol is broadcast with, or with a
    number, with that."""
    joined: dict[str, str] = {}
    seen: set[Dim] = set()
    for value in (result for op in block.ops for result in op.results):
        for first, *others in (group for size in value.shape for group in _broadcast_together(size, seen)):
            one = joined.get(first, first)
            for old in {joined.get(other, other): None for other in others if joined.get(other, other) != one}:
                joined = {name: one if to == old else to for name, to in joined.items()} | {old: one}
    known = {joined.get(name, name): size for name, size in _broadcast_to_known(block)}
    return {
        **{name: size for name, size in known.items() if name not in joined},
        **{name: known.get(to, Size.symbol(to)) for name, to in joined.items()},
    }


def _broadcast_to_known(block: Block) -> Iterator[tuple[str, int]]:
    """Symbols that are 1 or a number, and that number."""
    for op in (op for op in block.ops if op.name == "broadcast"):
        for axis, size in zip(op.ints("axes"), op.operands[0].shape, strict=True):
            to, names = op.result.shape[axis], symbols_of(size)
            if isinstance(to, int) and to > 1 and names and size == bcast(*map(Size.symbol, names)):
                yield from ((name, to) for name in names)


def _broadcast_together(size: Dim, seen: set[Dim]) -> Iterator[Sequence[str]]:
    """The symbols of each broadcast in a size that has several, unless the size, or one in it, was seen before."""
    if size in seen:
        return
    seen.add(size)
    for atom in (atom for monomial, _ in terms_of(size) for atom in monomial):
        if isinstance(atom, Apply):
            symbols = [name for each in atom.arguments if (name := lone_symbol(each)) is not None]
            if atom.function == "bcast" and len(symbols) > 1:
                yield symbols
            for argument in atom.arguments:
                yield from _broadcast_together(argument, seen)


def _is_possible(block: Block) -> bool:
    """Whether no size is negative, nothing is beyond all memory, and no sizes contradict each other.

    Calls in which that is so are stopped by guards, or before the arena is there.
    """
    values = (*block.parameters, *(result for op in block.ops for result in op.results))
    shapes = [value.shape for value in values]
    if any(isinstance(size, int) and size < 0 for shape in shapes for size in shape):
        return False
    if any(prod(max(lower_bound(size) or 0, 1) for size in shape) >= BEYOND_ALL for shape in shapes):
        return False
    return not any(op_findings(op) for op in block.ops)


def _copied(
    ops: Sequence[Op], inner: dict[Value, Value], change: Callable[[Dim], Dim], results: Sequence[Value]
) -> Block:
    """A block of `ops` with sizes in place of symbols; `inner` begins as what stands for its parameters."""
    parameters, copies = tuple(inner.values()), []
    for op in ops:
        copy = Op(
            op.name,
            tuple(inner[operand] for operand in op.operands),
            {name: _changed(value, change) for name, value in op.attributes.items()},
            tuple(_copied_block(block, change) for block in op.blocks),
            tuple(change_sizes(type, change) for type in op.result_types),
        )
        copies.append(copy)
        inner.update(zip(op.results, copy.results, strict=True))
    return Block(parameters, tuple(copies), tuple(inner[value] for value in results))


def _copied_block(block: Block, change: Callable[[Dim], Dim]) -> Block:
    """A block within an op, with sizes in place of symbols."""
    inner = {
        value: Parameter(value.producer.name, change_sizes(value.type, change)).value for value in block.parameters
    }
    return _copied(block.ops, inner, change, block.results)


def _location(group: Group) -> Location | None:
    """The node that picks or places elements, and so may fail; else the one that makes the result."""
    indexed = (op for op in group.ops if PRIMITIVES[op.name].kind == "indexed")
    return next(indexed, group.last).location


def _nodes(group: Group) -> tuple[Location, ...]:
    """All that the kernel came from: the node of the anchor, then the others in program order.

    What is made of constants alone says nothing: equal ones of many nodes are one.
    """
    ops = (group.anchor, *(op for op in group.ops if not all(map(_holds_constant, op.operands))))
    return tuple(dict.fromkeys(op.location for op in ops if op.location is not None))


def _inputs(group: Group, read: Collection[Op]) -> tuple[Value, ...]:
    """What the group reads from memory, in order of use."""
    inline = inline_constants(group).difference(read)
    made = {result for op in group.ops if not _is_constant(op) or op in inline for result in op.results}
    wanted = (operand for op in group.ops for operand in op.operands)
    return tuple(dict.fromkeys(value for value in wanted if value not in made))


def _is_constant(op: Op) -> bool:
    return op.name == "constant"


def _holds_constant(value: Value) -> bool:
    return value.op is not None and _is_constant(value.op)


def inline_constants(group: Group) -> set[Op]:
    """The constants of one element that only ops read which need no memory: they stay in the code."""
    small = {op for op in group.ops if _is_constant(op) and op.array().size == INLINE_ELEMENTS}
    for op in group.ops:
        if not PRIMITIVES[op.name].elementwise and op.name not in ("broadcast", "pad"):
            small -= {operand.op for operand in op.operands if operand.op is not None}
    if group.kind not in (*INLINES_OPERANDS, "scatter"):
        small -= {_moved_from(operand, group).op for operand in group.anchor.operands}
    return small


def _moved_from(value: Value, group: Group) -> Value:
    """What a value is a view of, through movements of the group; such kernels read their operands from memory."""
    while value.op in group.ops and PRIMITIVES[value.op.name].is_view:
        value = value.op.operands[0]
    return value


def _symbol_names(types: Sequence[TensorType], ops: Sequence[Op]) -> dict[str, str]:
    order: dict[str, None] = {}
    note = partial(_note_symbols, order=order, seen=set())
    for type in types:
        note(type.known_shape)
    nested = [op for outer in ops for block in outer.blocks for op in walk(block)]
    for op in (*ops, *nested):
        for name in sorted(op.attributes):
            note(op.attributes[name])
        for result in op.results:
            note(result.shape)
    return {name: f"?s{index}" if name.startswith("?") else f"s{index}" for index, name in enumerate(order)}


def _note_symbols(value: Attribute, order: dict[str, None], seen: set[Size]) -> None:
    """Adds the symbols of sizes in the order of their canonical form, but those of sizes that were seen before."""
    if isinstance(value, tuple):
        for item in value:
            _note_symbols(item, order, seen)
    if not isinstance(value, Size) or value in seen:
        return
    seen.add(value)
    for atom in (atom for monomial, _ in value.terms for atom in monomial):
        if isinstance(atom, str):
            order[atom] = None
        else:
            _note_symbols(atom.arguments, order, seen)


def _changed(value: Attribute, change: Callable[[Dim], Dim]) -> Attribute:
    if isinstance(value, Size):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_changed(item, change) for item in value)
    return value
