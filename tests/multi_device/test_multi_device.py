"""The suite of device annotations: onnxc passes it, its files are those that the script writes, and it can fail."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.multi_device import gpu_engine, onnxc_engine
from tests.multi_device.__main__ import main
from tests.multi_device.build import files
from tests.multi_device.rules import RULES
from tests.multi_device.suite import DATA, Arrays, Collectives, Shards, check_case, models

CODES = {name: each["code"] for name, each in json.loads((DATA / "invalid.json").read_text()).items()}
VALID, INVALID = models("valid"), models("invalid")

Answer = tuple[Arrays, Shards, Collectives]


@pytest.mark.parametrize("name", VALID)
def test_onnxc_divides_legal_models_as_the_standard_says(name: str) -> None:
    assert check_case(onnxc_engine, name, VALID[name], "") == []


@pytest.mark.filterwarnings("ignore::onnxc.runtime.errors.ModelWarning")
@pytest.mark.parametrize("name", VALID)
def test_legal_models_are_the_same_on_gpus(name: str) -> None:
    assert check_case(gpu_engine, name, VALID[name], "") == []


def test_onnxc_refuses_all_wrong_annotations() -> None:
    assert INVALID.keys() == CODES.keys()
    assert [failure for name in INVALID for failure in check_case(onnxc_engine, name, INVALID[name], CODES[name])] == []


def test_every_code_has_its_rule() -> None:
    assert RULES.keys() == set(CODES.values())


# The files


@pytest.fixture(scope="module")
def written() -> dict[Path, str]:
    return files()


def test_the_files_are_those_that_the_script_writes(written: dict[Path, str]) -> None:
    """Decimals of floats may differ between machines by their last one; all else is the same to the byte."""
    assert sorted(written) == sorted(path for path in DATA.rglob("*.*") if path.is_file())
    for path, text in written.items():
        kept = path.read_text()
        if kept != text:
            assert _differ_in_floats(json.loads(kept), json.loads(text)), path.name


def _differ_in_floats(kept: object, made: object) -> bool:
    """Whether JSON values are equal but for the last decimal of floats."""
    if isinstance(kept, dict) and isinstance(made, dict):
        return kept.keys() == made.keys() and all(_differ_in_floats(kept[key], made[key]) for key in kept)
    if isinstance(kept, list) and isinstance(made, list):
        return len(kept) == len(made) and all(map(_differ_in_floats, kept, made))
    if isinstance(kept, float) and isinstance(made, float):
        return abs(kept - made) < 2e-6
    return kept == made


def test_the_suite_is_small_and_whole() -> None:
    assert sum(path.stat().st_size for path in DATA.rglob("*.*")) < 1_000_000
    assert len(INVALID) >= 26 + 40
    assert len(VALID) >= 30


# Engines that are wrong


def changed(change: Callable[[Answer], Answer]) -> SimpleNamespace:
    """onnxc, whose answers are changed before they are looked at."""
    return SimpleNamespace(check=onnxc_engine.check, run=lambda *given: change(onnxc_engine.run(*given)))


def first_shard(shards: Shards, index: tuple[tuple[int, int], ...] | None, added: float) -> Shards:
    """The shards, the first one of y with another index or other elements."""
    (device, block, data), *others = shards["y"]
    return {"y": [(device, block if index is None else index, data + np.float32(added)), *others]}


WRONG: dict[str, tuple[str, Callable[[Answer], Answer]]] = {
    "an output": ("output y is", lambda a: ({"y": a[0]["y"] + np.float32(1)}, a[1], a[2])),
    "the type of an output": ("output y is", lambda a: ({"y": a[0]["y"].astype(np.float64)}, a[1], a[2])),
    "no output": ("outputs are", lambda a: ({}, a[1], a[2])),
    "elements of a shard": ("device 0 has y", lambda a: (a[0], first_shard(a[1], None, 1), a[2])),
    "the index of a shard": ("device 0 has y", lambda a: (a[0], first_shard(a[1], ((0, 8), (0, 3)), 0), a[2])),
    "a device without a shard": ("devices [1, 2, 3] have y", lambda a: (a[0], {"y": a[1]["y"][1:]}, a[2])),
    "another collective": ("collectives are", lambda a: (a[0], a[1], [("all_reduce", 96)])),
    "other bytes": ("collectives are", lambda a: (a[0], a[1], [("reduce_scatter", 24)])),
    "one collective more": ("collectives are", lambda a: (a[0], a[1], [*a[2], ("all_gather", 24)])),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_engine_that_is_wrong_fails(name: str) -> None:
    message, change = WRONG[name]
    case = "contraction_reduce_scatter"
    (failure,) = check_case(changed(change), case, VALID[case], "")
    assert failure.message.startswith(message)


@pytest.mark.parametrize(("codes", "case"), [([], "no_device"), (["pipeline-stage"], "no_device"), (["x"], "row")])
def test_an_engine_that_accepts_or_refuses_the_wrong_models_fails(codes: Sequence[str], case: str) -> None:
    engine = SimpleNamespace(check=lambda model: codes, run=onnxc_engine.run)
    path = VALID.get(case) or INVALID[case]
    (failure,) = check_case(engine, case, path, CODES.get(case, ""))
    assert failure.message.startswith(f"check gives {codes}")


def test_what_an_engine_raises_fails_the_case_alone() -> None:
    def run(*given: object) -> Answer:
        raise RuntimeError("there are no devices")

    (failure,) = check_case(SimpleNamespace(check=onnxc_engine.check, run=run), "row", VALID["row"], "")
    assert failure.message == "the engine raises RuntimeError: there are no devices"


def test_the_command_runs_the_cases_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--filter", "no_device"]) == 0
    assert main(["--engine", "tests.multi_device.onnxc_engine", "--filter", "uneven_sum"]) == 0
    assert capsys.readouterr().out.split("\n")[-2:] == ["1 of 1 cases", ""]
    assert main(["--engine", "tests.multi_device.rules", "--filter", "uneven_sum"]) == 1
    assert "the engine raises AttributeError" in capsys.readouterr().out
    assert main(["--filter", "no such case"]) == 1
