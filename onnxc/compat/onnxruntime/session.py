"""InferenceSession: a model that is checked when the session is made, and compiled at its first run."""

import json
import operator
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock

import numpy.typing as npt

import onnxc
from onnxc.compat.onnxruntime.absent import absent_attribute
from onnxc.compat.onnxruntime.arenas import OrtMemoryInfo
from onnxc.compat.onnxruntime.assigned_nodes import OrtEpAssignedSubgraph, assigned_nodes
from onnxc.compat.onnxruntime.feeds import expect_outputs, expect_required, imported_feed
from onnxc.compat.onnxruntime.inner_session import InnerSession
from onnxc.compat.onnxruntime.io_binding import IOBinding
from onnxc.compat.onnxruntime.log import INFO, log
from onnxc.compat.onnxruntime.node_args import ModelMetadata, NodeArg, metadata_of
from onnxc.compat.onnxruntime.options import RunOptions, SessionOptions
from onnxc.compat.onnxruntime.ort_values import OrtDevice, OrtDeviceVendorId, OrtValue, OrtValueVector, ort_outputs
from onnxc.compat.onnxruntime.providers import chosen_providers
from onnxc.compat.onnxruntime.seeds import RunSeeds
from onnxc.compat.onnxruntime.source import configured, open_model
from onnxc.compat.onnxruntime.status import Fail, InvalidArgument, ModelLoadCanceled, as_input_errors, as_model_errors
from onnxc.runtime.executable import Executable
from onnxc.runtime.submitted_calls import submit_call

__all__ = ["InferenceSession"]

EXTERNAL_FILE = "session.optimized_model_external_initializers_file_name"

_IGNORED = ("disabled_optimizers", "enable_fallback", "read_config_from_model")
"""Further arguments that ONNX Runtime documents; they say how it works inside."""

Callback = Callable[[list[object], object, str], None]


class InferenceSession:
    """A model as ONNX Runtime opens it, compiled by onnxc.

    What is wrong with the model is raised here, as the classes of `status`; code is compiled at the first run, for all
    sizes of its symbols at once.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[object] | None = None,
        provider_options: Sequence[Mapping[object, object]] | None = None,
        **further: object,
    ) -> None:
        for name in further:
            if name not in _IGNORED:
                warnings.warn(f"InferenceSession has no option {name!r}, which is ignored", UserWarning, stacklevel=2)
        if not isinstance(path_or_bytes, str | os.PathLike | bytes):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        # Optimum reads it.
        self._model_path = None if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        self._options = sess_options or SessionOptions()
        if providers is None and self._options.has_providers():
            providers = self._options._providers
        self._providers = chosen_providers(providers, provider_options, is_strict=False)
        if self._options._is_canceled:
            raise ModelLoadCanceled("Graph loading canceled due to user request.")
        with as_model_errors():
            self._model = open_model(path_or_bytes, self._options)
            self._options = configured(self._options, self._model.outline)
            self._write_optimized()
        self._log("a session of the model %r", self._model.outline.graph.name)
        self._args = {arg.name: arg for arg in (*self._model.inputs, *self._model.overridable)}
        self._overridable = {arg.name for arg in self._model.overridable}
        self._compiled: dict[bool, Executable] = {}
        self._lock = Lock()
        self._seeds = RunSeeds()
        self._started_ns = time.time_ns()
        self._last_feed: dict[str, object] | None = None

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, object],
        run_options: RunOptions | None = None,
    ) -> list[object]:
        """The outputs that are named, all for None; sequences are lists.

        Raises ValueError for missing inputs, InvalidArgument for what does not fit, RuntimeException, Fail.
        """
        expect_required(self._model.inputs, input_feed)
        return self._run(output_names, input_feed, run_options)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, object],
        callback: Callback,
        user_data: object,
        run_options: RunOptions | None = None,
    ) -> None:
        """Calls `callback(outputs, user_data, error)` from another thread; `error` is empty where all is well."""
        expect_required(self._model.inputs, input_feed)

        def call() -> None:
            outputs, error = list[object](), ""
            try:
                outputs = self._run(output_names, input_feed, run_options)
            except Exception as problem:  # whatever it is, the callback is told
                error = getattr(problem, "message", "") or str(problem)
            callback(outputs, user_data, error)

        submit_call(call)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """As `run`, from values to values."""
        return ort_outputs(self.run(output_names, input_dict_ort_values, run_options))

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[OrtDevice],
    ) -> None:
        """As `run_with_ort_values`, from values in a row into `fetches`, whatever it held. All are on the CPU."""
        given = dict(zip(feed_names, feeds, strict=True))
        fetches[:] = self.run_with_ort_values(fetch_names, given, run_options)

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: npt.DTypeLike | int,
        device_type: str,
        device_id: int = 0,
        vendor_id: int | OrtDeviceVendorId = -1,
    ) -> OrtValue:
        """A tensor to bind, whose elements are whatever was in memory."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id)

    def io_binding(self) -> IOBinding:
        """What binds inputs and outputs of this session to memory."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs on what is bound; the outputs are written where the binding says.

        Raises RuntimeError, as ONNX Runtime does for everything that is wrong with a binding.
        """
        try:
            names = iobinding.output_names()
            expect_required(self._model.inputs, iobinding.inputs)
            iobinding.take(dict(zip(names, self._run(names, iobinding.inputs, run_options), strict=True)))
        except (ValueError, InvalidArgument) as problem:
            raise RuntimeError(f"Error in execution: {problem}") from problem

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run must pass."""
        return [*self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in the order of the graph."""
        return [*self._model.outputs]

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each input is expected: in the memory of the CPU."""
        return [OrtMemoryInfo.of_cpu() for _ in self._model.inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each output will be: in the memory of the CPU."""
        return [OrtMemoryInfo.of_cpu() for _ in self._model.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have an initializer; a run may pass others, for which the model is compiled once more."""
        return [*self._model.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        return metadata_of(self._model.outline)

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """The providers in use."""
        return [*self._providers]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider, as they were given."""
        return self._providers

    def set_providers(
        self,
        providers: Sequence[object] | None = None,
        provider_options: Sequence[Mapping[object, object]] | None = None,
    ) -> None:
        """Changes nothing but what `get_provider_options` says: the CPU is the one provider there is."""
        self._providers = chosen_providers(providers, provider_options, is_strict=True)

    def disable_fallback(self) -> None:
        """Changes nothing: there is one provider."""

    def enable_fallback(self) -> None:
        """Changes nothing: there is one provider."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Changes nothing: the CPU has none."""

    def get_tuning_results(self) -> list[object]:
        """None: what is decided by measurement is decided when onnxc is built."""
        return []

    def set_tuning_results(self, results: Sequence[object], *, error_on_invalid: bool = False) -> None:
        """Changes nothing, as `get_tuning_results` has nothing."""

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Changes nothing: there are no graphs of a GPU."""

    def get_input_epdevices(self) -> list[None]:
        """For each input that nobody has chosen a device for it, as there is one."""
        return [None for _ in self._model.inputs]

    def get_provider_graph_assignment_info(self) -> Sequence[OrtEpAssignedSubgraph]:
        """The nodes of the model, each as a part of its own. Raises Fail unless the options ask for it."""
        return assigned_nodes(self._model.outline, self._options._entries)

    @property
    def _sess(self) -> InnerSession:
        """The session of the extension module, which programs reach for."""
        return InnerSession(self)

    def __getattr__(self, name: str) -> object:
        """What is not here says why."""
        raise absent_attribute(self, name)

    def get_profiling_start_time_ns(self) -> int:
        """When the session was made, by the clock of the day."""
        return self._started_ns

    def end_profiling(self) -> str:
        """The file with a Chrome trace of one call on the inputs of the last run; empty unless profiling is enabled."""
        if not self._options.enable_profiling:
            return ""
        path = Path(f"{self._options.profile_file_prefix}_{self._started_ns}.json")
        lines = ",\n".join(map(json.dumps, self._traced()))
        path.write_text(f"[\n{lines}\n]\n")
        return str(path)

    def _run(
        self, names: Sequence[str] | None, feed: Mapping[str, object], run_options: RunOptions | None
    ) -> list[object]:
        if run_options is not None and run_options.terminate:
            raise Fail("Exiting due to terminate flag being set to true.")
        adapters = run_options._adapters if run_options is not None else ()
        for adapter in reversed(adapters):
            feed = {**adapter.parameters, **feed}
        wanted = expect_outputs(names, self._model.outputs)
        values = imported_feed(feed, self._args)
        executable = self._executable(is_open=any(name in self._overridable for name in values))
        if self._options.enable_profiling:
            self._last_feed = values
        with as_input_errors():
            outputs = executable.run(values, seed=self._seeds.next())
            return [_listed(outputs[name]) for name in wanted]

    def _executable(self, *, is_open: bool) -> Executable:
        """The compiled model, with initializers as constants or, where a run passes others, as inputs."""
        with self._lock:
            if is_open not in self._compiled:
                self._log("the model %r is compiled", self._model.outline.graph.name)
                threads = operator.index(self._options.intra_op_num_threads) or None
                with as_model_errors():
                    self._compiled[is_open] = onnxc.compile(
                        self._model.source, dims=self._model.sizes, threads=threads, freeze_params=not is_open
                    )
            return self._compiled[is_open]

    def _traced(self) -> list[object]:
        if self._last_feed is None:
            return []
        executable = self._executable(is_open=any(name in self._overridable for name in self._last_feed))
        trace = executable.profile(calls=1, warmup=0, **self._last_feed).trace()
        events = trace["traceEvents"] if isinstance(trace, Mapping) else trace
        assert isinstance(events, list), type(events)
        return [event for event in events if isinstance(event, Mapping) and event.get("ph") == "X"]

    def _log(self, message: str, *arguments: object) -> None:
        log(INFO, self._options.log_severity_level, self._options.logid, "session.py", message % arguments)

    def _write_optimized(self) -> None:
        path = self._options.optimized_model_filepath
        if path:
            entries = self._options._entries
            onnxc.save_model(self._model.source, path, external_data=entries.get(EXTERNAL_FILE))


def _listed(value: object) -> object:
    """Sequences as lists, which ONNX Runtime gives."""
    return [_listed(each) for each in value] if isinstance(value, tuple) else value
