"""Derivatives of pointwise primitives."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, I32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.pointwise import BINARY, UNARY
from tests.ir.finite_differences import M, N, assert_gradients, gradients_at
from tests.support.arrays import assert_close, assert_within

INTEGERS_ONLY = ("not", "and", "or", "xor", "shift_left", "shift_right")
RANDOM = np.random.default_rng(3)
INSIDE = RANDOM.uniform(0.2, 0.8, (2, 3)) * np.array([1, -1, 1])
POSITIVE = RANDOM.uniform(0.2, 3, (2, 3))
DOMAINS = {"sqrt": POSITIVE, "log": POSITIVE, "acosh": POSITIVE + 1.1}


@pytest.mark.parametrize("name", [name for name in UNARY if name not in INTEGERS_ONLY])
def test_functions_of_one_operand(name: str) -> None:
    assert_gradients(lambda b, x: b.unary(name, x), DOMAINS.get(name, INSIDE))


@pytest.mark.parametrize("name", [name for name in UNARY if name not in INTEGERS_ONLY])
def test_second_derivatives_of_functions_of_one_operand(name: str) -> None:
    assert_gradients(lambda b, x: b.unary(name, x), DOMAINS.get(name, INSIDE), order=2)


@pytest.mark.parametrize("name", [name for name in BINARY if name not in INTEGERS_ONLY])
@pytest.mark.parametrize("order", [1, 2])
def test_functions_of_two_operands(name: str, order: int) -> None:
    a, b = POSITIVE, RANDOM.uniform(0.5, 2, (2, 3)) * np.array([1, -1, 1])
    assert_gradients(lambda build, x, y: build.binary(name, x, y), a, b, order=order)


@pytest.mark.parametrize(
    ("left", "right"), [((), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 3), (1, 3)), ((1,), (1,))]
)
def test_operands_that_broadcast_get_sums(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = RANDOM.normal(0, 1, left), RANDOM.normal(0, 1, right)
    assert_gradients(lambda build, x, y: build.mul(build.add(x, y), y), a, b)


@pytest.mark.parametrize("sizes", [(1, 1), (3, 1), (1, 3), (3, 3), (0, 1), (1, 0), (0, 0)])
def test_a_broadcast_that_only_the_call_decides(sizes: tuple[int, int]) -> None:
    a, b = RANDOM.normal(0, 1, (2, sizes[0])), RANDOM.normal(0, 1, sizes[1])
    assert_gradients(lambda build, x, y: build.mul(x, build.exp(y)), a, b, shapes=[(2, N), (M,)])


def test_an_operand_that_is_used_twice_gets_both() -> None:
    (g,) = gradients_at(lambda b, x: b.mul(x, x), np.array([3.0, -2.0]))
    np.testing.assert_array_equal(g, [6, -4])


@pytest.mark.parametrize("name", ["max", "min"])
def test_equal_operands_of_an_extremum_share(name: str) -> None:
    a, b = gradients_at(lambda build, x, y: build.binary(name, x, y), np.array([1.0, 2, 3]), np.array([1.0, 3, 2]))
    winners = [0.5, 0, 1] if name == "max" else [0.5, 1, 0]
    np.testing.assert_array_equal(a, winners)
    np.testing.assert_array_equal(b, 1 - np.array(winners))


@pytest.mark.parametrize("name", ["abs", "sign", "floor", "ceil", "round"])
def test_what_steps_or_bends_at_zero_has_slope_zero_there(name: str) -> None:
    (g,) = gradients_at(lambda b, x: b.unary(name, x), np.array([0.0, -0.0]))
    np.testing.assert_array_equal(g, [0, 0])


def test_a_power_is_exact_at_zero() -> None:
    x, p = np.array([0.0, 0, 0, 0, -2, -2]), np.array([0.0, 1, 2, 3, 2, 3])
    gx, gp = gradients_at(lambda b, x, p: b.pow(x, p), x, p)
    np.testing.assert_array_equal(gx, [0, 1, 0, 0, -4, 12])
    np.testing.assert_array_equal(gp, [0, 0, 0, 0, np.nan, np.nan])


def test_a_branch_that_is_left_out_adds_no_nan() -> None:
    def guarded(build: Builder, x: Value) -> Value:
        positive = build.less(0, x)
        parts = [build.sqrt(x), build.log(x), build.div(1, x), build.pow(x, 0.5), build.exp(build.mul(x, -1e4))]
        total = parts[0]
        for part in parts[1:]:
            total = build.add(total, part)
        return build.select(positive, total, 0)

    (g,) = gradients_at(guarded, np.array([0.0, -1.0, 1.0]))
    assert_close(g, np.array([0, 0, 0.5 + 1 - 1 + 0.5]))


@pytest.mark.parametrize("x", [-1e4, -800.0, -1.0, 0.0, 1.0, 800.0, 1e4])
def test_a_sigmoid_is_flat_far_out(x: float) -> None:
    (g,) = gradients_at(lambda b, x: b.sigmoid(x), np.array([x]))
    expected = np.array([0.25 / np.cosh(min(abs(x), 700) / 2) ** 2])
    assert_within(
        g,
        expected,
        relative=1e-12,
        absolute=1e-300,
        why="what is expected is itself no nearer, and beyond 700 it is about 0",
    )


def test_a_gradient_of_zero_still_has_a_derivative() -> None:
    """(sqrt(x) - 2)^2 has slope 0 at 4, and curvature 1/8."""
    make = lambda b, x: b.square(b.sub(b.sqrt(x), 2))  # noqa: E731
    (curvature,) = assert_gradients(make, np.array([4.0]), order=2)
    assert curvature[0] != 0


def test_a_select_sends_each_element_to_its_source() -> None:
    assert_gradients(lambda b, x, y: b.select(b.less(x, y), b.mul(x, y), b.exp(y)), INSIDE, INSIDE[::-1].copy())


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_casts_between_floats_pass_through(dtype: DType) -> None:
    (g,) = gradients_at(lambda b, x: b.mul(b.cast(b.cast(x, dtype), x.dtype), 3), np.array([1.25, -0.0, 7.0]))
    np.testing.assert_array_equal(g, [3, 3, 3])


def test_integers_carry_nothing() -> None:
    (g,) = gradients_at(lambda b, x: b.mul(b.cast(b.cast(x, I32), x.dtype), x), np.array([2.5, -1.5]))
    np.testing.assert_array_equal(g, [2, -1])
