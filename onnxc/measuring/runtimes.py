"""The runtimes that are measured: how each opens a model for a number of threads, and is called by name.

Others than ours are imported when they are asked for; none is needed.
"""

import importlib
import importlib.util
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import onnxc
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.records import record

__all__ = ["OTHERS", "RUNTIMES", "Feed", "NamedCall", "Runtime", "expect_installed"]

Feed = Mapping[str, object]
NamedCall = Callable[[Feed], Mapping[str, object]]


@record
class Runtime:
    """A runtime by its name; `open` gives what calls a model, from any number of threads at once."""

    name: str
    open: Callable[[Path, int], NamedCall]

    @property
    def version(self) -> str:
        """The version; empty where the package is called otherwise, as builds for other devices are."""
        try:
            return onnxc.__version__ if self.name == "onnxc" else version(self.name)
        except PackageNotFoundError:
            return ""


def expect_installed(runtime: Runtime) -> None:
    """DeviceError where the runtime is not here."""
    if importlib.util.find_spec(runtime.name) is None:
        message = f"{runtime.name} is not installed: pip install {runtime.name}"
        raise DeviceError(message, code="library-missing")


def _open_onnxc(artifact: Path, threads: int) -> NamedCall:
    """From a compiled model."""
    return onnxc.load(artifact, threads=threads).run


def _open_onnxruntime(model: Path, threads: int) -> NamedCall:
    library = importlib.import_module("onnxruntime")
    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Errors alone: warnings about a model are not about its speed.
    options.log_severity_level = 3
    session = library.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def call(feed: Feed) -> Mapping[str, object]:
        return dict(zip(names, session.run(None, feed), strict=True))

    return call


def _open_openvino(model: Path, threads: int) -> NamedCall:
    library = importlib.import_module("openvino")
    # Left alone it computes f32 in bf16 where the processor has tiles for it.
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = library.Core().compile_model(str(model), "CPU", settings)
    names = [output.get_any_name() for output in compiled.outputs]
    # A request holds the arrays of one call: each thread has one.
    local = threading.local()

    def call(feed: Feed) -> Mapping[str, object]:
        if not hasattr(local, "request"):
            local.request = compiled.create_infer_request()
        results = local.request.infer(feed)
        return {name: np.array(results[ordinal]) for ordinal, name in enumerate(names)}

    return call


RUNTIMES: Mapping[str, Runtime] = {
    "onnxc": Runtime("onnxc", _open_onnxc),
    "onnxruntime": Runtime("onnxruntime", _open_onnxruntime),
    "openvino": Runtime("openvino", _open_openvino),
}
OTHERS = tuple(name for name in RUNTIMES if name != "onnxc")
