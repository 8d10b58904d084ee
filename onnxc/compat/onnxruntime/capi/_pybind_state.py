"""The same names as in `onnxruntime_pybind11_state`, which programs import from here too."""

from onnxc.compat.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
from onnxc.compat.onnxruntime.capi.onnxruntime_pybind11_state import __all__  # noqa: F401
