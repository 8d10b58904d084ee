"""Random operators and Dropout: their distributions, and that they are the same on every call."""

import numpy as np
import pytest
from onnx import TensorProto

from onnxc.runtime.errors import ModelError
from tests.operators.tensor_operators import WAYS, run_operator
from tests.support.arrays import assert_same, assert_within

COUNT = 20000


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_uniform_values_fill_their_range(opset: int, dtype: type[np.generic]) -> None:
    element = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.float16: TensorProto.FLOAT16}[dtype]
    attributes = {"shape": [COUNT], "dtype": element, "low": -2.0, "high": 6.0, "seed": 3.0}
    (x,) = run_operator("RandomUniform", {}, opset=opset, **attributes)
    assert x.dtype == dtype
    assert -2 <= x.min() < -1.99
    assert 5.99 < x.max() <= 6
    quartiles = np.quantile(x.astype(np.float64), [0.25, 0.5, 0.75])
    assert_within(quartiles, np.array([0.0, 2, 4]), absolute=0.1, why=f"5 deviations of a quartile of {COUNT} draws")


@pytest.mark.parametrize("operator", ["RandomNormal", "RandomNormalLike"])
def test_normal_values_have_their_moments(operator: str) -> None:
    operands = {"x": np.zeros(COUNT, np.float32)} if operator.endswith("Like") else {}
    attributes = {} if operands else {"shape": [COUNT]}
    (x,) = run_operator(operator, operands, opset=22, mean=3.0, scale=2.0, seed=1.0, **attributes)
    assert x.dtype == np.float32
    assert abs(x.mean() - 3) < 0.05
    assert abs(x.std() - 2) < 0.05
    assert abs((x < 1).mean() - 0.1587) < 0.01


@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_like_takes_shape_and_type(way: str) -> None:
    (x,) = run_operator("RandomUniformLike", {"x": np.zeros((2, 0, 3), np.float64)}, opset=22, way=way)
    assert (x.shape, x.dtype) == ((2, 0, 3), np.float64)
    (x,) = run_operator("RandomUniformLike", {"x": np.zeros(2, np.int32)}, opset=22, way=way, dtype=TensorProto.FLOAT)
    assert (x.shape, x.dtype) == ((2,), np.float32)


def test_integers_have_no_random_values() -> None:
    with pytest.raises(ModelError, match="output-type"):
        run_operator("RandomNormalLike", {"x": np.zeros(2, np.int32)}, opset=22)


def test_shapes_have_no_negative_sizes() -> None:
    with pytest.raises(ModelError, match="random-shape"):
        run_operator("RandomNormal", {}, opset=22, shape=[2, -1])


def test_calls_agree_and_seeds_differ() -> None:
    first, second = (run_operator("RandomNormal", {}, opset=22, shape=[9])[0] for _ in range(2))
    assert_same(first, second)
    seeded = [run_operator("RandomNormal", {}, opset=22, shape=[9], seed=seed)[0] for seed in (1.0, 1.5)]
    assert (seeded[0] != seeded[1]).all()


@pytest.mark.parametrize("opset", [15, 22])
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_bernoulli(opset: int, probability: float) -> None:
    x = np.full(COUNT, probability, np.float32)
    (drawn,) = run_operator("Bernoulli", {"x": x}, opset=opset)
    assert drawn.dtype == np.float32
    assert set(np.unique(drawn)) <= {0.0, 1.0}
    assert abs(drawn.mean() - probability) < (0.02 if 0 < probability < 1 else 1e-9)
    (drawn,) = run_operator("Bernoulli", {"x": x}, opset=opset, dtype=TensorProto.BOOL)
    assert drawn.dtype == np.bool_


@pytest.mark.parametrize("opset", [7, 22])
def test_multinomial(opset: int) -> None:
    x = np.log(np.float32([[1, 2, 7], [1, 1, 0.001]]))
    (drawn,) = run_operator("Multinomial", {"x": x}, opset=opset, sample_size=COUNT)
    assert (drawn.shape, drawn.dtype) == ((2, COUNT), np.int32)
    shares = np.bincount(drawn[0], minlength=3) / COUNT
    assert_within(shares, np.array([0.1, 0.2, 0.7]), absolute=0.02, why=f"3 deviations of a share of {COUNT} draws")
    (drawn,) = run_operator("Multinomial", {"x": x}, opset=opset, dtype=TensorProto.INT64)
    assert (drawn.shape, drawn.dtype) == ((2, 1), np.int64)


def test_multinomial_takes_a_matrix() -> None:
    with pytest.raises(ModelError, match="multinomial-rank"):
        run_operator("Multinomial", {"x": np.zeros(3, np.float32)}, opset=22)


# Dropout

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("opset", "attributes", "mask"),
    [
        (1, {"is_test": 1}, np.float32),
        (6, {"is_test": 1}, np.float32),
        (7, {}, np.float32),
        (10, {}, np.bool_),
        (12, {}, np.bool_),
    ],
)
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_dropout_is_the_identity_in_inference(
    opset: int, attributes: dict[str, object], mask: type[np.generic], way: str
) -> None:
    output, kept = run_operator("Dropout", {"x": X}, opset=opset, way=way, outputs=2, **attributes)
    assert_same(output, X)
    assert_same(kept, np.ones(X.shape, mask))


@pytest.mark.parametrize(("ratio", "training"), [(0.5, False), (0.0, True)])
@pytest.mark.parametrize("opset", [12, 13, 22])
@pytest.mark.parametrize("way", WAYS)
def test_dropout_that_drops_nothing(ratio: float, training: bool, opset: int, way: str) -> None:
    operands = {"x": X, "ratio": np.array(ratio, np.float32), "training": np.array(training)}
    output, kept = run_operator("Dropout", operands, opset=opset, way=way, parameters=("ratio", "training"), outputs=2)
    assert_same(output, X)
    assert_same(kept, np.ones(X.shape, bool))


@pytest.mark.parametrize("way", WAYS)
def test_dropout_in_training_scales_what_it_keeps(way: str) -> None:
    x = np.ones(COUNT, np.float32)
    operands = {"x": x, "ratio": np.array(0.75, np.float32), "training": np.array(True)}
    output, kept = run_operator("Dropout", operands, opset=13, way=way, parameters=("ratio", "training"), outputs=2)
    assert_same(output, np.where(kept, np.float32(4), np.float32(0)))
    assert abs(kept.mean() - 0.25) < 0.02


# A state of the generator makes 312 draws.
@pytest.mark.parametrize(("seed", "shape"), [(7, (2, 3)), (7, ()), (0, (0,)), (7 + 2**32, (312,)), (-1, (5, 125))])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_a_seed_of_dropout_is_that_of_the_legacy_generator(seed: int, shape: tuple[int, ...], way: str) -> None:
    x = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    operands = {"x": x, "ratio": np.array(0.5, np.float32), "training": np.array(True)}
    output, kept = run_operator("Dropout", operands, opset=13, way=way, parameters=("training",), outputs=2, seed=seed)
    expected = np.asarray(np.random.RandomState(seed % 2**32).uniform(0, 1, shape) >= 0.5)
    assert_same(kept, expected)
    assert_same(output, np.where(expected, 2 * x, np.float32(0)))


def test_old_dropout_trains_unless_told() -> None:
    output, kept = run_operator("Dropout", {"x": np.ones(COUNT, np.float32)}, opset=6, outputs=2, ratio=0.5)
    assert_same(output, kept * np.float32(2))
    assert abs(kept.mean() - 0.5) < 0.02
