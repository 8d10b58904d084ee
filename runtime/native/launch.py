"""Native calls: the frame filled, the entry called, the status block read.

What sizes decide is worked out once for each combination of them.
"""

import ctypes
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from math import prod

import numpy as np

from onnxc.runtime.cpu import Image
from onnxc.runtime.dtypes import DTYPES, DType
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.native.addresses import read_address
from onnxc.runtime.native.builtin_function import NativeCall, native_call
from onnxc.runtime.native.faults import STOPPED, illegal_data
from onnxc.runtime.native.native_caller import NativeCaller
from onnxc.runtime.native.output_memory import SMALLEST_BYTES, ArrayMaker, array_maker, array_over
from onnxc.runtime.native.workspaces import Workspace
from onnxc.runtime.program import FAULT, FRAME_SYMBOLS, LARGEST_BYTES, Fault, Launch, TensorSpec, compile_sizes
from onnxc.runtime.records import record

__all__ = ["LaunchSizes", "NativeLaunch", "expect_possible"]

# The sizes of so many combinations are kept.
SIZES_KEPT = 256

MakerOf = Callable[[int], ArrayMaker]
"""What makes an array of so many bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class LaunchSizes:
    """What sizes decide for a launch; `shapes`, `nbytes` and what makes arrays are of the outputs that are not late.

    makers: none for a launch on a device.
    """

    symbols: "array[int]"
    arena_bytes: int
    shapes: tuple[tuple[int, ...], ...]
    nbytes: tuple[int, ...]
    makers: tuple[ArrayMaker, ...]


@record(eq=False)
class NativeLaunch:
    """A launch ready to run. `locations` and `faults` are what the numbers in a status block mean."""

    step: Launch
    image: Image
    symbol_count: int
    locations: Sequence[str]
    faults: Sequence[Fault] = ()

    @cached_property
    def entry(self) -> Callable[..., int]:
        """The native code, which takes the address of a frame."""
        return self.image.function(self.step.entry, 1)

    @cached_property
    def call(self) -> NativeCall:
        """The same, which takes a frame as an array of words, the inputs and the early outputs."""
        return native_call(self.image, self.step.entry, self.array_words)

    @property
    def first_array(self) -> int:
        """The word of the frame that the address of the first input goes to."""
        return FRAME_SYMBOLS + self.symbol_count

    @property
    def frame_words(self) -> int:
        step = self.step
        return self.first_array + max(step.array_words, len(step.inputs) + len(step.outputs))

    @cached_property
    def early(self) -> tuple[int, ...]:
        """The outputs, by number, whose sizes are known before the call."""
        return tuple(k for k in range(len(self.step.outputs)) if k not in self.step.late)

    @cached_property
    def dtypes(self) -> tuple[DType, ...]:
        """The element types of the early outputs."""
        return tuple(DTYPES[self.step.specs[k].dtype] for k in self.early)

    @cached_property
    def array_words(self) -> tuple[int, ...]:
        """The words of the frame for the addresses of the inputs and of the early outputs."""
        first_output = self.first_array + len(self.step.inputs)
        return (*range(self.first_array, first_output), *(first_output + k for k in self.early))

    @cached_property
    def at(self) -> Callable[[tuple[int, ...]], LaunchSizes]:
        """A function from the values of all symbols to what they decide; InputError where they are impossible."""
        return self._sizes_function(array_maker)

    @cached_property
    def device_at(self) -> Callable[[tuple[int, ...]], LaunchSizes]:
        """The same for a launch on a device, where nothing of it makes arrays of the host."""
        return self._sizes_function(None)

    def _sizes_function(self, maker: MakerOf | None) -> Callable[[tuple[int, ...]], LaunchSizes]:
        specs = [self.step.specs[k] for k in self.early]
        return lru_cache(SIZES_KEPT)(_sizes_function(self.step.arena_bytes, specs, self.dtypes, maker))

    def new_outputs(self, sizes: LaunchSizes) -> list[np.ndarray]:
        """Uninitialised arrays for the early outputs."""
        try:
            made = zip(sizes.makers, sizes.shapes, self.dtypes, strict=True)
            return [make(shape, dtype) for make, shape, dtype in made]
        except MemoryError as problem:
            raise out_of_memory(sizes.shapes, self.dtypes) from problem

    def begin(
        self, sizes: LaunchSizes, arrays: Sequence[np.ndarray], workspace: Workspace, caller: NativeCaller
    ) -> None:
        """Has the thread call the entry on the inputs and early outputs, in this order; `end` is to follow."""
        if workspace.sizes is not sizes:
            workspace.prepare(sizes, sizes.symbols, sizes.arena_bytes)
        if workspace.heap is not None:
            workspace.heap.refill()
        for word, x in zip(self.array_words, arrays, strict=True):
            workspace.words[word] = read_address(x)
        caller.begin(self.image, self.step.entry, read_address(workspace.block), (arrays, workspace))

    def end(self, workspace: Workspace, caller: NativeCaller) -> int:
        """Waits for the call that was begun, which took so many ns; raises what the status block says."""
        took_ns = caller.end()
        workspace.counts.launches += 1
        if workspace.words[workspace.status]:
            raise self.problem(workspace)
        return took_ns

    def run(self, sizes: LaunchSizes, arrays: Sequence[np.ndarray], workspace: Workspace) -> None:
        """Calls the entry on the inputs and early outputs, in this order; raises what the status block says."""
        if workspace.sizes is not sizes:
            workspace.prepare(sizes, sizes.symbols, sizes.arena_bytes)
        if workspace.heap is not None:
            workspace.heap.refill()
        is_ill = self.call(workspace.block, *arrays)
        workspace.counts.launches += 1
        if is_ill:
            raise self.problem(workspace)

    def problem(self, workspace: Workspace) -> BaseException:
        """What the status block says, which is clear again afterwards; what a handler of a signal has raised."""
        code, ordinal, *_ = status = workspace.take_status()
        # A call that ends in its middle leaves its own symbols in the frame.
        workspace.sizes = None
        if code == FAULT and workspace.heap is not None and self.faults[ordinal].kind == STOPPED:
            return workspace.heap.interruption()
        return illegal_data(status, self.locations, self.faults)

    def bound_symbols(self, workspace: Workspace) -> dict[int, int]:
        """The values of the symbols that the call has bound."""
        return {symbol: workspace.words[FRAME_SYMBOLS + symbol] for symbol in self.step.binds}

    def late_outputs(self, symbols: Sequence[int], workspace: Workspace) -> list[np.ndarray]:
        """What the call has left on the heap, with these symbols as it has bound them; small ones are copied."""
        heap, arrays = workspace.heap, []
        for dtype, word, shape_at in zip(self.late_dtypes, self.late_words, self.late_shapes, strict=True):
            shape, address = shape_at(symbols), workspace.words[word]
            nbytes = prod(shape) * dtype.itemsize
            if nbytes == 0 and _bytes_of_nonempty([shape], [dtype.itemsize]) > LARGEST_BYTES:
                raise out_of_memory([shape], [dtype])
            block = heap.take_out(address, nbytes) if heap is not None and nbytes >= SMALLEST_BYTES else None
            arrays.append(_copied(address, nbytes, shape, dtype) if block is None else array_over(block, shape, dtype))
        return arrays

    @cached_property
    def late_dtypes(self) -> tuple[DType, ...]:
        """The element types of the late outputs."""
        return tuple(DTYPES[self.step.specs[k].dtype] for k in self.step.late)

    @cached_property
    def late_words(self) -> tuple[int, ...]:
        """The words of the frame where the call leaves the addresses of its late outputs."""
        first_output = self.first_array + len(self.step.inputs)
        return tuple(first_output + k for k in self.step.late)

    @cached_property
    def late_shapes(self) -> tuple[Callable[[Sequence[int]], tuple[int, ...]], ...]:
        """The shapes of the late outputs, as functions of the symbols."""
        return tuple(compile_sizes(self.step.specs[k].shape) for k in self.step.late)


def _copied(address: int, nbytes: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    try:
        array = array_maker(nbytes)(shape, dtype)
    except MemoryError as problem:
        raise out_of_memory([shape], [dtype]) from problem
    ctypes.memmove(read_address(array), address, nbytes)
    return array


def out_of_memory(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[DType]) -> DeviceError:
    """The error that says which arrays do not fit."""
    listed = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in zip(shapes, dtypes, strict=True))
    return DeviceError(f"arrays {listed} do not fit into memory", code="out-of-memory")


def _sizes_function(
    arena: str, specs: Sequence[TensorSpec], dtypes: Sequence[DType], maker: MakerOf | None
) -> Callable[[tuple[int, ...]], LaunchSizes]:
    evaluate = compile_sizes([arena, *(text for spec in specs for text in spec.shape)])
    ends = [*accumulate((len(spec.shape) for spec in specs), initial=0)]
    itemsizes = [dtype.itemsize for dtype in dtypes]

    def sizes_at(symbols: tuple[int, ...]) -> LaunchSizes:
        arena_bytes, *dims = evaluate(symbols)
        expect_possible(dims)
        shapes = tuple([tuple(dims[begin:end]) for begin, end in pairwise(ends)])
        nbytes = tuple([prod(shape) * itemsize for shape, itemsize in zip(shapes, itemsizes, strict=True)])
        # An array without elements may still have strides that nothing can count.
        counted = sum(nbytes) if all(dims) else _bytes_of_nonempty(shapes, itemsizes)
        if max(counted, arena_bytes) > LARGEST_BYTES:
            raise out_of_memory(shapes, dtypes)
        makers = () if maker is None else tuple(map(maker, nbytes))
        return LaunchSizes(array("q", symbols), arena_bytes, shapes, nbytes, makers)

    return sizes_at


def expect_possible(dims: Sequence[int]) -> None:
    """InputError where a size is below 0."""
    if min(dims, default=0) < 0:
        size = next(size for size in dims if size < 0)
        raise InputError(f"the inputs make a size of {size}", code="impossible-size")


def _bytes_of_nonempty(shapes: Sequence[tuple[int, ...]], itemsizes: Sequence[int]) -> int:
    """The bytes of arrays of these shapes, sizes of 0 counted as 1."""
    return sum(prod(size or 1 for size in shape) * item for shape, item in zip(shapes, itemsizes, strict=True))
