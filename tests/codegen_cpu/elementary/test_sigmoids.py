"""Sigmoids and weights of a softmax on the CPU: functions of their own, whose steps are hardly ever subnormal."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.exponential_forms import sigmoid_operand, weight_exponent
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make

NORMAL = {np.float32: 2.0**-126, np.float64: 2.0**-1022}


def _sigmoid_of(x: np.ndarray, target: Target | None = None) -> np.ndarray:
    dtype = {"float32": "f32", "float64": "f64"}[x.dtype.name]
    module = canonicalize(make([f"{dtype}[{x.size}]"], lambda ir, x: [ir.sigmoid(x)]))
    (found,) = (Native(module) if target is None else Native(module, target))(x)
    assert (found.dtype, found.shape) == (x.dtype, x.shape)
    return found


def _exact(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x.astype(np.longdouble)))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_f32_is_as_near_as_its_steps(target: Target) -> None:
    x = np.linspace(-87.3, 104.0, 4097).astype(np.float32)
    assert np.allclose(_sigmoid_of(x, target), _exact(x).astype(np.float64), rtol=3 * 2.0**-23, atol=0)


def test_f64_is_as_near_as_its_steps() -> None:
    x = np.linspace(-708.3, 740.0, 1025)
    assert np.allclose(_sigmoid_of(x), _exact(x).astype(np.float64), rtol=4 * 2.0**-52, atol=0)


@pytest.mark.parametrize(("dtype", "ends"), [(np.float32, (-104.5, -86.0)), (np.float64, (-746.0, -706.0))])
def test_what_is_subnormal_is_zero_and_nothing_else_is(dtype: type, ends: tuple[float, float]) -> None:
    """But what an exponent rounds up to that of the least normal number: of x that is an interval of 0.35."""
    x = np.linspace(*ends, 1013).astype(dtype)
    found, exact = _sigmoid_of(x), _exact(x)
    nearly = NORMAL[dtype] / 2**0.5
    assert ((found == 0) | (found >= 0.99 * nearly)).all()
    assert (found[exact >= NORMAL[dtype]] > 0).all()
    assert (found[exact < 0.99 * nearly] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_infinities_and_nan(dtype: type) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, np.finfo(dtype).max, np.finfo(dtype).min], dtype)
    expected = np.array([0.5, 0.5, 1.0, 0.0, np.nan, 0.5, 1.0, 0.0], dtype)
    assert np.array_equal(_sigmoid_of(x), expected, equal_nan=True)
    assert not np.signbit(_sigmoid_of(x)[3])


@pytest.mark.parametrize("size", [0, 1, 3])
def test_of_few_elements(size: int) -> None:
    x = np.linspace(-1.0, 1.0, size).astype(np.float32)
    assert np.allclose(_sigmoid_of(x), _exact(x).astype(np.float64), rtol=3 * 2.0**-23, atol=0)


def test_its_exponential_may_be_a_result_too() -> None:
    def body(ir: Builder, x: Value) -> list[Value]:
        power = ir.exp(ir.neg(x))
        return [power, ir.mul(x, ir.div(1, ir.add(power, 1)))]

    x = np.array([-90.0, -1.0, 0.0, 1.0, 95.0], np.float32)
    power, gated = Native(canonicalize(make(["f32[5]"], body)))(x)
    with np.errstate(over="ignore"):
        assert np.allclose(power, np.exp(-x), rtol=3 * 2.0**-23, atol=1e-43)
    assert np.allclose(gated, (x * _exact(x)).astype(np.float64), rtol=4 * 2.0**-23, atol=2e-36)


def test_exponentials_below_a_maximum_are_weights() -> None:
    def body(ir: Builder, x: Value, y: Value) -> list[Value]:
        top, low = (ir.reduce(x, kind, [1], keepdims=True) for kind in ("max", "min"))
        guarded = [
            ir.select(ir.equal(top, test), other, top)
            for test, other in ((float("-inf"), 0.0), (float("-inf"), 3.0), (3.0, 0.0))
        ]
        return [ir.exp(ir.sub(x, top)), *(ir.exp(ir.sub(x, peak)) for peak in guarded), ir.exp(ir.sub(x, low)),
                ir.exp(ir.sub(y, top)), ir.exp(ir.sub(top, x)), ir.exp(x)]  # fmt: skip

    (function,) = make(["f32[4, 5]", "f32[4, 5]"], body).functions
    results = function.body.results
    exponents = [value.op.operands[0] for value in results if value.op is not None]
    assert [weight_exponent(value) for value in results] == [*exponents[:2], *[None] * 6]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_of_a_softmax_are_precise_down_to_the_least_normal_one(dtype: type) -> None:
    name = {np.float32: "f32", np.float64: "f64"}[dtype]
    native = Native(make([f"{name}[2000, 2]"], lambda ir, x: [ir.softmax(x, 1)]))
    x = np.stack([np.zeros(2000), -np.linspace(0, 87 if dtype == np.float32 else 708, 2000)], -1).astype(dtype)
    (found,) = native(x)
    powers = np.exp(x.astype(np.longdouble))
    error = np.abs(found[:, 1] / (powers[:, 1] / powers.sum(-1)) - 1)
    assert (error <= (3 - x[:, 1] / 20) * np.finfo(dtype).eps).all()
    low = np.array([[0, -89], [0, -np.inf], [-np.inf, -np.inf], [np.nan, 0], [0, -1e30]], dtype) * (
        1 if dtype == np.float32 else 9
    )
    expected = np.array([[1, 0], [1, 0], [np.nan, np.nan], [np.nan, np.nan], [1, 0]], dtype)
    assert np.array_equal(native(np.resize(low, (2000, 2)))[0], np.resize(expected, (2000, 2)), equal_nan=True)


def test_a_quotient_of_anything_else_is_none() -> None:
    def body(ir: Builder, x: Value, half: Value) -> list[Value]:
        power = ir.exp(ir.neg(x))
        return [
            *(ir.sigmoid(x), ir.div(2, ir.add(power, 1)), ir.div(1, ir.add(power, 2)), ir.div(1, ir.add(ir.exp(x), 1))),
            *(ir.div(1, ir.sub(power, 1)), ir.add(power, 1), ir.sigmoid(half)),
        ]

    (function,) = canonicalize(make(["f32[4]", "f16[4]"], body)).functions
    x, _ = function.body.parameters
    assert [sigmoid_operand(value) for value in function.body.results] == [x, *[None] * 6]
    assert sigmoid_operand(x) is None
