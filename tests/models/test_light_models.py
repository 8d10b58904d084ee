"""The nine light models with seeded random weights agree with ONNX Runtime."""

import numpy as np
import pytest

import onnxc
from tests.models.light_models import NAMES, random_light_model
from tests.support.arrays import assert_near
from tests.support.models import run_ort

SMALL = ("inception_v1", "shufflenet", "squeezenet")
MODELS = [name if name in SMALL else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


@pytest.mark.parametrize("name", MODELS)
def test_random_weights_give_what_onnx_runtime_does(name: str) -> None:
    model = random_light_model(name)
    (image,) = model.graph.input
    shape = [size.dim_value for size in image.type.tensor_type.shape.dim]
    inputs = {image.name: np.random.default_rng(1).standard_normal(shape, np.float32)}
    expected = run_ort(model, inputs)
    executable = onnxc.compile(model)
    del model
    for output, value in executable.run(inputs).items():
        assert 0.001 < expected[output].max() < 10, "the case says little"
        assert_near(value, expected[output])
