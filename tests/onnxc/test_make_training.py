"""Training information of a loss and an optimizer: legal, complete, and refused where it cannot be."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.runtime.errors import InputError
from tests.support.models import model_from_text

HEADER = '<ir_version: 6, opset_import: ["" : 21]>\n'

SMALL = """g (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 0, 0, 1, 1, 1}, float[2] c = {0, 0}>
    { p = MatMul (x, w) y = Add (p, c) }"""
CHAIN = """g (float[N, 1, 4, 4] x) => (float[N, 30] p)
    <float white = {16}, float[20, 1, 3, 3] k = {0}, float[20] s = {0}, float[20] b = {0}, float[20] m = {0},
     float[20] v = {0}, float[1] slope = {0}, float[40, 80] e = {0}, float[40, 30] w = {0}>
    { d = Div (x, white) a = Conv <kernel_shape = [3, 3]> (d, k) n = BatchNormalization (a, s, b, m, v)
      r = PRelu (n, slope) f = Flatten (r) i = Gemm <transB = 1> (f, e) z = MatMul (i, w)
      p = Softmax <axis = 1> (z) }"""


def filled(text: str) -> onnx.ModelProto:
    """The model, whose initializers of several elements are ones."""
    model = model_from_text(HEADER + text)
    for tensor in model.graph.initializer:
        if tensor.dims:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.ones(tensor.dims, np.float32), tensor.name))
    return model


def test_every_weight_gets_a_first_value_by_what_reads_it() -> None:
    made = onnxc.make_training(filled(CHAIN), optimizer="adam")
    onnx.checker.check_model(onnx.load_from_string(made.SerializeToString()))
    trainer = onnxc.compile_training(made, "interpreter")
    trainer.initialize(4)
    state = trainer.state()
    weights = ["k", "s", "b", "slope", "e", "w"]
    assert [name for name in trainer.variables if "." not in name and name != "steps"] == weights
    assert (state["s"].tolist(), state["b"].tolist(), state["slope"].tolist()) == ([1] * 20, [0] * 20, [0.25])
    deviations = [np.sqrt(2 / 9), np.sqrt(2 / 80), np.sqrt(2 / 40)]
    for name, deviation in zip(("k", "e", "w"), deviations, strict=True):
        # Of 180 draws of k the standard deviation is within a tenth with 95 %; the seed is one of those.
        assert 0.9 * deviation < state[name].std() < 1.1 * deviation
    assert state["e.squares"].tolist() == np.zeros((40, 80)).tolist()


LOSSES: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "mean_squared_error": lambda y, t: float(np.square(y - t).mean()),
    "mean_absolute_error": lambda y, t: float(np.abs(y - t).mean()),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_of_targets(loss: str) -> None:
    made = onnxc.make_training(filled(SMALL), loss, "adagrad", initialization=None, learning_rate=0.1)
    trainer = onnxc.compile_training(made, "interpreter")
    x, t = np.eye(3, dtype=np.float32), np.zeros((3, 2), np.float32)
    first = trainer.step({"x": x, "targets": t})["loss"]
    assert first == LOSSES[loss](np.full((3, 2), 2.0), t)
    # Every gradient is positive, and Adagrad's first step is the rate.
    np.testing.assert_allclose(trainer.state()["w"], np.full((3, 2), 0.9), rtol=1e-6)
    assert trainer.step({"x": x, "targets": t})["loss"] < first


def test_the_output_may_be_the_loss_and_the_weights_be_chosen() -> None:
    made = onnxc.make_training(filled(SMALL), "output", output="p", trainable=["w"], initialization=None)
    trainer = onnxc.compile_training(made, "interpreter")
    assert trainer.variables == ("w",)
    assert trainer.step({"x": np.eye(3, dtype=np.float32), "learning_rate": np.float32(1)}) == {"loss": 1}
    np.testing.assert_allclose(trainer.state()["w"], np.full((3, 2), 1 - 1 / 6), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"loss": "hinge"}, "unknown-training-choice"),
        ({"optimizer": "lion"}, "unknown-training-choice"),
        ({"initialization": "zeros"}, "unknown-training-choice"),
        ({"optimizer": "adam", "settings": {"gamma": 1}}, "unknown-training-choice"),
        ({"settings": {"alpha": 1}}, "unknown-training-choice"),
        ({"optimizer": "adam", "settings": {"alpha": [1]}}, "option-type"),
        ({"optimizer": "adam", "settings": 3}, "option-type"),
        ({"learning_rate": float("nan")}, "option-type"),
        ({"trainable": "w"}, "option-type"),
        ({"trainable": ["x"]}, "training-weights"),
        ({"trainable": ["w", "w"]}, "training-weights"),
        ({"trainable": []}, "training-weights"),
        ({"output": "nothing"}, "training-output"),
        ({"output": 3}, "option-type"),
        ({"loss": ["output"]}, "unknown-training-choice"),
        ({"output": "c"}, "training-output"),
    ],
)
def test_choices_that_cannot_be(options: Mapping[str, object], code: str) -> None:
    with pytest.raises(InputError) as caught:
        onnxc.make_training(filled(SMALL), **options)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_a_model_gets_training_information_once() -> None:
    made = onnxc.make_training(filled(SMALL))
    with pytest.raises(InputError) as caught:
        onnxc.make_training(made)
    assert caught.value.code == "has-training-information"


def test_settings_are_attributes_of_the_operator() -> None:
    made = onnxc.make_training(filled(SMALL), optimizer="momentum", settings={"mode": "nesterov", "alpha": 0.5})
    (node,) = [node for node in made.training_info[0].algorithm.node if node.op_type == "Momentum"]
    found = {entry.name: entry.s or entry.f for entry in node.attribute}
    assert found == {"mode": b"nesterov", "alpha": 0.5, "beta": 1.0, "norm_coefficient": 0.0}


def test_a_softmax_over_another_axis_stays() -> None:
    text = "g (float[N, 3, 4] x) => (float[N, 3, 4] y) <float[4, 4] w = {0}> { p = MatMul (x, w) y = Softmax (p) }"
    over_last = onnxc.make_training(filled(text)).training_info[0].algorithm
    over_classes = onnxc.make_training(filled(text.replace("Softmax", "Softmax <axis = 1>"))).training_info[0].algorithm
    assert [graph.node[0].input[0] for graph in (over_last, over_classes)] == ["y", "p"]
    sizes = [dim.dim_param or dim.dim_value for dim in over_last.input[0].type.tensor_type.shape.dim]
    assert sizes == ["N", 4]


def test_what_decides_shapes_is_no_weight() -> None:
    text = """g (float[1, 2, 3, 3] x) => (float[1, 2, 6, 6] y)
        <float[4] scales = {1, 1, 2, 2}, float[2] s = {1, 1}, float[2] b = {0, 0}>
        { r = Resize (x, , scales) y = InstanceNormalization (r, s, b) }"""
    trainer = onnxc.compile_training(onnxc.make_training(model_from_text(HEADER + text), "mean_squared_error"))
    assert [name for name in trainer.variables if "." not in name] == ["s", "b"]
    trainer.initialize(1)
    x = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
    assert trainer.step({"x": x, "targets": np.zeros((1, 2, 6, 6), np.float32)})["loss"] > 0
