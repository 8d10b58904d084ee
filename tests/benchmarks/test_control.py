"""The models of loops, recurrent layers, detectors and trees: each is one native call."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.helper import tensor_dtype_to_np_dtype

from benchmarks.inputs import read_manifest
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
    models = {model.name: model for model in read_manifest(folder)}
    assert set(models) == set(CASES)
    for model in models.values():
        graph = onnx.load(model.path).graph
        declared = {info.name: info.type.tensor_type for info in graph.input}
        assert [spec.name for spec in model.inputs] == list(declared)
        assert model.outputs == tuple(info.name for info in graph.output)
        for spec in model.inputs:
            dims = [dim.dim_param or dim.dim_value for dim in declared[spec.name].shape.dim]
            assert (list(spec.shape), np.dtype(spec.dtype)) == (
                dims,
                tensor_dtype_to_np_dtype(declared[spec.name].elem_type),
            )
        symbols = {size for spec in model.inputs for size in spec.shape if isinstance(size, str)}
        assert model.sizes
        assert all(set(values) == symbols for values in model.sizes.values())
