"""ONNX Runtime's Python interface on top of onnxc: `import onnxc.compat.onnxruntime as ort`.

What it has, and where it differs: docs/compat_onnxruntime.md.
"""

import operator
from importlib import import_module

from onnxc import __version__ as __version__
from onnxc.compat.onnxruntime.absent import absent_name
from onnxc.compat.onnxruntime.adapters import AdapterFormat, LoraAdapter
from onnxc.compat.onnxruntime.arenas import (
    OrtAllocatorType,
    OrtArenaCfg,
    OrtDeviceMemoryType,
    OrtMemoryInfo,
    OrtMemoryInfoDeviceType,
    create_and_register_allocator,
    create_and_register_allocator_v2,
)
from onnxc.compat.onnxruntime.assigned_nodes import OrtEpAssignedNode, OrtEpAssignedSubgraph
from onnxc.compat.onnxruntime.inner_session import SessionIOBinding
from onnxc.compat.onnxruntime.io_binding import IOBinding
from onnxc.compat.onnxruntime.log import set_default_logger_callback, set_default_logger_severity
from onnxc.compat.onnxruntime.node_args import ModelMetadata, NodeArg
from onnxc.compat.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from onnxc.compat.onnxruntime.ort_values import OrtDevice, OrtDeviceVendorId, OrtMemType, OrtValue
from onnxc.compat.onnxruntime.providers import get_all_providers, get_available_providers
from onnxc.compat.onnxruntime.seeds import choose_seed
from onnxc.compat.onnxruntime.session import InferenceSession
from onnxc.compat.onnxruntime.sparse_tensors import OrtSparseFormat, SparseTensor

__all__ = [
    "AdapterFormat", "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
    "LoraAdapter", "ModelMetadata", "NodeArg", "OrtAllocatorType", "OrtArenaCfg", "OrtDevice", "OrtDeviceMemoryType",
    "OrtDeviceVendorId", "OrtEpAssignedNode", "OrtEpAssignedSubgraph", "OrtMemType", "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtValue", "RunOptions", "SessionIOBinding", "SessionOptions",
    "SparseTensor", "create_and_register_allocator", "create_and_register_allocator_v2", "disable_telemetry_events",
    "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_build_info", "get_device",
    "get_ep_devices", "get_version_string", "has_collective_ops", "preload_dlls", "print_debug_info",
    "set_default_logger_callback", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_global_thread_pool_sizes", "set_seed",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """What is not here says why."""
    raise absent_name(__name__, name)


def get_device() -> str:
    """The kind of device that sessions run on."""
    return "CPU"


def get_version_string() -> str:
    """The version of onnxc."""
    return __version__


def get_build_info() -> str:
    """What this is, where ONNX Runtime says how it was built."""
    return f"ORT Build Info: onnxc {__version__}"


def set_default_logger_verbosity(verbosity: int) -> None:
    """Changes nothing: what there is to say is raised or warned of."""


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Changes nothing: no libraries of CUDA are linked, so none need be loaded before a session is made."""


def set_seed(seed: int) -> None:
    """Sessions that are made from now on draw by this seed, other numbers in each run.

    Without it, what has no seed in the model draws the same in every run.
    """
    choose_seed(operator.index(seed))


def enable_telemetry_events() -> None:
    """Changes nothing: there are none."""


def disable_telemetry_events() -> None:
    """Changes nothing: there are none."""


def set_global_thread_pool_sizes(_intra_op: int, _inter_op: int) -> None:
    """Changes nothing: all executables share one pool already, and each says how many threads its calls may use."""


def has_collective_ops() -> bool:
    """Whether models with ONNX Runtime's collective operators run: no."""
    return False


def get_ep_devices() -> list[object]:
    """Devices of providers that can be chosen by their properties: none, `providers` names them."""
    return []


def print_debug_info() -> None:
    """Prints what a report of a problem should have: versions and the processor, as `onnxc doctor` does."""
    doctor = import_module("onnxc.command_line.doctor")
    doctor.print_findings(tuple(doctor.examine()))
