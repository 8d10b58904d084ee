"""The cases of the suite as files, and what an engine must do with them; README.md explains both.

Nothing here imports onnxc: an engine of anybody is held against the files.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from google.protobuf import text_format
from onnx import ModelProto

DATA = Path(__file__).parent / "data"

Arrays = Mapping[str, np.ndarray]
Block = tuple[tuple[int, int], ...]
Shard = tuple[int, Block, np.ndarray]
Shards = Mapping[str, Sequence[Shard]]
Collectives = Sequence[tuple[str, int]]


class Engine(Protocol):
    """What is held against the suite: a module with these two functions."""

    def run(self, model: bytes, inputs: Arrays, configuration: str | None) -> tuple[Arrays, Shards, Collectives]:
        """The outputs as a whole, the shards of each that stays divided or copied, and the exchanges with their bytes.

        A shard is the ordinal of a device, the first and the last but one element of its block along each axis, and
        its elements. Without a configuration only the outputs are looked at.
        """

    def check(self, model: bytes) -> Sequence[str]:
        """The codes of what is wrong with the model; none for a legal one."""


@dataclass(frozen=True)
class Failure:
    """What an engine does otherwise than a case expects."""

    case: str
    message: str


def models(folder: str) -> dict[str, Path]:
    """The models of `valid` or `invalid`, by the names of their cases."""
    return {path.stem: path for path in sorted((DATA / folder).glob("*.textproto"))}


def check_all(engine: Engine, name_contains: str = "") -> Iterator[tuple[str, list[Failure]]]:
    """Each case whose name contains a text, and what the engine does wrong with it."""
    expected = json.loads((DATA / "invalid.json").read_text())
    for folder in ("invalid", "valid"):
        for name, path in models(folder).items():
            if name_contains in name:
                code = expected[name]["code"] if folder == "invalid" else ""
                yield name, check_case(engine, name, path, code)


def check_case(engine: Engine, name: str, path: Path, code: str) -> list[Failure]:
    """What an engine does wrong with one model, which is legal where `code` is empty."""
    try:
        return check_invalid(engine, name, path, code) if code else check_valid(engine, name, path)
    except Exception as problem:  # An engine is code of others, and what it raises is its answer to this case.
        return [Failure(name, f"the engine raises {type(problem).__name__}: {problem}")]


def check_invalid(engine: Engine, name: str, path: Path, code: str) -> list[Failure]:
    """A model with wrong annotations must be refused for what is wrong."""
    found = list(engine.check(_bytes(path)))
    return [] if code in found else [Failure(name, f"check gives {found}, expected {code}")]


def check_valid(engine: Engine, name: str, path: Path) -> list[Failure]:
    """A legal model must be accepted, and give its outputs, shards and exchanges."""
    case, model = json.loads(path.with_suffix(".json").read_text()), _bytes(path)
    inputs = {key: decode_array(value) for key, value in case["inputs"].items()}
    codes = list(engine.check(model))
    outputs, shards, collectives = engine.run(model, inputs, case["configuration"])
    expected = {key: decode_array(value) for key, value in (case["outputs"] or {}).items()}
    if case["outputs"] is None:
        expected = dict(engine.run(model, inputs, None)[0])
    wrong = [f"check gives {codes}, and the model is legal"] if codes else []
    wrong += _wrong_arrays(outputs, expected, case["tolerance"])
    if case["shards"] is not None:
        wrong += _wrong_shards(shards, case["shards"], expected, case["tolerance"])
    if case["collectives"] is not None:
        listed = sorted((str(op), int(nbytes)) for op, nbytes in collectives)
        asked = sorted((each["op"], each["bytes"]) for each in case["collectives"])
        wrong += [] if listed == asked else [f"collectives are {listed}, expected {asked}"]
    return [Failure(name, message) for message in wrong]


def encode_array(array: np.ndarray) -> dict[str, object]:
    """An array as JSON values: element type, shape, and elements in row-major order."""
    return {"type": array.dtype.name, "shape": list(array.shape), "data": elements(array)}


def elements(array: np.ndarray) -> list[object]:
    """The elements in row-major order; floats as the shortest decimals that are read back as the same."""
    listed = array.ravel().tolist()
    return [float(np.format_float_positional(each)) for each in array.ravel()] if array.dtype.kind == "f" else listed


def decode_array(value: Mapping[str, object]) -> np.ndarray:
    """The array that `encode_array` wrote."""
    return np.array(value["data"], str(value["type"])).reshape(np.array(value["shape"], int))


def _bytes(path: Path) -> bytes:
    model: ModelProto = text_format.Parse(path.read_text(), ModelProto())
    return model.SerializeToString()


def _wrong_arrays(made: Arrays, expected: Arrays, tolerance: float) -> list[str]:
    if made.keys() != expected.keys():
        return [f"outputs are {sorted(made)}, expected {sorted(expected)}"]
    return [f"output {key} is {made[key]}, expected {value}" for key, value in expected.items()
            if not _same(made[key], value, tolerance)]  # fmt: skip


def _wrong_shards(
    made: Shards, expected: Mapping[str, Sequence[Mapping[str, object]]], outputs: Arrays, tolerance: float
) -> list[str]:
    """Every device must have its block, at the index and with the elements that the case says."""
    wrong: list[str] = []
    for key, blocks in expected.items():
        found = sorted(made.get(key, ()), key=lambda shard: shard[0])
        if [device for device, _, _ in found] != [each["device"] for each in blocks]:
            wrong.append(f"devices {[device for device, _, _ in found]} have {key}, expected {len(blocks)} of them")
            continue
        for (device, block, data), each in zip(found, blocks, strict=True):
            index = np.array(each["index"], int).reshape(-1, 2).tolist()
            asked = outputs[key][tuple(slice(*ends) for ends in index)]
            if "data" in each:
                asked = np.array(each["data"], asked.dtype).reshape(asked.shape)
            if [list(ends) for ends in block] != index or not _same(data, asked, tolerance):
                wrong.append(f"device {device} has {key}{list(block)} = {data}, expected {index} = {asked}")
    return wrong


def _same(made: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Whether arrays have one type, one shape, and elements as close as the case allows: 0 means the same."""
    return (
        made.dtype == expected.dtype
        and made.shape == expected.shape
        and bool(np.allclose(made, expected, rtol=0, atol=tolerance))
    )
