"""A program whose launches run on a device: the engine of executables for CUDA.

Values are on the device or on the host, wherever the step that made them ran; a launch brings what it reads to the
device, a host step to the host, each at most once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.addresses import read_address
from onnxc.runtime.arrays import describe, is_ready
from onnxc.runtime.cpu import Image
from onnxc.runtime.device_code import DeviceCode
from onnxc.runtime.dtypes import STRING, DType
from onnxc.runtime.engine import (
    FastFunction,
    constant_view,
    default_arrays,
    is_direct,
    launch_orders,
    native_launches,
    without_input_guards,
)
from onnxc.runtime.errors import DeviceError, InputError, OnnxcError
from onnxc.runtime.fast_call import Shapes
from onnxc.runtime.gpu.arrays import ALIGNMENT, DeviceArray
from onnxc.runtime.gpu.device import Device, load_code
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.gpu.graphs import GRAPHS_KEPT
from onnxc.runtime.gpu.memory import Block, Buffer
from onnxc.runtime.gpu.workspaces import Call, DeviceWorkspace, Shared
from onnxc.runtime.launch import LaunchSizes, NativeLaunch
from onnxc.runtime.program import DEVICE_STREAM, TOO_MANY_ELEMENTS, Constant, Launch, Program
from onnxc.runtime.stats import Stats
from onnxc.runtime.steps import RunStep, Slots, Surroundings, Symbols, guard_check, prepare_body, run_body
from onnxc.runtime.values import as_array, host_value, own_values, stack_arrays
from onnxc.runtime.workspaces import WorkspacePool

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = ["DeviceEngine", "Place", "Wanted"]


class Place(Enum):
    """Where a new array for an output lies."""

    HOST, DEVICE = range(2)


# A new array for an output, or an array that the caller gave for it.
Wanted = Place | DeviceArray | np.ndarray

# Larger arrays of the host are not copied through pinned memory, which other processes lack then.
LARGEST_STAGED_BYTES = 64 << 20

_STAGING_ALIGNMENT = 256


class DeviceEngine:
    """Runs a program on a CUDA device. `image` may only be None where the program has no launch."""

    def __init__(
        self,
        program: Program,
        image: Image | None,
        code: DeviceCode,
        weights: np.ndarray,
        locations: Sequence[str],
        driver: Driver,
        number: int = 0,
        graphs_kept: int = GRAPHS_KEPT,
    ) -> None:
        self.program, self.weights = program, weights
        self.device = device = Device(driver, number)
        body, guards = without_input_guards(program.body)
        self.guards = [guard_check(guard) for guard in guards]
        launches = native_launches(body, image, len(program.symbols), locations)
        frame_words = max((launch.frame_words for launch in launches.values()), default=0)
        with device.current():
            loaded = load_code(device, code)
            buffer = Buffer(device, weights.nbytes, "the weights of the model")
            if weights.nbytes:
                device.upload(buffer.address, weights)
        shared = Shared(device, loaded, buffer, frame_words, locations, graphs_kept)
        self.workspaces = WorkspacePool(lambda: DeviceWorkspace(shared))
        self._defaults = default_arrays(program, weights)
        # What is among the weights is on the device already; the arrays live as long as the engine.
        resident = ((x, _resident(device, buffer, x, weights)) for x in self._defaults.values())
        self._resident = {id(x): array for x, array in resident if array is not None}
        around = Surroundings(
            program.symbols,
            lambda constant: _constant(device, buffer, weights, constant),
            lambda step: _device_step(step, launches[id(step)]),
            _stack,
        )
        self.body = prepare_body(body, around, frozenset())
        self.direct = next(iter(launches.values())) if is_direct(body) else None
        if self.direct is not None:
            self._order, self._results = launch_orders(program.body, self.direct)

    @contextmanager
    def call(self, stream: int | None = None) -> Iterator[Call]:
        """A call on the caller's stream, not waited for at the end; or on one of ours, waited for."""
        with self.device.current():
            workspace = self.workspaces.take()
            call = Call(workspace, stream)
            try:
                yield call
                call.close()
            except OnnxcError:
                call.abandon()
                self.workspaces.free.append(workspace)
                raise
            except BaseException:
                # The call may have been in the middle of anything: its workspace goes, once the device is done with it.
                call.abandon()
                raise
            self.workspaces.free.append(workspace)

    def run_in(
        self, call: Call, values: Sequence["SlotValue"], sizes: tuple[int, ...], wanted: Sequence[Wanted]
    ) -> list["SlotValue"]:
        """The outputs of a call, each where it is wanted; an array that was given is among them if it was written to.

        Those on the host are complete, those on the device are so when the call is.
        """
        call.workspace.counts.calls += 1
        if self.direct is not None:
            return self._run_direct(self.direct, call, values, sizes, wanted)
        inside = [value.within(call) if isinstance(value, DeviceArray) else value for value in values]
        results = run_body(self.body, inside, list(sizes), call)
        found: list[SlotValue] = [_as_wanted(result, want, call) for result, want in zip(results, wanted, strict=True)]
        owned = iter(own_values([value for value in found if not isinstance(value, DeviceArray)], values))
        return [value if isinstance(value, DeviceArray) else next(owned) for value in found]

    def run(
        self, values: Sequence["HostValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["HostValue"]:
        """The outputs on the host."""
        with self.call() as call:
            return [host_value(value) for value in self.run_in(call, values, sizes, given or self.on_host)]

    @property
    def on_host(self) -> tuple[Wanted, ...]:
        """All outputs on the host."""
        return (Place.HOST,) * len(self.program.outputs)

    def fast_call(self) -> FastFunction | None:
        """None: there is nothing faster."""
        return None

    def learn(self, shapes: Shapes, sizes: tuple[int, ...]) -> None:
        """Checks what sizes alone decide."""
        for check in self.guards:
            check(sizes)

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""
        return self._defaults

    def stats(self) -> Stats:
        """What has run so far."""
        counts = self.workspaces.counts()
        return Stats(calls=counts.calls, launches=counts.launches, arena_bytes=self.workspaces.arena_bytes)

    def _run_direct(
        self,
        launch: NativeLaunch,
        call: Call,
        values: Sequence["SlotValue"],
        sizes: tuple[int, ...],
        wanted: Sequence[Wanted],
    ) -> list["SlotValue"]:
        """The only launch of a program, with all copies of a call in one graph."""
        workspace, found = call.workspace, launch.at(sizes)
        if workspace.sizes is not found:
            workspace.prepare(found, found.symbols, found.arena_bytes)
        inputs = [self._input(values[index], call) for index in self._order]
        outputs = self._outputs(launch, found, wanted, inputs, call)
        arriving = _Passage([x for x in inputs if isinstance(x, np.ndarray)])
        leaving = _Passage([x for x in outputs if isinstance(x, np.ndarray)])
        for staging, passage in ((workspace.incoming, arriving), (workspace.outgoing, leaving)):
            if passage.nbytes:
                workspace.reserve(staging, passage.nbytes)
        for array, offset in zip(arriving.arrays, arriving.offsets, strict=True):
            workspace.incoming.view(offset, array.shape, array.dtype)[...] = array
        addresses = (
            *arriving.addresses(inputs, workspace.incoming.address),
            *leaving.addresses(outputs, workspace.outgoing.address),
        )
        for place, address in enumerate(addresses, launch.first_array):
            workspace.words[place] = address

        def enqueue(stream: int) -> None:
            _copy_staged(workspace, arriving.nbytes, stream, to_device=True)
            _enqueue(launch, workspace, stream)
            _copy_staged(workspace, leaving.nbytes, stream, to_device=False)

        key = (sizes, addresses, arriving.nbytes, leaving.nbytes)
        workspace.graphs.run(key, call.stream, workspace.stream, enqueue, workspace.settle)
        workspace.counts.launches += 1
        call.in_flight = True
        if leaving.arrays:
            call.synchronize()
        for array, offset in zip(leaving.arrays, leaving.offsets, strict=True):
            array[...] = workspace.outgoing.view(offset, array.shape, array.dtype)
        return [_as_wanted(outputs[k], want, call) for k, want in zip(self._results, wanted, strict=True)]

    def _input(self, value: "SlotValue", call: Call) -> np.ndarray | DeviceArray:
        """An input of the only launch: on the device, or an array to be staged."""
        if isinstance(value, DeviceArray):
            return value
        array = as_array(value)
        resident = self._resident.get(id(array))
        if resident is not None:
            return resident
        return array if array.nbytes <= LARGEST_STAGED_BYTES else _uploaded(array, call)

    def _outputs(
        self,
        launch: NativeLaunch,
        found: LaunchSizes,
        wanted: Sequence[Wanted],
        inputs: Sequence[np.ndarray | DeviceArray],
        call: Call,
    ) -> list[np.ndarray | DeviceArray]:
        """An array for each output of the only launch: on the device, or one of the host to be copied to."""
        places = {output: wanted[result] for result, output in enumerate(self._results)}
        taken = [x for x in inputs if isinstance(x, DeviceArray)]
        outputs: list[np.ndarray | DeviceArray] = []
        for index, (shape, dtype) in enumerate(zip(found.shapes, launch.dtypes, strict=True)):
            output = _output(shape, dtype, places[index], taken, call)
            outputs.append(output)
            if isinstance(output, DeviceArray):
                taken.append(output)
        return outputs


class _Passage:
    """Arrays of the host on their way through staging memory: where each lies there, and the bytes of all."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = arrays
        self.offsets: list[int] = []
        self.nbytes = 0
        for array in arrays:
            self.offsets.append(self.nbytes)
            self.nbytes += max(1, -(-array.nbytes // _STAGING_ALIGNMENT)) * _STAGING_ALIGNMENT

    def addresses(self, arrays: Sequence[np.ndarray | DeviceArray], base: int) -> list[int]:
        """The address on the device of each array, in staging memory at `base` if it passes through it."""
        offsets = iter(self.offsets)
        return [x.address if isinstance(x, DeviceArray) else base + next(offsets) for x in arrays]


def _device_step(step: Launch, launch: NativeLaunch) -> RunStep[Call]:
    """A launch as a step: outputs are new arrays of the device."""

    def run(slots: Slots, symbols: Symbols, call: Call) -> None:
        workspace, found = call.workspace, launch.at(tuple(symbols))
        if workspace.sizes is not found:
            workspace.prepare(found, found.symbols, found.arena_bytes)
        arrays: list[DeviceArray] = []
        for slot in step.inputs:
            slots[slot] = on_device = _on_device(slots[slot], call)
            arrays.append(on_device)
        for slot, shape, dtype in zip(step.outputs, found.shapes, launch.dtypes, strict=True):
            slots[slot] = made = call.new_array(shape, dtype, "a value inside of the model")
            arrays.append(made)
        for place, array in enumerate(arrays, launch.first_array):
            workspace.words[place] = array.address
        _enqueue(launch, workspace, call.stream)
        workspace.counts.launches += 1
        call.in_flight = True

    return run


def _enqueue(launch: NativeLaunch, workspace: DeviceWorkspace, stream: int) -> None:
    """Calls the entry, which launches the kernels on the stream."""
    workspace.table[DEVICE_STREAM] = stream
    result = launch.entry(workspace.frame)
    if result == TOO_MANY_ELEMENTS:
        message = "an array inside of the model has 2**31 elements or more, which its kernels cannot count"
        raise DeviceError(message, code="too-many-elements")
    if result:
        workspace.device.driver.fail(result, f"to launch the kernels of {launch.step.entry}", "cuLaunchKernelEx")


def _copy_staged(workspace: DeviceWorkspace, nbytes: int, stream: int, *, to_device: bool) -> None:
    """Enqueues the copy of what is staged, in one piece."""
    if nbytes == 0:
        return
    staging = workspace.incoming if to_device else workspace.outgoing
    function = "cuMemcpyHtoDAsync_v2" if to_device else "cuMemcpyDtoHAsync_v2"
    ends = (staging.address, staging.host_address)
    to, origin = ends if to_device else reversed(ends)
    workspace.device.driver.call("to copy inputs or outputs", function, to, origin, nbytes, stream)


def _output(
    shape: tuple[int, ...], dtype: DType, want: Wanted, taken: Sequence[DeviceArray], call: Call
) -> np.ndarray | DeviceArray:
    if isinstance(want, DeviceArray) and want.shape == shape and not any(_overlap(want, other) for other in taken):
        return want
    if isinstance(want, DeviceArray) or want is Place.DEVICE or prod(shape) * dtype.itemsize > LARGEST_STAGED_BYTES:
        return call.new_array(shape, dtype, "an output")
    return want if isinstance(want, np.ndarray) and want.shape == shape else np.empty(shape, dtype)


def _overlap(a: DeviceArray, b: DeviceArray) -> bool:
    return a.address < b.address + b.nbytes and b.address < a.address + a.nbytes


def _as_wanted(value: "SlotValue", want: Wanted, call: Call) -> "SlotValue":
    """A result where it is wanted; on the device in an array of the caller's own, or in the one that was given."""
    if isinstance(want, np.ndarray) or want is Place.HOST:
        return host_value(value)
    if not isinstance(value, np.ndarray | DeviceArray) or value.dtype == STRING:
        return value
    result = _on_device(value, call)
    if isinstance(want, DeviceArray):
        if result is not want:
            _expect_shape(want, result)
            call.copy(want.address, result.address, want.nbytes)
        result = want
    elif not isinstance(result.owner, Block) or any(result is made for made in call.made):
        result = _copied(result, call)
    call.made.append(result)
    return result


def _expect_shape(given: DeviceArray, result: DeviceArray) -> None:
    if given.shape != result.shape:
        message = f"out has {describe(given)}, the output is {describe(result)}"
        raise InputError(message, code="output-shape")


def _copied(array: DeviceArray, call: Call) -> DeviceArray:
    made = call.new_array(array.shape, array.dtype, "an output")
    call.copy(made.address, array.address, array.nbytes)
    return made


def _on_device(value: "SlotValue", call: Call) -> DeviceArray:
    """The array on the device, where it stays; an array of the host is copied there."""
    return value if isinstance(value, DeviceArray) else _uploaded(as_array(value), call)


def _uploaded(array: np.ndarray, call: Call) -> DeviceArray:
    ready = array if is_ready(array) else array.copy(order="C")
    made = call.new_array(ready.shape, ready.dtype, "an array of the host")
    call.upload(ready, made.address)
    return made


def _stack(tensors: Sequence["SlotValue"], call: Call) -> "SlotValue":
    """Tensors along a new first axis: on the device if one of them is there."""
    if not any(isinstance(tensor, DeviceArray) for tensor in tensors):
        return stack_arrays(tensors)
    arrays = [_on_device(tensor, call) for tensor in tensors]
    first = arrays[0]
    made = call.new_array((len(arrays), *first.shape), first.dtype, "what a loop stacks")
    for index, array in enumerate(arrays):
        call.copy(made.address + index * first.nbytes, array.address, first.nbytes)
    return made


def _constant(device: Device, buffer: Buffer, weights: np.ndarray, constant: Constant) -> "np.ndarray | DeviceArray":
    """A constant of a body, among the weights on the device and on the host."""
    view = constant_view(weights, constant)
    found = _resident(device, buffer, view, weights)
    return view if found is None else found


def _resident(device: Device, buffer: Buffer, view: np.ndarray, weights: np.ndarray) -> DeviceArray | None:
    """A view of the weights as the array that it is on the device; None for texts, which are no view."""
    if view.dtype == STRING:
        return None
    offset = read_address(view) - read_address(weights)
    if offset % ALIGNMENT:
        return None
    return DeviceArray(device, buffer.address + offset, view.shape, view.dtype, buffer, None, view)
