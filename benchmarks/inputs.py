"""The manifest beside a folder of models, and seeded inputs of a model at given sizes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WORDS = ("a", "bb", "hello world", "mail@host.org", "The Quick Brown Fox", "x" * 30, "", "nan")
"""What tensors of texts are drawn from."""


@dataclass(frozen=True)
class InputSpec:
    """One input: sizes (a number, a symbol, or symbols joined by +) and the draw of its elements."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    fill: str
    high: int


@dataclass(frozen=True)
class ModelSpec:
    """One model of a manifest; `sizes` names the values of its symbols to try."""

    name: str
    path: Path
    inputs: tuple[InputSpec, ...]
    outputs: tuple[str, ...]
    sizes: Mapping[str, Mapping[str, int]]


def read_manifest(folder: Path) -> tuple[ModelSpec, ...]:
    """The models of the folder whose files are there, legacy exports as models of their own."""
    entries = json.loads((folder / "manifest.json").read_text())
    return tuple(
        ModelSpec(
            Path(file).name.removesuffix(".onnx"),
            folder / file,
            tuple(InputSpec(i["name"], i["dtype"], tuple(i["shape"]), i["fill"], i["high"]) for i in entry["inputs"]),
            tuple(entry["outputs"]),
            entry["sizes"],
        )
        for entry in entries.values()
        for file in entry["files"].values()
        if (folder / file).exists()
    )


def size_of(size: int | str, values: Mapping[str, int]) -> int:
    """The number behind one size; a symbol without a value is a KeyError."""
    return size if isinstance(size, int) else sum(values[part.strip()] for part in size.split("+"))


def make_inputs(inputs: Iterable[InputSpec], values: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays for the inputs at the given sizes, the same for the same seed."""
    rng = np.random.default_rng(seed)
    return {spec.name: make_input(spec, values, rng) for spec in inputs}


def make_input(spec: InputSpec, values: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
    shape = tuple(size_of(size, values) for size in spec.shape)
    match spec.fill:
        case "integers":
            return rng.integers(0, spec.high, shape).astype(spec.dtype)
        case "divisors":
            return rng.integers(1, spec.high, shape).astype(spec.dtype)
        case "words":
            return rng.choice(np.array(WORDS, object), shape)
        case "digits":
            return rng.integers(0, spec.high, shape).astype(str).astype(object)
        case "limits":
            return np.full(shape, spec.high, spec.dtype)
        case "ordinals":
            return drawn_once(shape, spec.high, rng).astype(spec.dtype)
        case "boxes":
            return drawn_boxes(shape[0], spec.high, rng).astype(spec.dtype)
        case "small":
            return (rng.standard_normal(shape) / 16).astype(spec.dtype)
        case "over one":
            return rng.uniform(1.0, 3.0, shape).astype(spec.dtype)
        case "positive":
            return rng.uniform(0.5, 2.0, shape).astype(spec.dtype)
        case "unit":
            return rng.uniform(-0.9, 0.9, shape).astype(spec.dtype)
        case "mask":
            return padding_mask(shape, rng).astype(spec.dtype)
        case "image":
            channels = (*shape[:2], *(1 for _ in shape[2:]))
            scale, offset = rng.uniform(0.25, 2.0, channels), rng.standard_normal(channels)
            return (rng.standard_normal(shape) * scale + offset).astype(spec.dtype)
        case _:
            return rng.standard_normal(shape).astype(spec.dtype)


def padding_mask(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Ones, then in every row but the first zeros from a drawn position on."""
    rows, length = shape
    kept = rng.integers((length + 1) // 2, length + 1, rows)
    kept[:1] = length
    return np.arange(length)[None, :] < kept[:, None]


def drawn_once(shape: tuple[int, ...], high: int, rng: np.random.Generator) -> np.ndarray:
    """Different numbers below `high` along each axis."""
    flat = rng.permutation(high)
    positions = sum(np.arange(size).reshape([-1] + [1] * (len(shape) - axis - 1)) for axis, size in enumerate(shape))
    return flat[positions % high]


def drawn_boxes(count: int, high: int, rng: np.random.Generator) -> np.ndarray:
    """Corners of boxes within a square: left, top, right, bottom."""
    corners, sizes = rng.uniform(0, high / 2, (count, 2)), rng.uniform(1, high / 2, (count, 2))
    return np.concatenate([corners, corners + sizes], axis=1)
