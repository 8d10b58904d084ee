"""Launches that follow each other without the host, as one piece of work; sizes that data decides are read behind it.

What goes from one launch to another lies behind the arena. Sizes that are bound late are at their most all along.
"""

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

from onnxc.runtime.dtypes import DType
from onnxc.runtime.gpu.workspaces import DeviceWorkspace, enqueue_launch
from onnxc.runtime.native.launch import SIZES_KEPT, LaunchSizes, NativeLaunch, expect_possible
from onnxc.runtime.program import BindLate, BindMost, Body, Launch, Release, compile_sizes
from onnxc.runtime.records import record
from onnxc.runtime.steps import Symbols, prepared_most

__all__ = ["Chain", "ChainSizes", "LateSizes", "Resolved", "chain_of"]

_ALIGNMENT = 256


@dataclass(frozen=True, slots=True, eq=False)
class ChainSizes:
    """What sizes decide for a chain: `shapes` and `nbytes` are of its outputs, `inner` are the places of the rest."""

    symbols: "array[int]"
    arena_bytes: int
    shapes: tuple[tuple[int, ...], ...]
    nbytes: tuple[int, ...]
    inner: tuple[int, ...]


Resolved = LaunchSizes | ChainSizes
"""Of a launch that is alone, what sizes decide is what they decide for the chain."""


@record(eq=False)
class LateSizes:
    """What is read behind a chain: pairs of an output that is an integer and the symbol that this is.

    shapes: those of the outputs that these symbols decide, as functions of all symbols.
    """

    counts: tuple[tuple[int, int], ...]
    shapes: Mapping[int, Callable[[Sequence[int]], tuple[int, ...]]]

    def at(self, sizes: Sequence[int], counted: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """The shapes of the outputs, by number, where the integers are these; InputError where they are impossible."""
        symbols = [*sizes]
        for (_, symbol), value in zip(self.counts, counted, strict=True):
            symbols[symbol] = value
        shapes = {output: shape_at(symbols) for output, shape_at in self.shapes.items()}
        for shape in shapes.values():
            expect_possible(shape)
        return shapes


@record(eq=False)
class Chain:
    """Launches in order. Their arrays are counted through: the inputs of the chain, its outputs, then what is inside.

    arguments: the inputs and outputs of each launch. order: the input of the program that each input is. results:
    the output that each result of the program is; behind these outputs are the integers that are read late. made: of
    each array behind the inputs, the launch that makes it and the number of its output there.
    """

    launches: tuple[NativeLaunch, ...]
    arguments: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    results: tuple[int, ...]
    made: tuple[tuple[int, int], ...]
    mosts: tuple[Callable[[Symbols], bool], ...]
    late: LateSizes | None

    @property
    def output_count(self) -> int:
        """How many outputs there are."""
        return len(self.results) + (0 if self.late is None else len(self.late.counts))

    @property
    def late_shapes(self) -> Collection[int]:
        """The outputs whose shapes are read late."""
        return () if self.late is None else self.late.shapes

    @cached_property
    def dtypes(self) -> tuple[DType, ...]:
        """The element types of the outputs."""
        return tuple(self.launches[launch].dtypes[k] for launch, k in self.made[: self.output_count])

    def at_most(self, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
        """The symbols, those that are bound late at their most; None where this takes too much room."""
        if not self.mosts:
            return sizes
        symbols = [*sizes]
        return tuple(symbols) if all(bind(symbols) for bind in self.mosts) else None

    @cached_property
    def at(self) -> Callable[[tuple[int, ...]], Resolved]:
        """A function from the values of all symbols to what they decide; InputError where they are impossible."""
        is_alone = len(self.launches) == 1 and self.arguments[0] == (*range(len(self.order) + self.output_count),)
        return self.launches[0].device_at if is_alone else lru_cache(SIZES_KEPT)(self._resolved)

    def enqueue(self, workspace: DeviceWorkspace, stream: int, addresses: Sequence[int], sizes: Resolved) -> None:
        """Launches all kernels on the stream; `addresses` are those of the inputs and outputs."""
        for launch, arrays in zip(self.launches, self._arrays(workspace, addresses, sizes), strict=True):
            workspace.words[launch.first_array : launch.first_array + len(arrays)] = array("q", arrays)
            enqueue_launch(launch, workspace, stream)

    def _arrays(self, workspace: DeviceWorkspace, addresses: Sequence[int], sizes: Resolved) -> Sequence[Sequence[int]]:
        """The addresses of the inputs and outputs of each launch."""
        if not isinstance(sizes, ChainSizes):
            return (addresses,)
        arena = 0 if workspace.arena is None else workspace.arena.address
        every = [*addresses, *(arena + offset for offset in sizes.inner)]
        return [[every[ordinal] for ordinal in ordinals] for ordinals in self.arguments]

    def _resolved(self, sizes: tuple[int, ...]) -> ChainSizes:
        resolved: list[LaunchSizes] = [launch.device_at(sizes) for launch in self.launches]
        shapes = [resolved[launch].shapes[k] for launch, k in self.made]
        nbytes = [resolved[launch].nbytes[k] for launch, k in self.made]
        count, arena_bytes = self.output_count, max(each.arena_bytes for each in resolved)
        sizes_inside = (_aligned(max(1, size)) for size in nbytes[count:])
        *inner, end = accumulate(sizes_inside, initial=_aligned(arena_bytes))
        return ChainSizes(array("q", sizes), end, tuple(shapes[:count]), tuple(nbytes[:count]), tuple(inner))


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def chain_of(body: Body, launches: Mapping[Launch, NativeLaunch]) -> Chain | None:
    """The chain that a body is; None where it is more, or its results are not each an output of their own."""
    steps = [step for step in body.steps if not isinstance(step, Release)]
    late = steps[-1] if steps and isinstance(steps[-1], BindLate) else None
    steps = steps if late is None else steps[:-1]
    links = [step for step in steps if isinstance(step, Launch)]
    mosts = tuple(prepared_most(step) for step in steps if isinstance(step, BindMost))
    counts = () if late is None else late.slots
    made = {slot: (link, k) for link, step in enumerate(links) for k, slot in enumerate(step.outputs)}
    read = dict.fromkeys(slot for step in links for slot in step.inputs if slot not in made)
    outputs = [*body.results, *counts]
    if not links or len(links) + len(mosts) < len(steps) or (mosts and late is None):
        return None
    if len({*outputs}) < len(outputs) or not read.keys() <= {*body.parameters} or not made.keys() >= {*outputs}:
        return None
    # Outputs stand in the order in which they are made.
    own = [slot for slot in made if slot in body.results]
    arrays = [*read, *own, *counts, *(slot for slot in made if slot not in outputs)]
    ordinals = {slot: ordinal for ordinal, slot in enumerate(arrays)}
    return Chain(
        tuple(launches[step] for step in links),
        tuple(tuple(ordinals[slot] for slot in (*step.inputs, *step.outputs)) for step in links),
        tuple(body.parameters.index(slot) for slot in read),
        tuple(own.index(slot) for slot in body.results),
        tuple(made[slot] for slot in arrays[len(read) :]),
        mosts,
        None if late is None else _late_sizes(late, own),
    )


def _late_sizes(step: BindLate, own: Sequence[int]) -> LateSizes:
    """What is read late of a chain with these results."""
    pairs = zip(step.arrays, step.specs, strict=True)
    shapes = {own.index(slot): compile_sizes(spec.shape) for slot, spec in pairs if slot in own}
    return LateSizes(tuple(enumerate(step.symbols, len(own))), shapes)
