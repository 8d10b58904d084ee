"""A program ready to be called: what an executable of native code and host steps runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from onnxc.runtime.cpu import Image
from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.errors import DeviceError, OnnxcError
from onnxc.runtime.fast_call import Shapes, write_fast_call
from onnxc.runtime.native.addresses import read_address
from onnxc.runtime.native.launch import NativeLaunch
from onnxc.runtime.native.native_caller import NativeCaller
from onnxc.runtime.native.workspaces import Workspace, WorkspacePool
from onnxc.runtime.program import Body, Constant, Fault, Guard, If, Launch, Program, Release, Step, While
from onnxc.runtime.signature import default_shape
from onnxc.runtime.stats import Stats
from onnxc.runtime.steps import (
    ExecutionContext,
    ObserveHost,
    PreparedBody,
    guard_check,
    native_step,
    prepare_body,
    run_body,
    symbols_in,
    weights_view,
)
from onnxc.runtime.thread_pool import PoolHandle
from onnxc.runtime.values import as_array, own_values, stack_arrays

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = [
    "Engine", "ProgramEngine", "constant_view", "default_arrays", "is_direct", "launch_orders", "launches_of",
    "native_launches", "without_input_guards",
]  # fmt: skip

FastFunction = Callable[..., "Sequence[SlotValue] | None"]


class Engine(Protocol):
    """What runs the calls of an executable."""

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["SlotValue"]:
        """The outputs, for inputs that native code can read and the values of the symbols that they bind.

        Outputs share memory with nothing; or they are those `given`, if the engine can write into them.
        """

    def fast_call(self) -> FastFunction | None:
        """A faster way for inputs of shapes that were learned, or None; it gives None where it cannot."""

    def learn(self, shapes: Shapes, sizes: tuple[int, ...]) -> None:
        """To be called before the first run at these shapes, which bind these values; InputError if they cannot be."""

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""

    def stats(self) -> Stats:
        """What has run so far."""


class ProgramEngine:
    """Runs a program. `image` and `pool` may only be None where the program has no launch.

    A class of those that are watched says in `observed` what becomes of the functions of steps on the host.
    """

    observed: ObserveHost | None = None

    def __init__(
        self,
        program: Program,
        image: Image | None,
        pool: PoolHandle | None,
        weights: np.ndarray,
        locations: Sequence[str] = (),
    ) -> None:
        self.program, self.image, self.weights, self.locations = program, image, weights, locations
        # The frame holds the address of the pool's handle: it must live as long.
        self.pool = pool
        body, guards = without_input_guards(program.body)
        self.guards = [guard_check(guard) for guard in guards]
        launches = native_launches(body, image, len(program.symbols), locations, program.faults)
        frame_words = max((launch.frame_words for launch in launches.values()), default=0)
        buffers = max((launch.step.buffers for launch in launches.values()), default=0)
        addresses = pool.address if pool is not None else 0, read_address(weights)
        self.workspaces = WorkspacePool(lambda: Workspace(frame_words, *addresses, buffers))
        self.body = self._prepared_body(body, launches)
        self.direct = next(iter(launches.values())) if is_direct(body) else None
        constants = {constant.slot: constant_view(weights, constant) for constant in body.constants}
        self.fast = write_fast_call(body, program.inputs, launches, constants, self.workspaces, self.observed)

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["HostValue"]:
        """The outputs."""
        workspace = self.workspaces.take()
        workspace.counts.calls += 1
        try:
            results = self._results(values, sizes, given, workspace)
        except OnnxcError:
            self.workspaces.free.append(workspace)
            raise
        self.workspaces.free.append(workspace)
        return results

    @property
    def can_begin(self) -> bool:
        """Whether a call is one launch, which makes no memory as it goes."""
        return self.direct is not None and not self.direct.step.late and not self.direct.step.buffers

    def begin(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], caller: NativeCaller
    ) -> Callable[[], tuple[Sequence[np.ndarray], int]]:
        """Begins what `run` does on the thread of the caller, if it can.

        Gives what waits for the outputs, and says how many ns the call took.
        """
        launch = self.direct
        assert launch is not None
        assert self.can_begin
        resolved = launch.at(sizes)
        order, results = launch_orders(self.program.body, launch)
        outputs = launch.new_outputs(resolved)
        workspace = self.workspaces.take()
        workspace.counts.calls += 1
        launch.begin(resolved, [*(as_array(values[k]) for k in order), *outputs], workspace, caller)

        def end() -> tuple[Sequence[np.ndarray], int]:
            try:
                took_ns = launch.end(workspace, caller)
            finally:
                self.workspaces.free.append(workspace)
            return [outputs[k] for k in results], took_ns

        return end

    def completed(self, given: Sequence[np.ndarray | None], sizes: tuple[int, ...]) -> list[np.ndarray] | None:
        """An array for each output to be given to `run`: new ones where None is given.

        None where the program makes the memory of its outputs itself.
        """
        if self.direct is None or self.direct.step.late:
            return None
        _, results = launch_orders(self.program.body, self.direct)
        resolved, dtypes = self.direct.at(sizes), self.direct.dtypes
        wanted = zip(given, results, strict=True)
        return [resolved.makers[k](resolved.shapes[k], dtypes[k]) if array is None else array for array, k in wanted]

    def fast_call(self) -> FastFunction | None:
        """The call in straight-line code, where the program has neither loops nor branches."""
        return self.fast.call if self.fast is not None else None

    def learn(self, shapes: Shapes, sizes: tuple[int, ...]) -> None:
        """Checks what sizes alone decide, and makes the fast call work at these shapes."""
        for check in self.guards:
            check(sizes)
        if self.fast is not None:
            self.fast.learn(shapes, sizes)

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""
        return default_arrays(self.program, self.weights)

    def stats(self) -> Stats:
        """What has run so far."""
        counts = self.workspaces.counts()
        return Stats(calls=counts.calls, launches=counts.launches, arena_bytes=self.workspaces.arena_bytes)

    def _results(
        self,
        values: Sequence["SlotValue"],
        sizes: tuple[int, ...],
        given: Sequence[np.ndarray] | None,
        workspace: Workspace,
    ) -> Sequence["HostValue"]:
        if self.direct is not None and given is not None and not self.direct.step.late:
            resolved = self.direct.at(sizes)
            order, results = launch_orders(self.program.body, self.direct)
            outputs = [given[results.index(k)] for k in range(len(results))]
            if tuple(output.shape for output in outputs) == resolved.shapes:
                self.direct.run(resolved, [*(as_array(values[k]) for k in order), *outputs], workspace)
                return given
        return own_values(run_body(self.body, values, list(sizes), workspace), values)

    def _prepared_body(self, body: Body, launches: Mapping[Launch, NativeLaunch]) -> PreparedBody[Workspace]:
        weights = self.weights
        context = ExecutionContext(
            self.program.symbols,
            lambda constant: constant_view(weights, constant),
            lambda step: native_step(step, launches[step]),
            lambda tensors, _: stack_arrays(tensors),
            self.observed,
        )
        return prepare_body(body, context, frozenset())


def without_input_guards(body: Body) -> tuple[Body, tuple[Guard, ...]]:
    """The body without the guards that the shapes of the inputs decide, and these: once for each shape is enough."""
    known = frozenset(binding.symbol for binding in body.bindings)
    steps: list[Step] = []
    guards: list[Guard] = []
    for step in body.steps:
        if isinstance(step, Guard) and symbols_in(step.left) | symbols_in(step.right) <= known:
            guards.append(step)
        else:
            steps.append(step)
    return replace(body, steps=tuple(steps)), tuple(guards)


def launches_of(body: Body) -> list[Launch]:
    """All launches of a body and of the bodies inside it."""
    launches: list[Launch] = []
    for step in body.steps:
        match step:
            case Launch():
                launches.append(step)
            case If():
                launches += launches_of(step.then) + launches_of(step.otherwise)
            case While():
                launches += launches_of(step.body)
    return launches


def native_launches(
    body: Body, image: Image | None, symbol_count: int, locations: Sequence[str], faults: Sequence[Fault] = ()
) -> dict[Launch, NativeLaunch]:
    """The launches of a body in order, by their step; equal steps share one."""
    launches: dict[Launch, NativeLaunch] = {}
    for step in launches_of(body):
        if image is None:
            raise DeviceError("the program has native code, and there is no image", code="image-missing")
        # What an image lacks is told when it is loaded.
        image.address(step.entry)
        launches[step] = NativeLaunch(step, image, symbol_count, locations, faults)
    return launches


def launch_orders(body: Body, launch: NativeLaunch) -> tuple[list[int], list[int]]:
    """Of a direct body: the input of the program that each input of the launch is, the output that each result is."""
    order = [body.parameters.index(slot) for slot in launch.step.inputs]
    return order, [launch.step.outputs.index(slot) for slot in body.results]


def constant_view(weights: np.ndarray, constant: Constant) -> np.ndarray:
    """A constant of a body, as a view of the weights."""
    return weights_view(weights, constant.offset, DTYPES[constant.spec.dtype], tuple(map(int, constant.spec.shape)))


def default_arrays(program: Program, weights: np.ndarray) -> dict[int, np.ndarray]:
    """The values of the inputs that a call may leave out, by number, as views of the weights."""
    arrays: dict[int, np.ndarray] = {}
    for index, parameter in enumerate(program.inputs):
        shape = default_shape(parameter)
        if parameter.default is not None and shape is not None:
            arrays[index] = weights_view(weights, parameter.default, DTYPES[parameter.dtype], shape)
    return arrays


def is_direct(body: Body) -> bool:
    """Whether the body is one launch whose inputs are parameters and whose outputs are the results, each once."""
    steps = [step for step in body.steps if not isinstance(step, Release)]
    if len(steps) != 1 or not isinstance(steps[0], Launch):
        return False
    launch = steps[0]
    return set(launch.inputs) <= set(body.parameters) and sorted(launch.outputs) == sorted(body.results)
