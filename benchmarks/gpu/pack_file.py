"""The pack: one compressed file with all that had to be compiled for a run on a GPU, read where nothing can compile.

index.json            what it was made with and for, and the models
kernels/KEY.json      a kernel (runtime/device_code.py), by the digest of its source, target and Triton's version
kernels/KEY.cubin     its machine code
models/NAME.onnxc     an artifact; its large weights are marks where it is a skeleton (skeletons.py)
models/NAME.npz       inputs and right outputs of a model whose values are checked, one feed after another
"""

import io
import json
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.inputs import InputSpec
from onnxc.compiler.codegen_gpu.compile.kernel_cache import kernel_key
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.device_code import DeviceKernel, decode_kernel, encode_kernel
from onnxc.runtime.load import read_artifact

__all__ = ["Feed", "Pack", "PackIndex", "PackedModel", "write_pack"]

INDEX = "index.json"

Feed = tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]
"""Inputs and the outputs that are right for them, by name."""


@dataclass(frozen=True)
class PackedModel:
    """A model in a precision: with feeds and a bound of their error, or without weights, with inputs to be drawn."""

    name: str
    precision: str
    bound: float = 0.0
    inputs: tuple[InputSpec, ...] = ()
    sizes: Mapping[str, Mapping[str, int]] | None = None

    @property
    def member(self) -> str:
        return f"{self.name}.{self.precision}"

    @property
    def is_skeleton(self) -> bool:
        return self.sizes is not None


@dataclass(frozen=True)
class PackIndex:
    """What a pack was made with and for: `size` is that of the work, as in bench.py."""

    architecture: str
    triton: str
    size: str
    models: tuple[PackedModel, ...]


class Pack:
    """A pack that is read."""

    def __init__(self, path: Path) -> None:
        self.path, self._zip = path, zipfile.ZipFile(path)
        index = json.loads(self._zip.read(INDEX))
        self.index = PackIndex(**{**index, "models": tuple(map(_model, index["models"]))})

    def kernels(self, sources: Sequence[KernelSource]) -> list[DeviceKernel]:
        """The kernel of each source; LookupError where one is not in the pack."""
        keys = [kernel_key(source, self.index.architecture, self.index.triton) for source in sources]
        return [self._kernel(key, source.text) for key, source in zip(keys, sources, strict=True)]

    def all_kernels(self) -> list[DeviceKernel]:
        """Every kernel that is not inside of a model; their sources are not known here."""
        names = (Path(name) for name in self._zip.namelist() if name.startswith("kernels/"))
        return [self._kernel(name.stem, "") for name in names if name.suffix == ".json"]

    def artifact(self, model: PackedModel) -> Artifact:
        """The artifact of a model, its marks still in the place of large weights."""
        with tempfile.NamedTemporaryFile(suffix=".onnxc") as file:
            file.write(self._zip.read(f"models/{model.member}.onnxc"))
            file.flush()
            return read_artifact(file.name)

    def feeds(self, model: PackedModel) -> list[Feed]:
        """Inputs and outputs of a model whose values are checked."""
        with np.load(io.BytesIO(self._zip.read(f"models/{model.name}.npz"))) as arrays:
            feeds: dict[int, tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = {}
            for key in arrays.files:
                ordinal, side, name = key.split("|", 2)
                feeds.setdefault(int(ordinal), ({}, {}))[side == "out"][name] = arrays[key]
        return [feeds[ordinal] for ordinal in sorted(feeds)]

    def _kernel(self, key: str, text: str) -> DeviceKernel:
        try:
            described = json.loads(self._zip.read(f"kernels/{key}.json"))
            cubin = self._zip.read(f"kernels/{key}.cubin")
        except KeyError:
            message = f"a kernel is not in the pack, which was made from other sources or at another size: {key[:12]}"
            raise LookupError(message) from None
        return decode_kernel(described, lambda _: cubin, lambda _: text)


def write_pack(
    path: Path,
    index: PackIndex,
    kernels: Iterable[DeviceKernel],
    artifacts: Iterable[tuple[PackedModel, bytes]],
    feeds: Mapping[str, Sequence[Feed]],
) -> None:
    """Writes a pack; the artifacts are made as they are written, for they are large before they are compressed.

    The models of the index are those that are written.
    """
    models = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as file:
        for kernel in {kernel.key: kernel for kernel in kernels}.values():
            file.writestr(f"kernels/{kernel.key}.json", json.dumps(encode_kernel(kernel)))
            file.writestr(f"kernels/{kernel.key}.cubin", kernel.cubin)
        for model, data in artifacts:
            file.writestr(f"models/{model.member}.onnxc", data)
            print(f"{model.member}: {file.getinfo(f'models/{model.member}.onnxc').compress_size} bytes", flush=True)
            models.append(model)
        for name, given in feeds.items():
            file.writestr(f"models/{name}.npz", _feed_bytes(given))
        file.writestr(INDEX, json.dumps(asdict(replace(index, models=tuple(models))), indent=1))


def _feed_bytes(feeds: Sequence[Feed]) -> bytes:
    arrays = {
        f"{ordinal}|{side}|{name}": array
        for ordinal, feed in enumerate(feeds)
        for side, values in zip(("in", "out"), feed, strict=True)
        for name, array in values.items()
    }
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _model(value: dict[str, object]) -> PackedModel:
    inputs = value.pop("inputs")
    assert isinstance(inputs, list), inputs
    specs = tuple(InputSpec(**{**item, "shape": tuple(item["shape"])}) for item in inputs)
    return PackedModel(**value, inputs=specs)  # type: ignore[arg-type]
