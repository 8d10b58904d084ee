"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss against a loop over samples."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close

RANDOM = np.random.default_rng(0)
CLASSES = 5


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.logaddexp.reduce(x.astype(np.float64), axis=1, keepdims=True)


def loss(
    log_probability: np.ndarray, target: np.ndarray, weight: np.ndarray | None, ignored: int | None, reduction: str
) -> np.ndarray:
    """The loss of each sample, as the text of the standard says it."""
    losses, weights = np.zeros(target.shape), np.zeros(target.shape)
    for place in np.ndindex(target.shape):
        label = target[place]
        if label != ignored:
            weights[place] = 1 if weight is None else weight[label]
            losses[place] = -log_probability[(place[0], label, *place[1:])] * weights[place]
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / weights.sum()


@pytest.mark.parametrize("spatial", [(), (2,), (2, 3)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, 2, -1])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_losses(spatial: tuple[int, ...], weighted: bool, ignored: int | None, reduction: str, way: str) -> None:
    scores, target = floats(4, CLASSES, *spatial), RANDOM.integers(0, CLASSES, (4, *spatial))
    target.flat[0] = 0 if ignored is None else ignored
    weight = np.abs(floats(CLASSES)) if weighted else None
    attributes = {"reduction": reduction} | ({} if ignored is None else {"ignore_index": ignored})
    operands = {"x": scores, "target": target} | ({} if weight is None else {"weight": weight})
    likelihood = run_operator("NegativeLogLikelihoodLoss", operands, opset=13, way=way, **attributes)
    expected = np.asarray(loss(scores, target, weight, ignored, reduction), np.float32)
    assert_close(*likelihood, expected, terms=target.size, magnitude=np.abs(scores).max())
    entropy, log_probability = run_operator(
        "SoftmaxCrossEntropyLoss", operands, opset=13, way=way, outputs=2, **attributes
    )
    expected = log_softmax(scores)
    assert_close(log_probability, expected.astype(np.float32))
    assert_close(entropy, np.asarray(loss(expected, target, weight, ignored, reduction), np.float32))


@pytest.mark.parametrize("opset", [12, 13, 22])
def test_labels_may_be_of_32_bits(opset: int) -> None:
    scores, target = floats(2, 3).astype(np.float64), np.int32([2, 0])
    (actual,) = run_operator("NegativeLogLikelihoodLoss", {"x": scores, "target": target}, opset=opset)
    assert_close(actual, np.asarray(-(scores[0, 2] + scores[1, 0]) / 2))


@pytest.mark.parametrize(
    ("shapes", "attributes", "code"),
    [(((2, 3), (2, 1), (3,)), {}, "loss-rank"), (((2,), (2,), (3,)), {}, "loss-rank"),
     (((2, 3), (4,), (3,)), {}, "loss-sizes"), (((2, 3), (2,), (3, 1)), {}, "loss-weights"),
     (((2, 3), (2,), (3,)), {"reduction": "max"}, "attribute-value")],
)  # fmt: skip
@pytest.mark.parametrize("operator", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_illegal_losses(
    operator: str, shapes: tuple[tuple[int, ...], ...], attributes: dict[str, str], code: str
) -> None:
    operands = {"x": floats(*shapes[0]), "target": np.zeros(shapes[1], np.int64), "weight": floats(*shapes[2])}
    with pytest.raises(ModelError, match=code):
        run_operator(operator, operands, opset=13, **attributes)


def test_the_number_of_labels_is_checked_by_the_call() -> None:
    operands = {"x": floats(2, 3), "target": np.zeros(4, np.int64)}
    with pytest.raises(InputError, match="scores and labels"):
        run_operator("NegativeLogLikelihoodLoss", operands, opset=13, way="symbolic")
