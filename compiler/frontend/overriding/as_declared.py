"""The graph as declared, node by node: what nodes are held against when sizes of inputs are overridden."""

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import field

from onnxc.compiler.frontend.case_split import CaseKey
from onnxc.compiler.frontend.overriding.held_sizes import Held, HeldSize, grows_by, held_by, held_nothing, held_whole
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.known_elements import partly_known
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.runtime.records import record

__all__ = ["ADVICE", "AsDeclared", "Seen"]

ADVICE = "export the model with this size left open, or compute it by Shape"


@record
class Seen:
    """A value as it was in the graph as declared: its type, and the elements of a vector of integers, where known."""

    type: Type
    known: tuple[Dim | None, ...] | None

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """The sizes of a tensor of known rank."""
        return self.type.shape if isinstance(self.type, TensorType) else None


@record
class AsDeclared:
    """The graph as declared: the operands and results of its nodes, and the sizes that are overridden, (old, new).

    `shown` says what is overridden, for people, and `inputs` has their shapes, as declared and now. `held` says which
    of these sizes are in the axes of values now. follows_resized: whether the sizes that a Resize has as numbers are
    taken to follow what it resizes.
    """

    overridden: tuple[tuple[Dim, Dim], ...]
    shown: tuple[str, ...]
    inputs: tuple[tuple[Sequence[Dim], Sequence[Dim]], ...] = ()
    follows_resized: bool = False
    operands: dict[CaseKey, tuple[Seen | None, ...]] = field(default_factory=dict)
    results: dict[CaseKey, tuple[Seen | None, ...]] = field(default_factory=dict)
    held: dict[Value, Held] = field(default_factory=dict)

    def note(
        self, key: CaseKey, operands: Sequence[Value | None], results: Sequence[Value | None], ir: Builder
    ) -> None:
        """Notes one lowering of a node."""
        self.operands[key] = tuple(_seen(value, ir) for value in operands)
        self.results[key] = tuple(_seen(value, ir) for value in results)

    def input_pair(self, rank: int, axis: int) -> tuple[Dim, Dim] | None:
        """The size of an axis of the only overridden input of a rank, as declared and now; None where that is open."""
        alike = [shapes for shapes in self.inputs if len(shapes[0]) == rank]
        return (alike[0][0][axis], alike[0][1][axis]) if len(alike) == 1 else None

    def held_in(self, value: Value, before: Sequence[Dim], now: Sequence[Dim]) -> Held:
        """What the axes of a value hold, whose sizes were `before` and are `now`."""
        if value in self.held:
            return self.held[value]
        return tuple(held_whole(old, new, self.overridden) for old, new in zip(before, now, strict=True))

    def note_held(self, value: Value, shapes: tuple[Sequence[Dim], Sequence[Dim]] | None) -> None:
        """Notes what the axes of a value hold, followed through the ops that made it; MisplacedBatch.

        shapes: as declared and now; None where they are not known.
        """
        if value in self.held:
            return
        whole = held_nothing(value) if shapes is None else self.held_in(value, *shapes)
        if shapes is not None and any(whole):
            followed = held_by(value, ChainMap({}, self.held))
            axes = zip(*shapes, followed, whole, strict=True)
            whole = _without_other_batches(
                tuple(parts if grows_by(old, new, parts) else alone for old, new, parts, alone in axes), shapes
            )
        self.held[value] = whole


def _without_other_batches(whole: Held, shapes: tuple[Sequence[Dim], Sequence[Dim]]) -> Held:
    """What axes hold, where one certainly holds the batch: others that grew as much, such as those of an image, do not.

    What became of a size by strides may be twice as large when two images are given for one.
    """
    batches = [[part for part in parts if part.is_batch] for parts in whole]
    if not any(part.slower is not None for parts in batches for part in parts):
        return whole
    is_other = [any(part.slower is None for part in parts) for parts in batches]
    axes = zip(whole, *shapes, is_other, strict=True)
    return tuple((HeldSize(old, new, 1, is_batch=False),) if other else parts for parts, old, new, other in axes)


def _seen(value: Value | None, ir: Builder) -> Seen | None:
    """What is to be remembered of a value."""
    if value is None:
        return None
    is_integer = isinstance(value.type, TensorType) and value.dtype.is_integer and value.type.shape is not None
    is_short = is_integer and value.rank <= 1 and isinstance(value.tensor.elements, int)
    return Seen(value.type, partly_known(value) if is_short else None)
