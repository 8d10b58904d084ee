"""onnxc: compiles ONNX models to native code, and runs them.

    exe = onnxc.compile("model.onnx")
    y = exe(x)
    exe.save("model.onnxc")
    exe = onnxc.load("model.onnxc")

Importing this loads neither NumPy nor the compiler; compiling loads the compiler, loading and calling the runtime.
"""

import importlib
import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from onnxc.runtime.errors import DeviceError, InputError, ModelError, ModelWarning, OnnxcError, UnsupportedError

if TYPE_CHECKING:
    __version__: str

    from onnxc.compiler.diagnostics import Diagnostic
    from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
    from onnxc.compiler.limits import Limits
    from onnxc.compiler.options import CacheOption, DimRange, DTypesOption, ModelSource
    from onnxc.runtime.executable import Executable
    from onnxc.runtime.gpu.arrays import DeviceArray
    from onnxc.runtime.sparse_tensor import SparseTensor

__all__ = [
    "DeviceArray",
    "DeviceError",
    "InputError",
    "ModelError",
    "ModelWarning",
    "OnnxcError",
    "SparseTensor",
    "UnsupportedError",
    "check",
    "compile",
    "infer",
    "inline",
    "load",
    "verify",
]


def compile(
    model: "ModelSource",
    target: str = "cpu",
    dims: "Mapping[str, DimRange] | None" = None,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    dtypes: "DTypesOption" = None,
    precision: str = "fp32",
    specialize: Mapping[str, Sequence[int]] | None = None,
    freeze_params: bool = True,
    config: str | None = None,
    devices: str | None = None,
    threads: int | None = None,
    cache: "CacheOption" = None,
    limits: "Limits | Mapping[str, int] | None" = None,
    strict: bool = False,
    opset: int | None = None,
) -> "Executable":
    """The model, compiled once for all sizes of its symbolic dimensions and ready to be called.

    model: a path, bytes, a binary file, or anything with SerializeToString.
    target: "cpu" is this machine, "cpu:x86-64-v3" another processor, "cuda" the GPU of this machine, "cuda:sm_90" a
    kind of GPU that need not be here (then the result can be saved, not called), "interpreter" needs no native code.
    dims: for a symbolic size a fixed one, or a range (least, greatest or None).
    shapes, dtypes: for an input what to take in place of what the model declares, numbers too. What followed from them
    gives way, and constants that held a declared size hold the new one. One element type alone is for all floats of
    the model, its weights among them (docs/overrides.md).
    precision: "bf16" and "fp16" store and multiply f32 in 16 bits where that does little harm (docs/precision.md);
    inputs and outputs keep their types. "tf32" is for GPUs.
    specialize: for symbolic sizes those that get kernels of their own beside the general ones, {"batch": [1, 8]}; all
    others are served as before. At most 16 combinations; the interpreter takes it without effect.
    freeze_params: False keeps initializers that are also inputs as inputs with a default.
    config, devices: for sharding over devices, which is not built yet: anything but None is an UnsupportedError.
    threads: how many a call may use; None means all that this process may use.
    cache: the folder in which machine code is kept, of kernels for GPUs and functions for processors, so that a model
    that is compiled again compiles in less time. None means $ONNXC_CACHE, else onnxc in $XDG_CACHE_HOME or ~/.cache;
    False keeps nothing. Whoever may write to the folder decides what runs.
    limits: how far a model may go that may be hostile, by the names of compiler/limits.py: {"nesting_depth": 20}.
    strict: a shape that the model declares otherwise than it is becomes a ModelError. Else there is a ModelWarning, and
    the value has the shape that its node gives.
    opset: the version of the standard's operators, for a model that does not say.

    Raises ModelError, UnsupportedError, InputError.
    """
    checked = importlib.import_module("onnxc.compiler.options").make_options(
        target,
        dims,
        shapes,
        dtypes,
        precision,
        specialize,
        freeze_params,
        config,
        devices,
        threads,
        cache,
        limits,
        strict,
        opset,
    )
    executable: Executable
    if checked.target.kind == "interpreter":
        executable = importlib.import_module("onnxc.compiler.interpreted").interpret_model(model, checked)
    else:
        artifact = importlib.import_module("onnxc.compiler.driver").compile_model(model, checked)
        executable = importlib.import_module("onnxc.runtime.load").make_compiled(artifact, checked.threads)
    return executable


def load(
    path: str | os.PathLike[str],
    weights: Literal["mapped", "resident"] = "mapped",
    threads: int | None = None,
    device: int = 0,
    graphs: bool = True,
) -> "Executable":
    """The executable that `Executable.save` wrote. Nothing is compiled, and the compiler is not needed.

    weights: "mapped" shares the file's pages between processes; "resident" copies them once, into huge pages.
    device: the number of the CUDA device, for code for GPUs; graphs: whether repeated calls there become CUDA graphs.

    An artifact holds native code: load it only from whom you trust (docs/artifacts.md).

    Raises DeviceError where the file is damaged or made for another machine, InputError where there is none.
    """
    found = importlib.import_module("onnxc.runtime.load")
    executable: Executable = found.load(path, weights, threads, device=device, graphs=graphs)
    return executable


def verify(path: str | os.PathLike[str]) -> None:
    """Reads every byte of the file that `Executable.save` wrote, weights included.

    That they are what was written says nothing of who wrote them (docs/artifacts.md). Nothing is executed.

    Raises DeviceError that says what is damaged, InputError where there is no file.
    """
    importlib.import_module("onnxc.runtime.load").verify_artifact(path)


def check(
    model: "ModelSource", limits: "Limits | Mapping[str, int] | None" = None, opset: int | None = None
) -> "tuple[Diagnostic, ...]":
    """Every error and warning there is about the model; nothing is raised for what is wrong with it.

    limits, opset: as for `compile`.
    """
    inspect_model = importlib.import_module("onnxc.compiler.inspect_model")
    findings: tuple[Diagnostic, ...] = inspect_model.find_all(model, limits, opset)
    return findings


def infer(
    model: "ModelSource",
    dims: "Mapping[str, DimRange] | None" = None,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    dtypes: "DTypesOption" = None,
    limits: "Limits | Mapping[str, int] | None" = None,
    opset: int | None = None,
) -> "ModelProto":
    """The model with the type of every value declared, as a message: `SerializeToString()` gives its bytes.

    dims, shapes, dtypes, limits, opset: as for `compile`; constants of the model stay as they are. What nodes of
    operators of others give is known as far as it is declared; a ModelWarning lists them.

    Raises ModelError where types contradict each other, UnsupportedError where a node of the standard is not known.
    """
    options = importlib.import_module("onnxc.compiler.options").make_options(
        "interpreter", dims, shapes, dtypes, limits=limits, opset=opset
    )
    typed: ModelProto = importlib.import_module("onnxc.compiler.inspect_model").declare_types(model, options)
    return typed


def inline(
    model: "ModelSource",
    functions: Collection[str] | None = None,
    limits: "Limits | Mapping[str, int] | None" = None,
    opset: int | None = None,
) -> "ModelProto":
    """The model with its functions expanded where they are called, as a message: `SerializeToString()` gives its bytes.

    functions: which, each by its name, by its domain and name joined by a dot, or also by its overload after a colon;
    None means all. The others stay, with calls in their bodies expanded.
    limits, opset: as for `compile`.

    All else that the model carries is kept; what a call says of itself, its metadata, documentation and devices, goes
    on to its nodes (docs/inlining.md).

    Raises ModelError where the model is wrong or would grow too large, InputError where it has no such function,
    UnsupportedError where no version of an operator set serves all nodes that come together.
    """
    inlined: ModelProto = importlib.import_module("onnxc.compiler.inspect_model").expand_functions(
        model, functions, limits, opset
    )
    return inlined


def __getattr__(name: str) -> object:
    """The version, and the classes DeviceArray (arrays on a GPU) and SparseTensor; only who asks for one loads it."""
    if name == "__version__":
        return _version()
    if name == "DeviceArray":
        return importlib.import_module("onnxc.runtime.gpu.arrays").DeviceArray
    if name == "SparseTensor":
        return importlib.import_module("onnxc.runtime.sparse_tensor").SparseTensor
    raise AttributeError(f"module 'onnxc' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is for callers."""
    return sorted([*__all__, "__version__"])


def _version() -> str:
    """The version that is installed; that of a source tree without an installation is 0.0.0+source."""
    metadata = importlib.import_module("importlib.metadata")
    try:
        version: str = metadata.version("onnxc")
    except metadata.PackageNotFoundError:
        return "0.0.0+source"
    return version
