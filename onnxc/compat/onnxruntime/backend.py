"""The backend of ONNX Runtime's package: `onnxruntime.backend.prepare(model).run(inputs)`."""

import os
from collections.abc import Sequence

import numpy as np

from onnxc.compat.onnxruntime.options import SessionOptions
from onnxc.compat.onnxruntime.session import InferenceSession
from onnxc.compiler.frontend.read import SupportsSerialize

__all__ = ["OnnxRuntimeBackendRep", "is_compatible", "prepare", "run", "supports_device"]


class OnnxRuntimeBackendRep:
    """A session that is called with inputs by position."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: object, **_options: object) -> list[object]:
        """The outputs, for one array or a sequence with one of each input."""
        names = [arg.name for arg in self._session.get_inputs()]
        values = inputs if isinstance(inputs, list | tuple) else [inputs]
        if len(values) != len(names):
            raise RuntimeError(f"{len(values)} inputs came, expected {len(names)}: {', '.join(names)}")
        return self._session.run(None, dict(zip(names, values, strict=True)))


Source = str | os.PathLike[str] | bytes | SupportsSerialize | InferenceSession | OnnxRuntimeBackendRep


def supports_device(device: str) -> bool:
    """Whether models can be prepared for a device, as "CPU"."""
    return device.upper().partition(":")[0] == "CPU"


def is_compatible(_model: Source, device: str | None = None, **_options: object) -> bool:
    """Whether it can be prepared for the device; the model is looked at when it is."""
    return device is None or supports_device(device)


def prepare(model: Source, device: str | None = None, **options: object) -> OnnxRuntimeBackendRep:
    """The model of a path, bytes, message or session. options: attributes of `SessionOptions`; others are ignored."""
    if device is not None and not supports_device(device):
        raise RuntimeError(f"Incompatible device expected '{device}', got 'CPU'")
    if isinstance(model, OnnxRuntimeBackendRep):
        return model
    if isinstance(model, InferenceSession):
        return OnnxRuntimeBackendRep(model)
    chosen = SessionOptions()
    for name in options.keys() & vars(chosen).keys():
        setattr(chosen, name, options[name])
    source = model.SerializeToString() if isinstance(model, SupportsSerialize) else model
    return OnnxRuntimeBackendRep(InferenceSession(source, chosen, providers=["CPUExecutionProvider"]))


def run(model: Source, inputs: Sequence[np.ndarray], device: str | None = None, **options: object) -> list[object]:
    """The outputs of a model, prepared for this one run."""
    return prepare(model, device, **options).run(inputs)
