"""Sessions, values and bindings under the name of ONNX Runtime's module of classes in Python."""

from onnxc.compat.onnxruntime.io_binding import IOBinding
from onnxc.compat.onnxruntime.ort_values import OrtDevice, OrtDeviceVendorId, OrtValue
from onnxc.compat.onnxruntime.providers import check_and_normalize_provider_args
from onnxc.compat.onnxruntime.session import InferenceSession
from onnxc.compat.onnxruntime.sparse_tensors import SparseTensor

__all__ = [
    "IOBinding", "InferenceSession", "OrtDevice", "OrtDeviceVendorId", "OrtValue", "SparseTensor",
    "check_and_normalize_provider_args",
]  # fmt: skip
