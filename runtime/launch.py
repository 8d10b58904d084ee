"""Native calls: the frame filled, the entry called, the status block read.

The code before an entry is called is most of the cost of a call of a small model: what sizes decide is prepared once
for each combination of them.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import starmap
from typing import Protocol

import numpy as np

from runtime.addresses import store_addresses
from runtime.dtypes import DTYPES, DType
from runtime.errors import DeviceError, InputError
from runtime.program import FRAME_SYMBOLS, Launch, compile_sizes
from runtime.workspaces import Workspace, WorkspacePool

__all__ = ["LaunchSizes", "NativeLaunch", "Runner", "direct_runner", "new_arrays"]

# The sizes of so many combinations are kept.
SIZES_KEPT = 256

LARGEST_SIZE = 2**63 - 1


class Runner(Protocol):
    """A call at sizes that are known: from the inputs in order to the outputs in order.

    Inputs are of the right types, and ready for native code. Outputs are new arrays of the caller's own; if `given`
    are passed and fit, they may be written into instead and returned.
    """

    def __call__(self, arrays: Sequence[np.ndarray], given: Sequence[np.ndarray] | None = None) -> Sequence[np.ndarray]:
        """The outputs."""


@dataclass(frozen=True, slots=True, eq=False)
class LaunchSizes:
    """What sizes decide for a launch."""

    symbols: "array[int]"
    arena_bytes: int
    outputs: tuple[tuple[tuple[int, ...], DType], ...]


@dataclass(frozen=True, eq=False)
class NativeLaunch:
    """A launch ready to run. `locations` are the nodes that the numbers in a status block mean."""

    step: Launch
    entry: Callable[..., int]
    symbol_count: int
    locations: Sequence[str]
    at: Callable[[tuple[int, ...]], LaunchSizes] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", lru_cache(SIZES_KEPT)(_sizes_function(self.step)))

    @property
    def frame_words(self) -> int:
        return FRAME_SYMBOLS + self.symbol_count + len(self.step.inputs) + len(self.step.outputs)

    def run(self, sizes: LaunchSizes, arrays: Sequence[np.ndarray], workspace: Workspace) -> None:
        """Calls the entry on the inputs and outputs, in this order; InputError for what the status block says."""
        if workspace.sizes is not sizes:
            workspace.prepare(sizes, sizes.symbols, sizes.arena_bytes)
        store_addresses(workspace.words, FRAME_SYMBOLS + self.symbol_count, arrays)
        self.entry(workspace.frame)
        workspace.launches += 1
        if workspace.words[workspace.status]:
            raise status_error(workspace.take_status(), self.locations)


def direct_runner(
    launch: NativeLaunch,
    sizes: LaunchSizes,
    inputs: Sequence[int],
    results: Sequence[int],
    workspaces: WorkspacePool,
) -> Runner:
    """The call of a program that is this launch and nothing else.

    Input k of the launch is input `inputs[k]` of the program; result k of the program is output `results[k]` of the
    launch. The common case is written for speed.
    """
    specs, free, entry, first = sizes.outputs, workspaces.free, launch.entry, FRAME_SYMBOLS + launch.symbol_count
    in_order = tuple(inputs) == tuple(range(len(inputs))) and tuple(results) == tuple(range(len(specs)))
    permuted = [results.index(k) for k in range(len(specs))]

    def run(arrays: Sequence[np.ndarray], given: Sequence[np.ndarray] | None = None) -> Sequence[np.ndarray]:
        if not in_order:
            arrays = [arrays[index] for index in inputs]
        outputs: Sequence[np.ndarray]
        if given is None:
            outputs = new_arrays(specs)
        else:
            given = [given[index] for index in permuted]
            fits = all(x.shape == shape for x, (shape, _) in zip(given, specs, strict=True))
            outputs = given if fits else new_arrays(specs)
        try:
            workspace = free.pop()
        except IndexError:
            workspace = workspaces.take()
        if workspace.sizes is not sizes:
            workspace.prepare(sizes, sizes.symbols, sizes.arena_bytes)
        store_addresses(workspace.words, first, (*arrays, *outputs))
        entry(workspace.frame)
        workspace.calls += 1
        workspace.launches += 1
        if workspace.words[workspace.status]:
            status = workspace.take_status()
            free.append(workspace)
            raise status_error(status, launch.locations)
        free.append(workspace)
        return outputs if in_order else [outputs[index] for index in results]

    return run


def new_arrays(specs: Sequence[tuple[tuple[int, ...], DType]]) -> list[np.ndarray]:
    """Uninitialised arrays of these shapes and types."""
    try:
        return list(starmap(np.empty, specs))
    except (MemoryError, ValueError) as problem:
        listed = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in specs)
        raise DeviceError(f"arrays {listed} do not fit into memory", code="out-of-memory") from problem


def status_error(status: Sequence[int], locations: Sequence[str]) -> InputError:
    """The error that a status block means: code, number of the location, value, size."""
    code, place, value, size = status[:4]
    where = f"\n  --> {locations[place]}" if 0 <= place < len(locations) else ""
    if code == 1:
        return InputError(f"index {value} is outside of an axis of size {size}{where}", code="index-out-of-range")
    return InputError(f"the data is not legal ({code}, {value}, {size}){where}", code="illegal-data")


def _sizes_function(step: Launch) -> Callable[[tuple[int, ...]], LaunchSizes]:
    evaluate = compile_sizes([step.arena_bytes, *(text for spec in step.specs for text in spec.shape)])
    ranks = [(len(spec.shape), DTYPES[spec.dtype]) for spec in step.specs]

    def sizes_at(symbols: tuple[int, ...]) -> LaunchSizes:
        arena_bytes, *dims = evaluate(symbols)
        check_sizes(dims)
        shapes, start = [], 0
        for rank, dtype in ranks:
            shapes.append((tuple(dims[start : start + rank]), dtype))
            start += rank
        return LaunchSizes(array("q", symbols), arena_bytes, tuple(shapes))

    return sizes_at


def check_sizes(dims: Sequence[int]) -> None:
    """InputError where data has made a size negative, or larger than any array."""
    for size in dims:
        if not 0 <= size <= LARGEST_SIZE:
            raise InputError(f"the inputs make a size of {size}", code="impossible-size")
