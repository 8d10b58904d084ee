"""Exceptions, classes and functions under the name of ONNX Runtime's extension module."""

from importlib import import_module

from onnxc.compat.onnxruntime.absent import absent_name
from onnxc.compat.onnxruntime.arenas import ArenaExtendStrategy, OrtAllocatorType, OrtArenaCfg, OrtMemoryInfo
from onnxc.compat.onnxruntime.inner_session import SessionIOBinding
from onnxc.compat.onnxruntime.node_args import ModelMetadata, NodeArg
from onnxc.compat.onnxruntime.options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions
from onnxc.compat.onnxruntime.ort_values import OrtDevice, OrtValue, OrtValueVector
from onnxc.compat.onnxruntime.providers import get_all_providers, get_available_providers
from onnxc.compat.onnxruntime.session import InferenceSession
from onnxc.compat.onnxruntime.sparse_tensors import (
    OrtSparseFormat,
    SparseBlockSparseView,
    SparseCooView,
    SparseCsrView,
    SparseTensor,
)
from onnxc.compat.onnxruntime.status import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)

__all__ = [
    "ArenaExtendStrategy", "EPFail", "EngineError", "ExecutionMode", "Fail", "GraphOptimizationLevel",
    "InferenceSession", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoadCanceled", "ModelLoaded",
    "ModelMetadata", "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NodeArg", "NotFound", "NotImplemented",
    "OrtAllocatorType", "OrtArenaCfg", "OrtDevice", "OrtMemoryInfo", "OrtSparseFormat", "OrtValue", "OrtValueVector",
    "RunOptions", "RuntimeException", "SessionIOBinding", "SessionOptions", "SparseBlockSparseView", "SparseCooView",
    "SparseCsrView", "SparseTensor", "get_all_providers", "get_available_providers", "get_default_session_options",
    "kNextPowerOfTwo", "kSameAsRequested",
]  # fmt: skip

kNextPowerOfTwo = ArenaExtendStrategy.kNextPowerOfTwo
kSameAsRequested = ArenaExtendStrategy.kSameAsRequested


def get_default_session_options() -> SessionOptions:
    """Options as a session has them that is made without any."""
    return SessionOptions()


def __getattr__(name: str) -> object:
    """What the package has too; for other names, why they are not here."""
    package = import_module("onnxc.compat.onnxruntime")
    if name in package.__all__:
        return getattr(package, name)
    raise absent_name(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("onnxc.compat.onnxruntime").__all__})
