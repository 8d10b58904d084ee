"""An executable: a compiled model that can be called, from any number of threads at once."""

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, overload

import numpy as np

from onnxc.runtime.arrays import describe, is_ready, plain_mapping
from onnxc.runtime.artifact import Artifact, artifact_bytes, write_artifact
from onnxc.runtime.engine import Engine, ProgramEngine
from onnxc.runtime.errors import DeviceError, InputError, UnsupportedError
from onnxc.runtime.fast_call import SHAPES_KEPT, Shapes
from onnxc.runtime.files.saved_file import SavedFile
from onnxc.runtime.native.native_caller import NativeCaller
from onnxc.runtime.program import JsonValue
from onnxc.runtime.report import Report, html_table, measured_report
from onnxc.runtime.signature import Signature, TensorInfo, shapes_of
from onnxc.runtime.stats import Stats
from onnxc.runtime.swap_weights import swap_weights

if TYPE_CHECKING:
    from concurrent.futures import Future

    from onnxc.runtime.profiling.profile import Profile
    from onnxc.runtime.values import SlotValue

__all__ = ["BeginCall", "BegunCall", "Executable", "LoadAgain", "call_out_of_memory", "copy_into", "expect_outputs"]

# The same executable once more, from the file of its artifact, the bytes of it, or itself with other weights.
LoadAgain = Callable[[SavedFile | bytes | Artifact], "Executable"]


class BegunCall:
    """A call that goes on. `has_ended` says whether it does no more.

    took_ns: how long it took, known with its outputs, by the thread that made it.
    """

    def __init__(
        self,
        has_ended: Callable[[], bool],
        end: Callable[[], tuple[Sequence[np.ndarray], int]],
        names: Sequence[str],
    ) -> None:
        self.has_ended, self._end, self._names = has_ended, end, names
        self.took_ns = 0

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs by name, when the call has ended, which is waited for. To be asked for once.

        Raises what the call would have raised.
        """
        outputs, self.took_ns = self._end()
        return dict(zip(self._names, outputs, strict=True))


BeginCall = Callable[[Mapping[str, object]], BegunCall | None]
"""Begins a call with inputs by name, which must stay as they are until it has ended; raises as `Executable.run` does.

None where a call goes on whose outputs were not asked for.
"""


class Executable:
    """A compiled model.

    Arrays of NumPy go in without a copy where they are contiguous; so does whatever has DLPack or the array interface.
    What comes out is new arrays, the caller's own.
    """

    def __init__(
        self,
        signature: Signature,
        engine: Engine,
        *,
        artifact: Artifact | None = None,
        report: JsonValue = "",
        compilations: int = 0,
        again: LoadAgain | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self._signature, self._engine = signature, engine
        self._artifact, self._compilations = artifact, compilations
        self._report = Report(report) if isinstance(report, Mapping) else report
        self._file, self._again = None if artifact is None else artifact.file, again
        self._metadata = dict(metadata or ({} if artifact is None else artifact.metadata))
        self._defaults = engine.defaults()
        self._input_names = tuple(info.name for info in signature.inputs)
        self._output_names = tuple(info.name for info in signature.outputs)
        self._has_one_output = len(signature.outputs) == 1
        self._input_count = len(signature.inputs)
        # What is added to a call by the required inputs alone; it is empty where they are all, or not the first ones.
        self._trailing = _trailing_defaults(signature, self._defaults)
        self._fast_call = _fast_call(signature, engine, self._defaults)
        # The sizes at shapes that were checked before.
        self._sizes: dict[Shapes, tuple[int, ...]] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, side)) for side in (self.inputs, self.outputs))
        return f"<Executable ({inputs}) -> ({outputs})>"

    def _repr_html_(self) -> str:
        """The signature as a table, for notebooks."""
        sides = (("input", self.inputs), ("output", self.outputs))
        rows = [(side, info.name, info.text) for side, infos in sides for info in infos]
        return html_table(("", "name", "type"), rows)

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs in the order of the graph: names, element types, shapes with named sizes."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs in the order of the graph."""
        return self._signature.outputs

    @property
    def frozen_inputs(self) -> tuple[str, ...]:
        """The inputs whose initializers were compiled in as constants: no call may pass them."""
        return self._signature.frozen

    @property
    def metadata(self) -> Mapping[str, str]:
        """The entries of the model's metadata_props, such as names of classes; a copy for the caller."""
        return dict(self._metadata)

    @property
    def stats(self) -> Stats:
        """What has happened so far; calls never add to `compilations`."""
        return replace(self._engine.stats(), compilations=self._compilations)

    def report(self) -> JsonValue:
        """What was compiled: kernels and their launches; behind `profile` also what each launch took."""
        return self._report

    def profile(self, /, *inputs: object, calls: int = 20, warmup: int = 3, **named: object) -> "Profile":
        """Where the time of calls with these inputs goes: for each launch its nodes, algorithm, time and work.

        Inputs come as in a call. Ordinary calls and recorded ones take turns, `calls` of each behind `warmup`. The
        result has `by_node()`, `by_operator()`, `trace()`, `html()`, `to_json()` and `save(path)`; `report()` has its
        times from then on. Ordinary calls stay what they are.

        Raises UnsupportedError for targets other than the CPU, else what a call raises.
        """
        profiler = importlib.import_module("onnxc.runtime.profiling.profiler")
        engine = profiler.recording_engine(self._engine)
        recorded = Executable(self._signature, engine)
        arranged = self._signature.by_position_and_name(inputs, named)
        values = self._signature.import_values(arranged, self._defaults)
        sizes = self._sizes_of(values)
        # So that its first call is like those behind it.
        recorded._sizes_of(values)
        ordinary, watched = (partial(each, *inputs, **named) for each in (self, recorded))
        measured: Profile = profiler.profile_calls(engine, self._report, sizes, ordinary, watched, calls, warmup)
        if isinstance(self._report, Report):
            self._report = measured_report(self._report, measured)
        return measured

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artifact that `onnxc.load` reads; the same bytes for the same model and options.

        Whoever reads the path meanwhile sees the old file or the new one. Raises InputError for what is no path or
        leads to no plain file, DeviceError where writing fails.
        """
        self._file = write_artifact(self._expect_artifact(), path)

    def with_weights(self, values: Mapping[str, object]) -> "Executable":
        """The same code with other values for weights, by name; this executable keeps its own.

        Weights are the inputs that a call may leave out: compile with freeze_params=False. Nothing is compiled; a copy
        of all weights is made, which `save` writes.

        Raises InputError for what is no weight, or another type or shape; UnsupportedError for the interpreter.
        """
        artifact = self._expect_artifact("given other weights; a call may pass them as inputs")
        assert self._again is not None, self
        return self._again(swap_weights(artifact, values))

    def __reduce__(self) -> tuple[LoadAgain, tuple[SavedFile | bytes]]:
        """How `pickle` and `copy` make it again: from its file, if that still is this artifact, else from its bytes."""
        artifact = self._expect_artifact()
        assert self._again is not None, self
        file = self._file
        return self._again, (file if file is not None and file.is_unchanged() else artifact_bytes(artifact),)

    def _expect_artifact(self, wanted: str = "saved, pickled or copied") -> Artifact:
        if self._artifact is None:
            message = f"the interpreter makes no code that could be {wanted}"
            raise UnsupportedError(message, code="no-artifact")
        return self._artifact

    def __call__(self, /, *inputs: object, **named: object) -> "SlotValue | tuple[SlotValue, ...]":
        """The output for inputs in the order of the graph, by name, or those before by name; a tuple where there are
        several outputs, or none.

        Inputs that have a default may be left out. Sequences come as tuples, maps as dicts, an absent optional as None,
        sparse tensors as `onnxc.SparseTensor`.

        Raises InputError, DeviceError. KeyboardInterrupt, SystemExit and what the handlers of signals raise pass
        through: the call is given up, with the memory that it had, and others are not affected.
        """
        try:
            outputs: Sequence[SlotValue] | None = None
            if self._fast_call is not None and not named:
                if len(inputs) == self._input_count:
                    outputs = self._fast_call(*inputs)
                elif len(inputs) + len(self._trailing) == self._input_count:
                    outputs = self._fast_call(*inputs, *self._trailing)
            if outputs is None:
                outputs = self._run(self._signature.by_position_and_name(inputs, named))
        except MemoryError as problem:
            raise call_out_of_memory(problem) from problem
        return outputs[0] if self._has_one_output else tuple(outputs)

    def submit(self, /, *inputs: object, **named: object) -> "Future[SlotValue | tuple[SlotValue, ...]]":
        """A future of what a call with these inputs gives or raises; it runs in a thread of the process.

        The inputs are read when the call runs: leave them as they are until the future is done.
        """
        submit_call = importlib.import_module("onnxc.runtime.submitted_calls").submit_call
        future: Future[SlotValue | tuple[SlotValue, ...]] = submit_call(partial(self, *inputs, **named))
        return future

    async def arun(self, /, *inputs: object, **named: object) -> "SlotValue | tuple[SlotValue, ...]":
        """What a call with these inputs gives, without holding up the event loop."""
        future = importlib.import_module("asyncio").wrap_future(self.submit(*inputs, **named))
        outputs: SlotValue | tuple[SlotValue, ...] = await future
        return outputs

    @overload
    def run(self, inputs: Sequence[str] | None, out: Mapping[str, object], /) -> list["SlotValue"]: ...
    @overload
    def run(
        self,
        inputs: Mapping[str, object],
        out: Mapping[str, object] | None = None,
        seed: int | None = None,
        stream: int | None = None,
    ) -> dict[str, "SlotValue"]: ...
    def run(
        self,
        inputs: Mapping[str, object] | Sequence[str] | None,
        out: Mapping[str, object] | None = None,
        seed: int | None = None,
        stream: int | None = None,
    ) -> dict[str, "SlotValue"] | list["SlotValue"]:
        """The outputs by name for inputs by name; those named in `out` are written into the arrays given there.

        As ONNX Runtime has it, `run(["y"], {"x": x})` is the list of the outputs that are named, `run(None, {"x": x})`
        that of all.

        seed: what the draws of nodes without a seed of their own depend on, each node and each round of a loop by
        itself: from 0 to 2^64 - 1. The same one gives the same numbers; None is what a call by position gives. A model
        that draws nothing gives the same for all.

        stream: for models on a device, the handle of a CUDA stream (0: the default one) on which the call is enqueued.
        It is not waited for, unless an output is to be on the host: outputs are there in the order of the stream, and
        where the data was not legal (an index out of range), `numpy` or `wait` of an output raises. Without a stream
        the call is complete, and its outputs are there for every stream, when this returns.

        Raises as a call by position does.
        """
        if out is None or isinstance(inputs, Mapping):
            return self._run_by_name(inputs, out, seed, stream)
        return self._run_listed(inputs, out)

    def begin_calls(self) -> "BeginCall | None":
        """What begins calls on a native thread of its own, one at a time, while the thread that does goes on.

        None where a call of this model is not native code alone. What it gives is for one thread.
        """
        engine = self._engine
        if not isinstance(engine, ProgramEngine) or not engine.can_begin:
            return None
        return partial(self._begin, engine, NativeCaller())

    def _begin(self, engine: ProgramEngine, caller: NativeCaller, inputs: Mapping[str, object]) -> BegunCall | None:
        if caller.is_taken:
            return None
        try:
            values = self._imported(self._signature.by_name(inputs), self._defaults)
            end = engine.begin(values, self._sizes_of(values), caller)
        except MemoryError as problem:
            raise call_out_of_memory(problem) from problem
        return BegunCall(caller.has_ended, end, self._output_names)

    def run_to_host(self, inputs: Mapping[str, object]) -> dict[str, "SlotValue"]:
        """The outputs by name in the memory of the host, wherever the inputs by name lie.

        Raises as `run` does.
        """
        return self._run_by_name(inputs)

    def _run_listed(self, names: object, feeds: Mapping[str, object]) -> list["SlotValue"]:
        """The outputs that are named, all for None."""
        if names is not None and (isinstance(names, str) or not isinstance(names, Sequence)):
            message = (
                f"run takes a mapping from names to values, or names of outputs and then it, {describe(names)} came"
            )
            raise InputError(message, code="input-mapping")
        wanted = self._output_names if names is None else names
        for name in wanted:
            self._output_info(name, "run")
        outputs = self._run_by_name(feeds)
        return [outputs[name] for name in wanted]

    def _run_by_name(
        self,
        inputs: object,
        out: Mapping[str, object] | None = None,
        seed: int | None = None,
        stream: int | None = None,
    ) -> dict[str, "SlotValue"]:
        if stream is not None:
            raise InputError(
                "a stream was passed, and the model was compiled for the CPU", code="stream-without-device"
            )
        try:
            if out is not None or seed is not None:
                return self._run_into(self._signature.by_name(inputs), expect_outputs({} if out is None else out), seed)
            outputs = self._run_named(inputs)
            # Making a dictionary of pairs takes as long as a small kernel.
            if self._has_one_output:
                return {self._output_names[0]: outputs[0]}
            return dict(zip(self._output_names, outputs, strict=True))
        except MemoryError as problem:
            raise call_out_of_memory(problem) from problem

    def _run_named(self, inputs: object) -> Sequence["SlotValue"]:
        # A mapping of another kind may do anything when it is asked.
        if self._fast_call is not None and type(inputs) is dict:
            outputs = None
            if len(inputs) == self._input_count:
                outputs = self._fast_call(*map(inputs.get, self._input_names))
            elif len(inputs) + len(self._trailing) == self._input_count:
                given = map(inputs.get, self._input_names[: len(inputs)])
                outputs = self._fast_call(*given, *self._trailing)
            if outputs is not None:
                return outputs
        return self._run(self._signature.by_name(inputs))

    def _run(self, inputs: Sequence[object]) -> Sequence["SlotValue"]:
        """The outputs for one value per input, of any kind that can be imported."""
        values = self._imported(inputs, self._defaults)
        shapes = shapes_of(values)
        # What was imported is ready. At shapes that are new the steps look at what comes to them.
        if self._fast_call is not None and shapes in self._sizes:
            outputs = self._fast_call(*values[: self._input_count])
            if outputs is not None:
                return outputs
        return self._engine.run(values, self._sizes_at(shapes, values))

    def _imported(self, inputs: Sequence[object], defaults: Mapping[int, np.ndarray]) -> "tuple[SlotValue, ...]":
        """What the engine is given for one value per input."""
        return self._signature.import_values(inputs, defaults)

    def _sizes_of(self, values: Sequence["SlotValue"]) -> tuple[int, ...]:
        """The values of the symbols; shapes are checked when they are new."""
        return self._sizes_at(shapes_of(values), values)

    def _sizes_at(self, shapes: Shapes, values: Sequence["SlotValue"]) -> tuple[int, ...]:
        """The same for values of these shapes."""
        sizes = self._sizes.get(shapes)
        if sizes is None:
            sizes = self._signature.bind_sizes(values, shapes)
            with self._lock:
                if len(self._sizes) >= SHAPES_KEPT:
                    del self._sizes[next(iter(self._sizes))]
                self._engine.learn(shapes, sizes)
                self._sizes[shapes] = sizes
        return sizes

    def _run_into(
        self, inputs: Sequence[object], out: Mapping[str, object], seed: int | None
    ) -> dict[str, "SlotValue"]:
        defaults = self._signature.with_seed(seed, self._defaults)
        values = self._imported(inputs, defaults)
        arrays = {name: self._expect_output(name, array) for name, array in out.items()}
        given = [arrays[name] for name in self._output_names if name in arrays]
        direct = len(given) == len(self._output_names) and _can_be_written(given, values)
        results = self._engine.run(values, self._sizes_of(values), given if direct else None)
        outputs: dict[str, SlotValue] = dict(zip(self._output_names, results, strict=True))
        for name, array in arrays.items():
            if outputs[name] is not array:
                copy_into(array, outputs[name], name)
                outputs[name] = array
        return outputs

    def call_into(self, inputs: Sequence[object], given: Sequence[np.ndarray | None]) -> Sequence["SlotValue"]:
        """The outputs in order, for one value per input: where an array is given and code can write into it, that one.

        For callers that keep arrays between calls; those given must have the element types of their outputs, and share
        memory with nothing. Raises what a call raises.
        """
        try:
            values = self._imported(inputs, self._defaults)
            sizes, engine = self._sizes_of(values), self._engine
            arrays = engine.completed(given, sizes) if isinstance(engine, ProgramEngine) else None
            return engine.run(values, sizes, arrays)
        except MemoryError as problem:
            raise call_out_of_memory(problem) from problem

    def _output_info(self, name: object, who: str = "out") -> TensorInfo:
        if name not in self._output_names:
            message = f"{who} names {name!r}, the outputs are {', '.join(map(str, self.outputs))}"
            raise InputError(message, code="unknown-output")
        return self.outputs[self._output_names.index(name)]

    def _expect_output(self, name: str, array: object) -> np.ndarray:
        """An array of the host that an output can be written into."""
        info = self._output_info(name)
        if not isinstance(array, np.ndarray) or array.dtype != info.dtype or not array.flags.writeable:
            state = " that cannot be written to" if isinstance(array, np.ndarray) and array.dtype == info.dtype else ""
            raise InputError(f'out "{name}" is {describe(array)}{state}, expected {info.text}', code="output-type")
        return array


def _fast_call(
    signature: Signature, engine: Engine, defaults: Mapping[int, np.ndarray]
) -> Callable[..., Sequence["SlotValue"] | None] | None:
    """The engine's faster way, for the inputs of the signature."""
    call = engine.fast_call()
    if call is None or not signature.draws:
        return call
    words = defaults[len(signature.inputs)]
    return lambda *inputs: call(*inputs, words)


def _trailing_defaults(signature: Signature, defaults: Mapping[int, np.ndarray]) -> tuple[np.ndarray, ...]:
    """The defaults of all inputs behind the required ones; none where others come between, or have no default."""
    required = len(signature.required)
    rest = range(required, len(signature.inputs))
    if signature.required != tuple(range(required)) or any(index not in defaults for index in rest):
        return ()
    return tuple(defaults[index] for index in rest)


def _can_be_written(given: Sequence[np.ndarray], inputs: Sequence["SlotValue"]) -> bool:
    """Whether native code may write into the arrays while it reads the inputs; not beside what is no tensor."""
    tensors = [value for value in inputs if isinstance(value, np.ndarray)]
    apart = all(
        not np.may_share_memory(array, other)
        for index, array in enumerate(given)
        for other in (*given[:index], *tensors)
    )
    return apart and len(tensors) == len(inputs) and all(map(is_ready, given))


def expect_outputs(out: object) -> Mapping[str, object]:
    """What was given for the outputs, by name."""
    expected = "a mapping from names to arrays"
    if not isinstance(out, Mapping):
        raise InputError(f"out is {describe(out)}, expected {expected}", code="output-mapping")
    return plain_mapping(out, "out", expected, "output-mapping")


def call_out_of_memory(problem: MemoryError) -> DeviceError:
    """The error for whatever it was that did not fit in a call."""
    return DeviceError(f"what this call needs does not fit into memory: {problem}", code="out-of-memory")


def copy_into(array: np.ndarray, output: "SlotValue", name: str) -> None:
    """Writes an output into the array that was given for it; InputError unless their shapes are equal."""
    if not isinstance(output, np.ndarray) or array.shape != output.shape:
        message = f'out "{name}" is {describe(array)}, the output is {describe(output)}'
        raise InputError(message, code="output-shape")
    array[...] = output
