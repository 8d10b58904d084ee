"""Writes the files of the suite: `python -m tests.multi_device.build`. The same bytes each time."""

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from google.protobuf import text_format
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from tests.frontend.invalid.case import Case
from tests.frontend.invalid.devices import DEVICES, NEWER, Division, sharded
from tests.multi_device.programs import PROGRAMS, Layout, Program, integers
from tests.multi_device.rules import RULES
from tests.multi_device.suite import DATA, elements, encode_array

# Half a unit of the last decimal that is written, and 40 roundings of sums of floats below 8.
DECIMALS, FLOAT_TOLERANCE = 6, 2e-5

INFERRED_SIZES = "g (float[8, 4] x) => (float[8, 4] z) { y = Relu(x) z = Neg(y) }"
INFERRED: Mapping[str, tuple[str, Division]] = {
    "an axis of an inferred rank beyond the last": ("sharding-axis", (2, [(None, 2)])),
    "an axis of an inferred rank before the first": ("sharding-axis", (-3, [(None, 2)])),
    "a size that is inferred otherwise": ("sharding-factors", (1, [(99, 2)])),
    "factors of an inferred size with another product": ("sharding-factors", (1, [(2, 2), (3, 1)])),
    "a name that no inferred size has": ("sharding-size-name", (1, [("ZZZ", 2)])),
}


def invalid_cases() -> dict[str, Case]:
    """The models that must be refused, by their names."""
    inferred = {
        name: Case(code, INFERRED_SIZES, sharded(division, tensor="y"), NEWER)
        for name, (code, division) in INFERRED.items()
    }
    return {re.sub(r"\W+", "_", name): case for name, case in (DEVICES | inferred).items()}


def files() -> dict[Path, str]:
    """The text of each file."""
    made: dict[Path, str] = {}
    for name, make in PROGRAMS.items():
        program = make()
        made[DATA / "valid" / f"{name}.textproto"] = text_format.MessageToString(program.model)
        made[DATA / "valid" / f"{name}.json"] = _json(described(program))
    cases = invalid_cases()
    for name, case in cases.items():
        made[DATA / "invalid" / f"{name}.textproto"] = text_format.MessageToString(case.build())
    made[DATA / "invalid.json"] = _json(
        {name: {"code": case.code, "rule": RULES[case.code]} for name, case in cases.items()}
    )
    return made


def described(program: Program) -> dict[str, object]:
    """What a case says beside the model."""
    inputs = dict(program.given or _drawn(program.model))
    outputs = {} if program.is_random else _reference(program, inputs)
    return {
        "about": program.about,
        "configuration": program.model.configuration[0].name,
        "devices": program.model.configuration[0].num_devices,
        "inputs": {name: encode_array(value) for name, value in inputs.items()},
        "outputs": None if program.is_random else {name: encode_array(value) for name, value in outputs.items()},
        "tolerance": 0 if program.exact else FLOAT_TOLERANCE,
        "shards": None if program.layouts is None else _shards(program, outputs),
        "collectives": None
        if program.exchanges is None
        else [{"op": op, "bytes": nbytes} for op, nbytes in program.exchanges],
    }


def _drawn(model: ModelProto) -> dict[str, np.ndarray]:
    return {each.name: integers(0, *_shape(each)) for each in model.graph.input}


def _shape(info: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)


def _reference(program: Program, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by the reference of ONNX, which ignores annotations; floats to so many decimals."""
    names = [each.name for each in program.model.graph.output]
    made = dict(zip(names, ReferenceEvaluator(program.model).run(names, dict(inputs)), strict=True))
    if program.exact:
        return made
    return {name: np.round(value.astype(np.float64), DECIMALS).astype(value.dtype) for name, value in made.items()}


def _shards(program: Program, outputs: Mapping[str, np.ndarray]) -> dict[str, list[dict[str, object]]]:
    """What each device holds of each output: its block, and the elements where they are known."""
    assert program.layouts is not None
    shapes = {each.name: _shape(each) for each in program.model.graph.output}
    found: dict[str, list[dict[str, object]]] = {}
    for name, layout in program.layouts.items():
        found[name] = []
        for device in range(program.model.configuration[0].num_devices):
            index = block(shapes[name], layout, device)
            shard: dict[str, object] = {"device": device, "index": index}
            if name in outputs:
                shard["data"] = elements(outputs[name][tuple(itertools.starmap(slice, index))])
            found[name].append(shard)
    return found


def block(shape: tuple[int, ...], layout: Layout, device: int) -> list[tuple[int, int]]:
    """Where the block of a device begins and ends along each axis: blocks of ⌈size / count⌉ elements."""
    ends: list[tuple[int, int]] = []
    for axis, size in enumerate(shape):
        count, held = layout.get(axis, (1, [0] * (device + 1)))
        length = -(-size // count)
        ends.append((min(length * held[device], size), min(length * (held[device] + 1), size)))
    return ends


def _json(value: Mapping[str, object]) -> str:
    """JSON with a line for each entry."""
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(item)}" for key, item in value.items()) + "\n}\n"


def main() -> None:
    """Writes all files, and removes those of cases that are no more."""
    made = files()
    for path in sorted(DATA.rglob("*.*")):
        if path not in made:
            path.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{len(made)} files, {sum(map(len, made.values())) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
