"""Programs that were edited: refused, or they compute something else; never a signal, never an exception not ours."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnxc.runtime.artifact import tie_images, write_artifact
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.load import load, make_executable
from onnxc.runtime.program import Program
from tests.runtime.edits import seeds
from tests.runtime.programs import AFFINE, Binding, artifact, body, host, launch, program

EDITS = 1000


def test_edited_programs_with_valid_checksums_are_refused_or_run() -> None:
    command = [sys.executable, "-m", "tests.runtime.edits", "0", str(EDITS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sum(found.values()) == EDITS
    # Each way out was taken.
    assert found.keys() >= {"refused when loaded", "refused when called", "ran"}


def test_the_program_that_is_edited_runs_as_it_is(tmp_path: Path) -> None:
    seed = seeds()[0]
    write_artifact(seed.artifact, tmp_path / "a")
    found = load(tmp_path / "a").run(dict(seed.feed))
    np.testing.assert_array_equal(np.asarray(found["scan"]), [[1.0, 0.0, 2.0]] * 3)
    assert np.asarray(found["words"]).tolist() == ["xa", "yü"]


@pytest.mark.parametrize(
    "other",
    [
        program(body(2, [0], [1], [launch("affine", [0], [1], "0")])),
        program(body(2, [0], [1], [launch("pick", [0], [1])])),
        replace(AFFINE, name="other"),
    ],
    ids=["a smaller arena", "another entry", "another name"],
)
def test_native_code_runs_with_its_own_program_only(tmp_path: Path, other: Program) -> None:
    write_artifact(replace(artifact(AFFINE), program=other), tmp_path / "a")
    with pytest.raises(DeviceError, match="was not compiled for this program and these weights") as refused:
        load(tmp_path / "a")
    assert refused.value.code == "artifact-malformed"


def test_native_code_runs_with_as_many_weights_only(tmp_path: Path) -> None:
    made = artifact(AFFINE)
    write_artifact(replace(made, weights=made.weights[:32]), tmp_path / "a")
    with pytest.raises(DeviceError, match="was not compiled for this program and these weights"):
        load(tmp_path / "a")


def test_native_code_that_is_tied_to_nothing_is_refused(tmp_path: Path) -> None:
    made = artifact(AFFINE)
    untied = {target: image[:-8] for target, image in made.images.items()}
    write_artifact(replace(made, images=untied), tmp_path / "a")
    with pytest.raises(DeviceError, match="was not compiled for this program"):
        load(tmp_path / "a")
    write_artifact(tie_images(replace(made, images=untied)), tmp_path / "a")
    load(tmp_path / "a")


@pytest.mark.parametrize(
    "step",
    [
        host("non_zero", [0, 0], [1]),
        host("concatenate", [0, 0], [1], axis="first"),
        host("concatenate", [0, 0], [1], axis=3),
        host("neg", [0], [1, 1]),
        host("neg", [0], [1], Binding(1, 1, 1)),
    ],
    ids=["operands", "an attribute of another type", "an axis", "results", "the axis of a binding"],
)
def test_a_step_that_does_not_take_what_comes_is_a_device_error(step: object) -> None:
    exe = make_executable(artifact(program(body(2, [0], [1], [step]))))  # type: ignore[list-item]
    with pytest.raises(DeviceError, match="a step does not take the values that came to it") as refused:
        exe(np.ones(3, np.float32))
    assert refused.value.code == "unfit-step"
    assert refused.value.__cause__ is not None
