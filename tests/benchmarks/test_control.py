"""The models of loops, recurrent layers, detectors and trees: each is one native call."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.inputs import make_inputs, read_manifest
from benchmarks.models.control import CASES, write_models
from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.kernel_plan import GuardStep, KernelPlan, Routine, Segment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("control")
    write_models(made)
    return made


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_one_native_call(folder: Path, name: str) -> None:
    stages = run_stages((folder / f"{name}.onnx").read_bytes(), make_options())
    plan = next(noun for stage, noun in stages if stage == "plan")
    assert isinstance(plan, KernelPlan)
    (call,) = (step for step in plan.body.steps if not isinstance(step, GuardStep))
    assert isinstance(call, Segment | Routine), plan


def test_the_manifest_says_how_each_model_is_called(folder: Path) -> None:
    assert set(json.loads((folder / "manifest.json").read_text())) == set(CASES)
    for model in read_manifest(folder):
        for values in model.sizes.values():
            inputs = make_inputs(model.inputs, values)
            assert all(isinstance(array, np.ndarray) for array in inputs.values())
            assert {name: array.dtype.name for name, array in inputs.items()} == {
                spec.name: spec.dtype for spec in model.inputs
            }
