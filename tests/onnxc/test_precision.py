"""precision="bf16" and "fp16" on the CPU: native code gives what the lowered program means, near what f32 gives."""

import numpy as np
import pytest

import onnxc
from benchmarks.inputs import make_inputs
from onnxc.compiler.driver import run_stages
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module
from onnxc.compiler.options import make_options
from tests.models.builders import BUILDERS

BOUNDS = {"bf16": 2e-2, "fp16": 3e-3}
MODELS = ("mlp", "resnet", "mobile", "convnext", "encoder", "llama")


def root_mean_square(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x.astype(np.float64) ** 2)))


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("name", MODELS)
def test_native_code_gives_what_the_program_means(name: str, precision: str) -> None:
    model = BUILDERS[name]("dynamo")
    options = make_options("cpu", precision=precision)
    module = next(noun for stage, noun in run_stages(model.model, options) if stage == "optimize")
    assert isinstance(module, Module)
    lowered = onnxc.compile(model.model, precision=precision)
    exact = onnxc.compile(model.model)
    assert [(info.name, info.dtype) for info in lowered.outputs] == [(info.name, info.dtype) for info in exact.outputs]
    inputs = make_inputs(model.inputs, model.sizes["prime"])
    meant = interpret(module, inputs)
    for (output, actual), meaning in zip(lowered.run(inputs).items(), meant, strict=True):
        expected = exact.run(inputs)[output]
        assert isinstance(actual, np.ndarray)
        assert isinstance(expected, np.ndarray)
        assert actual.dtype == expected.dtype
        assert root_mean_square(actual - expected) <= BOUNDS[precision] * root_mean_square(expected)
        # Sums in another order may round a 16-bit value to its neighbour, which later layers see.
        assert root_mean_square(actual - np.asarray(meaning)) <= BOUNDS[precision] * root_mean_square(expected)


@pytest.mark.parametrize("precision", BOUNDS)
def test_the_interpreter_lowers_as_well(precision: str) -> None:
    model = BUILDERS["mlp"]("legacy")
    inputs = make_inputs(model.inputs, model.sizes["prime"])
    (exact,) = onnxc.compile(model.model, "interpreter").run(inputs).values()
    (lowered,) = onnxc.compile(model.model, "interpreter", precision=precision).run(inputs).values()
    assert isinstance(exact, np.ndarray)
    assert isinstance(lowered, np.ndarray)
    assert 0 < root_mean_square(lowered - exact) <= BOUNDS[precision] * root_mean_square(exact)


def test_the_precision_is_part_of_where_code_comes_from() -> None:
    options = make_options("cpu", precision="bf16")
    *_, (_, artifact) = run_stages(BUILDERS["mlp"]("legacy").model, options)
    assert artifact.provenance["precision"] == "bf16"  # type: ignore[union-attr]
