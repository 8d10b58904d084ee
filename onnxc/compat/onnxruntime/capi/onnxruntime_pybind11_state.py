"""Exceptions and classes under the name of ONNX Runtime's extension module."""

from onnxc.compat.onnxruntime.arenas import OrtAllocatorType, OrtArenaCfg, OrtMemoryInfo
from onnxc.compat.onnxruntime.io_binding import IOBinding as SessionIOBinding
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
    "EPFail", "EngineError", "ExecutionMode", "Fail", "GraphOptimizationLevel", "InferenceSession",
    "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoadCanceled", "ModelLoaded", "ModelMetadata",
    "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NodeArg", "NotFound", "NotImplemented",
    "OrtAllocatorType", "OrtArenaCfg", "OrtDevice", "OrtMemoryInfo", "OrtSparseFormat", "OrtValue",
    "OrtValueVector", "RunOptions", "RuntimeException", "SessionIOBinding", "SessionOptions",
    "SparseBlockSparseView", "SparseCooView", "SparseCsrView", "SparseTensor", "get_all_providers",
    "get_available_providers",
]  # fmt: skip
