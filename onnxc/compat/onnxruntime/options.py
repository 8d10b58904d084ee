"""What a session and a run may be asked for, by ONNX Runtime's names.

Each option has ONNX Runtime's default and takes values of its type. Most say how ONNX Runtime works inside and change
nothing here; a name that is not among them is accepted with a warning.
"""

import operator
import warnings
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import ClassVar, SupportsIndex

import numpy as np

from onnxc.compat.onnxruntime.absent import absent_attribute
from onnxc.compat.onnxruntime.adapters import LoraAdapter
from onnxc.compat.onnxruntime.ort_values import OrtValue
from onnxc.compat.onnxruntime.providers import expect_known
from onnxc.compat.onnxruntime.status import NotImplemented as NotSupported

__all__ = ["ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "RunOptions", "SessionOptions"]


class GraphOptimizationLevel(IntEnum):
    """Accepted; onnxc always compiles all of a model."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Accepted; kernels of a call run one after the other, each with all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Accepted; the compiler decides on the order."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Options:
    """Attributes with defaults, and entries of configuration by free names."""

    _defaults: ClassVar[Mapping[str, object]] = {}
    _kind = ""

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_entries", {})

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._defaults:
            if not name.startswith("_"):
                message = f"{self._kind} has no option {name!r}, which is accepted and changes nothing"
                warnings.warn(message, UserWarning, stacklevel=2)
            object.__setattr__(self, name, value)
            return
        object.__setattr__(self, name, _of_type(name, value, type(self._defaults[name])))

    def __getattr__(self, name: str) -> object:
        """What is not here says why."""
        raise absent_attribute(self, name)

    def _add_entry(self, key: str, value: str) -> None:
        self._entries[str(key)] = str(value)

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{self._kind} does not have configuration with key: {key}")
        return self._entries[key]

    _entries: dict[str, str]


def _of_type(name: str, value: object, kind: type) -> object:
    """The value as the option has it; TypeError for one of another kind."""
    if isinstance(value, str) and issubclass(kind, str):
        return value
    if isinstance(value, SupportsIndex) and issubclass(kind, int):
        return kind(operator.index(value))
    raise TypeError(f"{name} is {value!r}, expected a value of type {kind.__name__}")


def _bytes_of(buffer: bytes | bytearray | memoryview | np.ndarray) -> memoryview:
    return memoryview(buffer.tobytes() if isinstance(buffer, np.ndarray) else buffer).cast("B")


class SessionOptions(_Options):
    """intra_op_num_threads: of a call, 0 for all that the process may use. optimized_model_filepath: where the model is
    written, as it was read. enable_profiling: `end_profiling` writes a trace of one call.
    """

    _kind = "SessionOptions"
    _defaults: ClassVar[Mapping[str, object]] = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }
    enable_profiling: bool
    log_severity_level: int
    logid: str
    intra_op_num_threads: int
    optimized_model_filepath: str
    profile_file_prefix: str

    def __init__(self) -> None:
        super().__init__()
        self._sizes_by_name: dict[str, int] = {}
        self._sizes_by_denotation: dict[str, int] = {}
        self._initializers: dict[str, OrtValue] = {}
        self._files: dict[str, memoryview] = {}
        self._providers: list[tuple[str, Mapping[object, object]]] = []
        self._is_canceled = False

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keeps the entry; only those of the external data of `optimized_model_filepath` mean something here."""
        self._add_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """The entry. Raises RuntimeError where there is none."""
        return self._entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes the symbolic size `name`."""
        self._sizes_by_name[name] = operator.index(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fixes the axes of inputs that have this denotation."""
        self._sizes_by_denotation[denotation] = operator.index(size)

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Another value for an initializer of the model."""
        self._initializers[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Values for initializers whose data is not there."""
        self._initializers.update(zip(names, values, strict=True))

    def add_external_initializers_from_files_in_memory(
        self,
        names: Sequence[str],
        buffers: Sequence[bytes | bytearray | memoryview | np.ndarray],
        lengths: Sequence[int],
    ) -> None:
        """Files of external data by the names that the model calls them by, in place of those beside it."""
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            self._files[name] = _bytes_of(buffer)[: operator.index(length)]

    def add_provider(self, name: str, options: Mapping[object, object]) -> None:
        """A provider of sessions that are made without `providers`. Raises RuntimeError for an unknown name."""
        expect_known(name)
        self._providers.append((name, options))

    def has_providers(self) -> bool:
        """Whether `add_provider` was called."""
        return bool(self._providers)

    def set_provider_selection_policy(self, _policy: object) -> None:
        """Changes nothing: there is one provider."""

    def set_provider_selection_policy_delegate(self, _delegate: object) -> None:
        """Changes nothing: there is one provider, and nobody is asked."""

    def set_load_cancellation_flag(self, is_canceled: bool) -> None:
        """Sessions that are made with it set fail with ModelLoadCanceled."""
        self._is_canceled = bool(is_canceled)

    def register_custom_ops_library(self, library: str) -> None:
        """Not supported: kernels of ONNX Runtime cannot be called."""
        raise NotSupported(f"{library} has kernels for ONNX Runtime; bring operators by onnxc.register")


class RunOptions(_Options):
    """terminate: a run that starts with it set fails, as one that others have ended."""

    _kind = "RunOptions"
    _defaults: ClassVar[Mapping[str, object]] = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }
    terminate: bool

    def __init__(self) -> None:
        super().__init__()
        self._adapters: list[LoraAdapter] = []

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keeps the entry, which changes nothing."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """The entry. Raises RuntimeError where there is none."""
        return self._entry(key)

    def add_active_adapter(self, adapter: LoraAdapter) -> None:
        """A run passes the parameters of the adapter as inputs, but for those that it is given."""
        self._adapters.append(adapter)
