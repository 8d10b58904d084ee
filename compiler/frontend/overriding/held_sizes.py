"""Which overridden sizes the axes of a value hold, and where: followed through the ops that made the value.

An axis that others were merged into holds their sizes in an order that neither its own size nor its type tells. The
axes rules of the primitives say which axes run together, and a reshape keeps the order of the elements.
"""

from collections.abc import Iterator, MutableMapping, Sequence

from onnxc.compiler.frontend.overriding.size_ratios import (
    Span,
    exact_quotient,
    originals,
    ratio_of,
    spans_of,
    stand_ins_of,
)
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.records import record

__all__ = ["Held", "HeldSize", "MisplacedBatch", "grows_by", "held_by", "held_nothing", "held_whole"]


@record
class HeldSize:
    """An overridden size in an axis, which as declared has the sizes [slower, old, rest] in one.

    slower is None where that is not proven. A batch is an input's size of 1 that is another now: a call on it is to
    give what a call on each gives.
    """

    old: Dim
    new: Dim
    slower: Dim | None
    is_batch: bool


Held = tuple[tuple[HeldSize, ...], ...]
"""For each axis of a value what it holds, that which is slower first."""


class MisplacedBatch(Exception):
    """Axes run together, which hold the batch differently: at one of them it is the faster index of more."""


def held_whole(old: Dim, new: Dim, overridden: Sequence[tuple[Dim, Dim]]) -> tuple[HeldSize, ...]:
    """What an axis holds of which only the size is known, as declared and now."""
    if old == new:
        return ()
    ratio = ratio_of(new, old)
    sources = set() if ratio is None else originals(ratio, overridden)
    if len(sources) != 1 or old in sources:
        return (HeldSize(old, new, 1, old == 1 and old in sources),)
    pairs = ((smaller, larger) for smaller, larger in overridden if ratio_of(larger, smaller) == ratio)
    source, larger = next(pairs)
    return (HeldSize(source, larger, None, source == 1),)


def grows_by(old: Dim, new: Dim, parts: Sequence[HeldSize]) -> bool:
    """Whether an axis that was `old` is `new` for what it holds."""
    return old * product(part.new for part in parts) == new * product(part.old for part in parts)


def held_by(value: Value, known: MutableMapping[Value, Held]) -> Held:
    """What the axes of a value hold, as far as it follows from what is `known`, which learns it; MisplacedBatch."""
    if value not in known:
        known[value] = _followed(value, known)
    return known[value]


def _followed(value: Value, known: MutableMapping[Value, Held]) -> Held:
    """What the axes hold by the op that makes the value."""
    op, held = value.producer, [*held_nothing(value)]
    if not isinstance(op, Op) or op.blocks or not all(map(_has_axes, (*op.operands, *op.results))):
        return tuple(held)
    if op.name == "reshape":
        return _reshaped(op.operands[0].shape, held_by(op.operands[0], known), value.shape)
    for link in PRIMITIVES[op.name].axes_rule(op):
        axis = link.results[value.index] if link.kind == "map" else None
        if axis is not None:
            pairs = [(x, at) for x, at in zip(op.operands, link.operands, strict=True) if at is not None]
            held[axis] = _joined([held_by(x, known)[at] for x, at in pairs])
    return tuple(held)


def held_nothing(value: Value) -> Held:
    """What the axes of a value hold of which nothing is known."""
    return ((),) * value.rank if _has_axes(value) else ()


def _has_axes(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is not None


def _joined(axes: Sequence[tuple[HeldSize, ...]]) -> tuple[HeldSize, ...]:
    """What an axis holds that runs together with these; one that holds nothing says nothing of the others."""
    positions = [tuple(size for size in axis if size.slower is not None) for axis in axes]
    batches = {tuple(size for size in axis if size.is_batch) for axis in positions}
    if len(batches - {()}) > 1:
        raise MisplacedBatch
    return max((*positions, *axes), key=bool, default=())


def _reshaped(before: Sequence[Dim], held: Held, result: Sequence[Dim]) -> Held:
    """What axes hold after a reshape: sizes as they are now tell where each part lies."""
    made: list[tuple[HeldSize, ...]] = [()] * len(result)
    parts = () if 0 in (*before, *result) else tuple(_positions(before, held))
    stand_ins = stand_ins_of((*result, *(size for begin, part in parts for size in (begin, part.new))))
    if stand_ins is None:
        return tuple(made)
    spans = spans_of(result, stand_ins)
    for begin, part in parts:
        first = evaluate(begin, stand_ins)
        place = Span(first, first * evaluate(part.new, stand_ins))
        homes = [axis for axis, span in enumerate(spans) if span.encloses(place)]
        slower = _as_declared(begin, product(result[: homes[0]]), made[homes[0]]) if len(homes) == 1 else None
        if slower is not None:
            made[homes[0]] += (HeldSize(part.old, part.new, slower, part.is_batch),)
    return tuple(made)


def _positions(shape: Sequence[Dim], held: Held) -> Iterator[tuple[Dim, HeldSize]]:
    """The sizes that are held at proven positions, each with how many elements, as they are now, are slower."""
    for axis, axis_parts in enumerate(held):
        parts = _as_whole(shape[axis], axis_parts)
        for ordinal, part in enumerate(parts):
            old, new = (
                product(sizes) for sizes in zip((1, 1), *((p.old, p.new) for p in parts[:ordinal]), strict=True)
            )
            begin = None if part.slower is None else exact_quotient(product(shape[:axis]) * part.slower * new, old)
            if begin is None:
                break
            yield begin, part


def _as_whole(size: Dim, parts: tuple[HeldSize, ...]) -> tuple[HeldSize, ...]:
    """What an axis of `size` holds; one of another size, of which only that is known, as a whole where it is no batch.

    So it is behind strides: of 128 that became 64 an axis of 32 holds nothing but is 16 now.
    """
    if len(parts) != 1 or parts[0].slower is not None or parts[0].is_batch:
        return parts
    old = exact_quotient(size * parts[0].old, parts[0].new)
    return parts if old is None else (HeldSize(old, size, 1, is_batch=False),)


def _as_declared(begin: Dim, axis_begin: Dim, before: Sequence[HeldSize]) -> Dim | None:
    """How many elements of an axis as declared lie before `begin`, where these sizes of it do."""
    return exact_quotient(begin * product(part.old for part in before), axis_begin * product(p.new for p in before))
