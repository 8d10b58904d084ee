"""Native calls: the frame filled, the entry called, the status block read.

What sizes decide is worked out once for each combination of them.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from onnxc.runtime.addresses import read_address
from onnxc.runtime.dtypes import DTYPES, DType
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.program import FRAME_SYMBOLS, Launch, compile_sizes
from onnxc.runtime.workspaces import Workspace

__all__ = ["LaunchSizes", "NativeLaunch", "illegal_data"]

# The sizes of so many combinations are kept.
SIZES_KEPT = 256

# No machine has as much memory.
LARGEST_BYTES = 1 << 56


@dataclass(frozen=True, slots=True, eq=False)
class LaunchSizes:
    """What sizes decide for a launch."""

    symbols: "array[int]"
    arena_bytes: int
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class NativeLaunch:
    """A launch ready to run. `locations` are the nodes that the numbers in a status block mean."""

    step: Launch
    entry: Callable[..., int]
    symbol_count: int
    locations: Sequence[str]

    @property
    def first_array(self) -> int:
        """The word of the frame that the address of the first input goes to."""
        return FRAME_SYMBOLS + self.symbol_count

    @property
    def frame_words(self) -> int:
        return self.first_array + len(self.step.inputs) + len(self.step.outputs)

    @cached_property
    def dtypes(self) -> tuple[DType, ...]:
        """The element types of the outputs."""
        return tuple(DTYPES[spec.dtype] for spec in self.step.specs)

    @cached_property
    def at(self) -> Callable[[tuple[int, ...]], LaunchSizes]:
        """A function from the values of all symbols to what they decide; InputError where they are impossible."""
        return lru_cache(SIZES_KEPT)(_sizes_function(self.step, self.dtypes))

    def new_outputs(self, sizes: LaunchSizes) -> list[np.ndarray]:
        """Uninitialised arrays for the outputs."""
        try:
            return [np.empty(shape, dtype) for shape, dtype in zip(sizes.shapes, self.dtypes, strict=True)]
        except MemoryError as problem:
            raise out_of_memory(sizes.shapes, self.dtypes) from problem

    def run(self, sizes: LaunchSizes, arrays: Sequence[np.ndarray], workspace: Workspace) -> None:
        """Calls the entry on the inputs and outputs, in this order; InputError for what the status block says."""
        if workspace.sizes is not sizes:
            workspace.prepare(sizes, sizes.symbols, sizes.arena_bytes)
        words = workspace.words
        for place, x in enumerate(arrays, self.first_array):
            words[place] = read_address(x)
        self.entry(workspace.frame)
        workspace.counts.launches += 1
        if words[workspace.status]:
            raise illegal_data(workspace.take_status(), self.locations)


def illegal_data(status: Sequence[int], locations: Sequence[str]) -> InputError:
    """The error for a status block: code, number of the location, value, size."""
    code, place, value, size, *_ = status
    location = locations[place] if 0 <= place < len(locations) else ""
    where = f"\n  --> {location}" if location else ""
    if code == 1:
        return InputError(f"index {value} is outside of an axis of size {size}{where}", code="index-out-of-range")
    return InputError(f"the data is not legal ({code}, {value}, {size}){where}", code="illegal-data")


def out_of_memory(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[DType]) -> DeviceError:
    """The error that says which arrays do not fit."""
    listed = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in zip(shapes, dtypes, strict=True))
    return DeviceError(f"arrays {listed} do not fit into memory", code="out-of-memory")


def _sizes_function(step: Launch, dtypes: Sequence[DType]) -> Callable[[tuple[int, ...]], LaunchSizes]:
    evaluate = compile_sizes([step.arena_bytes, *(text for spec in step.specs for text in spec.shape)])

    def sizes_at(symbols: tuple[int, ...]) -> LaunchSizes:
        arena_bytes, *dims = evaluate(symbols)
        for size in dims:
            if size < 0:
                raise InputError(f"the inputs make a size of {size}", code="impossible-size")
        remaining = iter(dims)
        shapes = tuple(tuple(next(remaining) for _ in spec.shape) for spec in step.specs)
        nbytes = sum(
            prod(size or 1 for size in shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)
        )
        if max(nbytes, arena_bytes) > LARGEST_BYTES:
            raise out_of_memory(shapes, dtypes)
        return LaunchSizes(array("q", symbols), arena_bytes, shapes)

    return sizes_at
