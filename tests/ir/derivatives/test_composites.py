"""Derivatives of composites, by their own rules and through their decompositions."""

import numpy as np
import pytest

from tests.ir.finite_differences import M, N, assert_gradients, gradients_at

RANDOM = np.random.default_rng(12)


def values(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape)


@pytest.mark.parametrize("name", ["softmax", "masked_softmax", "log_softmax"])
@pytest.mark.parametrize(("shape", "axis"), [((4,), 0), ((2, 3), 0), ((2, 3), 1), ((1,), 0), ((2, 0), 1)])
@pytest.mark.parametrize("order", [1, 2])
def test_softmax(name: str, shape: tuple[int, ...], axis: int, order: int) -> None:
    assert_gradients(lambda b, x: b.op(name, [x], {"axis": axis})[0], values(*shape), order=order)


@pytest.mark.parametrize("name", ["softmax", "masked_softmax", "log_softmax"])
def test_softmax_of_sizes_that_the_call_tells(name: str) -> None:
    assert_gradients(lambda b, x: b.op(name, [x], {"axis": 1})[0], values(2, 3), shapes=[(N, M)])


def test_a_row_that_is_masked_away_has_gradient_zero() -> None:
    x = np.array([[-np.inf, -np.inf], [-np.inf, 1.0]])
    (g,) = gradients_at(lambda b, x: b.square(b.masked_softmax(x, 1)), x)
    np.testing.assert_array_equal(g, np.zeros((2, 2)))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("order", [1, 2])
def test_gelu(approximate: str, order: int) -> None:
    assert_gradients(lambda b, x: b.gelu(x, approximate), values(2, 3) * 2, order=order)


@pytest.mark.parametrize("axis", [1, 2])
def test_normalisations(axis: int) -> None:
    x, scale, bias = values(2, 3, 2), values(*(2, 3, 2)[axis:]), values(*(2, 3, 2)[axis:])
    assert_gradients(lambda b, x, s, t: b.exp(b.layer_norm(x, s, t, axis, 1e-2)), x, scale, bias, tolerance=1e-5)
    assert_gradients(lambda b, x, s: b.exp(b.rms_norm(x, s, axis, 1e-2)), x, scale, tolerance=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("softcap", [0.0, 2.0])
@pytest.mark.parametrize("groups", [1, 2])
def test_attention(causal: bool, softcap: float, groups: int) -> None:
    q, k, v, mask = values(1, 2, 3, 2), values(1, groups, 3, 2), values(1, groups, 3, 4), values(1, 1, 3, 3)
    assert_gradients(lambda b, q, k, v, m: b.attention(q, k, v, m, 0.7, causal, softcap), q, k, v, mask, tolerance=1e-5)


def test_attention_of_a_value_with_itself() -> None:
    assert_gradients(lambda b, x: b.attention(x, x, x, None, 1.0), values(1, 1, 3, 2), tolerance=1e-5)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(interleaved: bool) -> None:
    assert_gradients(
        lambda b, x, c, s: b.rotary(x, c, s, interleaved), values(2, 3, 4), values(2, 3, 2), values(2, 3, 2)
    )
