"""Facts about one op, from those of its primitive and of the ops in its blocks."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType, type_symbols


def capture_count(op: Op) -> int:
    """How many of the last operands of `op` are captures of its blocks, whose last parameters they are."""
    captures = PRIMITIVES[op.name].captures
    return 0 if captures is None else captures(op)


def has_effects(op: Op) -> bool:
    """Whether `op`, or an op in its blocks, does something besides its results."""
    if not op.blocks:
        return PRIMITIVES[op.name].effects
    return PRIMITIVES[op.name].effects or any(has_effects(inner) for block in op.blocks for inner in block.ops)


def is_generated(value: Value) -> bool:
    """Whether `value` is made from nothing: a constant, known sizes, or a counter."""
    return value.op is not None and PRIMITIVES[value.op.name].kind == "generator"


def is_cheap(value: Value) -> bool:
    """Whether `value` costs nothing to make again: a constant, known sizes, a counter, or one of them broadcast."""
    op = value.op
    return is_generated(value) or (op is not None and op.name == "broadcast" and is_cheap(op.operands[0]))


def writes_as_it_reads(op: Op, turn: Op) -> bool:
    """Whether the transpose `turn` of what `op` makes undoes the one of what it reads: both lie in one order."""
    read = op.operands[0].op
    while read is not None and read.name == "cast":
        read = read.operands[0].op
    if read is None or read.name != "transpose" or read.result.rank != turn.result.rank:
        return False
    permutation = read.ints("permutation")
    return [permutation[axis] for axis in turn.ints("permutation")] == list(range(turn.result.rank))


def values_along_last(value: Value) -> tuple[Value, ...]:
    """`value`, and what it is computed of along its last axis, element by element: through elementwise ops, and through
    movements that keep that axis. What is the same along it is none of them."""
    values: dict[Value, None] = {}
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value not in values:
            values[value] = None
            waiting += operands_along_last(value) or ()
    return tuple(values)


def operands_along_last(value: Value) -> Sequence[Value] | None:
    """The operands that `value` is made of along its last axis; None where its op does not keep the axis."""
    op = value.op
    if op is None or not op.operands:
        return None
    source, last = op.operands[0], value.rank - 1
    if PRIMITIVES[op.name].elementwise:
        return op.operands
    if op.name == "broadcast" and (last not in op.ints("axes") or source.shape[op.ints("axes").index(last)] == 1):
        return ()
    match op.name:
        case "broadcast":
            is_kept = op.ints("axes")[-1] == last
        case "transpose":
            is_kept = op.ints("permutation")[last] == last
        case _:
            is_kept = op.name == "reshape"
    return (source,) if is_kept and source.rank and source.shape[-1] == value.shape[-1] else None


def named_symbols(op: Op) -> tuple[str, ...]:
    """The symbols that an attribute of `op` says it binds; of an op that is not valid, as far as there are any."""
    primitive = PRIMITIVES.get(op.name)
    if primitive is None or primitive.binds is None:
        return ()
    names = op.attributes.get(primitive.binds)
    return tuple(name for name in (names if isinstance(names, tuple) else (names,)) if isinstance(name, str))


def bound_symbols(op: Op) -> tuple[str, ...]:
    """The symbols that are known after `op`: those it names, and those in result types that it declares itself."""
    primitive = PRIMITIVES.get(op.name)
    if primitive is not None and primitive.binds is None and primitive.type_rule is not None:
        return ()
    types = op.result_types if primitive is None or primitive.type_rule is None else ()
    return (*named_symbols(op), *(name for type in types for name in sorted(type_symbols(type))))


def declared_types(op: Op, shapes: Sequence[Sequence[Dim]]) -> tuple[TensorType, ...] | None:
    """What to state of the results of an op like this one, of other shapes; None where its type rule says it."""
    if PRIMITIVES[op.name].type_rule is not None:
        return None
    return tuple(TensorType(result.dtype, tuple(shape)) for result, shape in zip(op.results, shapes, strict=True))
