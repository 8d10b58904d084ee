"""LoRA adapters: values for inputs of a model that have defaults, which a run passes when it is told of the adapter."""

import os
from collections.abc import Mapping
from pathlib import Path

from onnxc.compat.onnxruntime.adapter_file import FORMAT_VERSION, AdapterFile, read_adapter, write_adapter
from onnxc.compat.onnxruntime.ort_values import OrtValue

__all__ = ["AdapterFormat", "LoraAdapter"]


class AdapterFormat:
    """An adapter that is read from a file, or made to be written to one."""

    def __init__(self, adapter: AdapterFile | None = None) -> None:
        self._format_version = FORMAT_VERSION if adapter is None else adapter.format_version
        self._adapter_version = 0 if adapter is None else adapter.adapter_version
        self._model_version = 0 if adapter is None else adapter.model_version
        self._parameters = {} if adapter is None else _values(adapter)

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> "AdapterFormat":
        """The adapter in a file. Raises RuntimeError where there is none."""
        return AdapterFormat(_read(file_path))

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Writes the file. Raises RuntimeError for a parameter that is no tensor, or has texts."""
        arrays = {name: value.numpy() for name, value in self._parameters.items()}
        for name, array in arrays.items():
            if array.dtype.hasobject:
                raise RuntimeError(f"the parameter {name!r} has texts, which adapters have not")
        Path(file_path).write_bytes(write_adapter(AdapterFile(self._adapter_version, self._model_version, arrays)))

    def get_format_version(self) -> int:
        return self._format_version

    def get_adapter_version(self) -> int:
        return self._adapter_version

    def set_adapter_version(self, adapter_version: int) -> None:
        self._adapter_version = adapter_version

    def get_model_version(self) -> int:
        return self._model_version

    def set_model_version(self, model_version: int) -> None:
        self._model_version = model_version

    def get_parameters(self) -> dict[str, OrtValue]:
        return dict(self._parameters)

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        self._parameters = dict(params)


class LoraAdapter:
    """An adapter for runs, by `RunOptions.add_active_adapter`."""

    def __init__(self) -> None:
        self.parameters: Mapping[str, OrtValue] = {}

    def Load(self, file_path: str | os.PathLike[str]) -> None:
        """Reads the file. Raises RuntimeError where there is none."""
        self.parameters = _values(_read(file_path))


def _read(file_path: str | os.PathLike[str]) -> AdapterFile:
    try:
        return read_adapter(Path(file_path).read_bytes())
    except (OSError, ValueError) as problem:
        raise RuntimeError(f"the adapter {os.fspath(file_path)!r} cannot be read: {problem}") from problem


def _values(adapter: AdapterFile) -> dict[str, OrtValue]:
    return {name: OrtValue.ortvalue_from_numpy(array) for name, array in adapter.parameters.items()}
