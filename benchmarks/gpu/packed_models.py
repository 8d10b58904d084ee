"""The models of a pack on a device: executables with their weights in place, and inputs."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.pack_file import Pack, PackedModel
from benchmarks.gpu.skeletons import filled
from benchmarks.inputs import make_inputs
from onnxc.runtime.executable import Executable
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.load import make_executable

__all__ = ["device_inputs", "executable_of", "pack_of", "skeletons_of"]


def pack_of(bench: Bench) -> Pack:
    """The pack of a bench; LookupError where it has none."""
    if bench.pack is None:
        raise LookupError("models come out of a pack: --pack FILE")
    return bench.pack


def skeletons_of(bench: Bench) -> list[PackedModel]:
    """The models whose times are of interest."""
    return [model for model in pack_of(bench).index.models if model.is_skeleton]


def executable_of(bench: Bench, model: PackedModel, driver: Driver | None = None, *, graphs: bool = True) -> Executable:
    """A model on the device of the bench, weights drawn where it has none; `driver` takes the place of the bench's."""
    artifact = pack_of(bench).artifact(model)
    if model.is_skeleton:
        artifact = replace(artifact, weights=filled(artifact.weights))
    return make_executable(artifact, driver=driver or bench.driver, graphs=graphs)


def device_inputs(bench: Bench, model: PackedModel, size: str) -> Mapping[str, DeviceArray]:
    """Drawn inputs of a skeleton at one of its sizes, on the device."""
    assert model.sizes is not None, model
    return {name: _on_device(bench, array) for name, array in make_inputs(model.inputs, model.sizes[size]).items()}


def _on_device(bench: Bench, array: np.ndarray) -> DeviceArray:
    buffer = bench.uploaded(array)
    return DeviceArray(bench.device, buffer.address, array.shape, array.dtype, buffer, None)
