"""A program whose launches run on a device: the engine of executables for CUDA.

Values are on the device or on the host, wherever the step that made them ran; a launch brings what it reads to the
device, a host step to the host, each at most once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.cpu import Image
from onnxc.runtime.device_code import DeviceCode
from onnxc.runtime.dtypes import STRING
from onnxc.runtime.engine import (
    FastFunction,
    constant_view,
    default_arrays,
    native_launches,
    without_input_guards,
)
from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.fast_call import Shapes
from onnxc.runtime.gpu.arrays import ALIGNMENT, DeviceArray
from onnxc.runtime.gpu.chain import chain_of
from onnxc.runtime.gpu.device import Device, load_code
from onnxc.runtime.gpu.direct import DirectEngine
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.gpu.graphs import GRAPHS_KEPT
from onnxc.runtime.gpu.growing_sizes import GrowingSizes
from onnxc.runtime.gpu.memory import Buffer
from onnxc.runtime.gpu.wanted import Residency, Wanted, as_wanted, on_device
from onnxc.runtime.gpu.workspaces import Call, DeviceWorkspace, Shared, enqueue_launch
from onnxc.runtime.native.addresses import read_address
from onnxc.runtime.native.launch import NativeLaunch
from onnxc.runtime.native.workspaces import WorkspacePool
from onnxc.runtime.program import Constant, Launch, Program
from onnxc.runtime.stats import Stats
from onnxc.runtime.steps import ExecutionContext, RunStep, Slots, Symbols, guard_check, prepare_body, run_body
from onnxc.runtime.values import arrived, host_value, own_values, stack_arrays

if TYPE_CHECKING:
    # Not loaded for one device: exchanges bring all meanings of primitives with them.
    from onnxc.runtime.gpu.collectives import Communicators
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = ["DeviceEngine", "resident"]


class DeviceEngine:
    """Runs a program on a CUDA device. `image` may only be None where the program has no launch.

    communicators: by which it exchanges values with other devices, in the thread of one that meets them.
    """

    def __init__(
        self,
        program: Program,
        image: Image | None,
        code: DeviceCode,
        weights: np.ndarray,
        locations: Sequence[str],
        driver: Driver,
        ordinal: int = 0,
        graphs_kept: int = GRAPHS_KEPT,
        communicators: "Communicators | None" = None,
    ) -> None:
        self.program, self.weights = program, weights
        self.device = device = Device(driver, ordinal)
        body, guards = without_input_guards(program.body)
        self.guards = [guard_check(guard) for guard in guards]
        launches = native_launches(body, image, len(program.symbols), locations)
        frame_words = max((launch.frame_words for launch in launches.values()), default=0)
        with device.current():
            loaded = load_code(device, code)
            buffer = Buffer(device, weights.nbytes, "the weights of the model")
            if weights.nbytes:
                device.upload(buffer.address, weights)
        watching = None if communicators is None else communicators.watch(device)
        shared = Shared(device, loaded, buffer, frame_words, locations, graphs_kept, watching)
        self.workspaces = WorkspacePool(lambda: DeviceWorkspace(shared))
        self._defaults = default_arrays(program, weights)
        context = ExecutionContext(
            program.symbols,
            lambda constant: _constant(device, buffer, weights, constant),
            lambda step: _device_step(step, launches[step]),
            _stack,
            exchange=None if communicators is None else communicators.exchange_step(device),
        )
        self.body = prepare_body(body, context, frozenset())
        self.direct: DirectEngine | None = None
        chain = chain_of(body, launches)
        if chain is not None:
            # What is among the weights is on the device already.
            defaults = {k: (x, resident(device, buffer, x, weights)) for k, x in self._defaults.items()}
            growing = None if program.growth is None else GrowingSizes(program.growth)
            self.direct = DirectEngine(chain, defaults, growing)

    @contextmanager
    def call(self, stream: int | None = None) -> Iterator[Call]:
        """A call on the caller's stream, not waited for at the end; or on one of ours, waited for."""
        before = self.device.enter()
        try:
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
        finally:
            self.device.leave(before)

    def run_in(
        self, call: Call, values: Sequence["SlotValue"], sizes: tuple[int, ...], wanted: Sequence[Wanted]
    ) -> list["SlotValue"]:
        """The outputs of a call, each where it is wanted; an array that was given is among them if it was written to.

        Those on the host are complete, those on the device are so when the call is.
        """
        call.workspace.counts.calls += 1
        at_most = None if self.direct is None else self.direct.chain.at_most(sizes)
        if self.direct is not None and at_most is not None:
            return self.direct.run(call, values, at_most, wanted)
        inside = [value.within(call) if isinstance(value, DeviceArray) else value for value in values]
        results = run_body(self.body, inside, list(sizes), call)
        outputs: list[SlotValue] = [as_wanted(result, want, call) for result, want in zip(results, wanted, strict=True)]
        owned = iter(own_values([value for value in outputs if not isinstance(value, DeviceArray)], values))
        return [value if isinstance(value, DeviceArray) else next(owned) for value in outputs]

    @property
    def runs_resident(self) -> bool:
        """Whether `run_resident` may be called."""
        return self.direct is not None and self.direct.growing is None and self.direct.chain.late is None

    def run_resident(self, call: Call, values: Sequence[DeviceArray], sizes: tuple[int, ...]) -> list[DeviceArray]:
        """As `run_in`, where all inputs lie on the device and all outputs are to be new arrays there."""
        assert self.direct is not None, self.program.name
        call.workspace.counts.calls += 1
        return self.direct.run_resident(call, values, sizes)

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["HostValue"]:
        """The outputs on the host."""
        with self.call() as call:
            return [host_value(value) for value in self.run_in(call, values, sizes, given or self.on_host)]

    @property
    def on_host(self) -> tuple[Wanted, ...]:
        """All outputs on the host."""
        return (Residency.HOST,) * len(self.program.outputs)

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


def _device_step(step: Launch, launch: NativeLaunch) -> RunStep[Call]:
    """A launch as a step: outputs are new arrays of the device."""

    def run(slots: Slots, symbols: Symbols, call: Call) -> None:
        workspace, resolved = call.workspace, launch.device_at(tuple(symbols))
        if workspace.sizes is not resolved:
            workspace.prepare(resolved, resolved.symbols, resolved.arena_bytes)
        arrays: list[DeviceArray] = []
        for slot in step.inputs:
            slots[slot] = array = on_device(slots[slot], call)
            arrays.append(array)
        for slot, shape, dtype in zip(step.outputs, resolved.shapes, launch.dtypes, strict=True):
            slots[slot] = made = call.new_array(shape, dtype, "a value inside of the model")
            arrays.append(made)
        for ordinal, array in enumerate(arrays, launch.first_array):
            workspace.words[ordinal] = array.address
        enqueue_launch(launch, workspace, call.stream)
        workspace.counts.launches += 1
        call.in_flight = call.owes_status = True

    return run


def _stack(tensors: Sequence["SlotValue"], call: Call) -> "SlotValue":
    """Tensors along a new first axis: on the device if one of them is there."""
    if not any(isinstance(arrived(tensor), DeviceArray) for tensor in tensors):
        return stack_arrays(tensors)
    arrays = [on_device(tensor, call) for tensor in tensors]
    first = arrays[0]
    made = call.new_array((len(arrays), *first.shape), first.dtype, "what a loop stacks")
    for index, array in enumerate(arrays):
        call.copy(made.address + index * first.nbytes, array.address, first.nbytes)
    return made


def _constant(device: Device, buffer: Buffer, weights: np.ndarray, constant: Constant) -> "np.ndarray | DeviceArray":
    """A constant of a body, among the weights on the device and on the host."""
    view = constant_view(weights, constant)
    array = resident(device, buffer, view, weights)
    return view if array is None else array


def resident(device: Device, buffer: Buffer, view: np.ndarray, weights: np.ndarray) -> DeviceArray | None:
    """A view of the weights as the array that it is on the device; None for texts, which are no view."""
    if view.dtype == STRING:
        return None
    offset = read_address(view) - read_address(weights)
    if offset % ALIGNMENT:
        return None
    return DeviceArray(device, buffer.address + offset, view.shape, view.dtype, buffer, None, view)
