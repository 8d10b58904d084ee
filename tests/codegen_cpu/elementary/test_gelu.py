"""gelu on the CPU, a function of its own: precision, what is not finite, what is recognized, independence of lanes."""

import math

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.elementary import gelu, gelu_by_tanh
from onnxc.compiler.codegen_cpu.exponential_forms import gelu_operand
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.decompose import decompose_block
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make

EPSILON = 2.0**-23
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _gelu_of(x: np.ndarray, form: str, target: Target | None = None) -> np.ndarray:
    dtype = {"float32": "f32", "float64": "f64"}[x.dtype.name]
    module = make([f"{dtype}[{x.size}]"], lambda ir, x: [ir.gelu(x, form)])
    (found,) = (Native(module) if target is None else Native(module, target))(x)
    assert (found.dtype, found.shape) == (x.dtype, x.shape)
    return found


def _exact(x: np.ndarray, form: str) -> np.ndarray:
    wide = x.astype(np.float64)
    if form == "none":
        return wide / 2 * _erfc(-wide / math.sqrt(2)).astype(np.float64)
    with np.errstate(over="ignore"):
        return wide / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("form", ["none", "tanh"])
def test_it_is_within_two_units_of_the_operand_and_has_digits_far_below_zero(form: str, target: Target) -> None:
    x = np.concatenate([np.linspace(-14, 14, 1 << 15), np.linspace(-1, 1, 1 << 15)]).astype(np.float32)
    found, exact = _gelu_of(x, form, target), _exact(x, form)
    assert (np.abs(found - exact) <= 2 * EPSILON * np.abs(x)).all()
    assert np.allclose(found[x > 0], exact[x > 0], rtol=2 * EPSILON, atol=0)
    far = (x < 0) & (x >= -9)
    assert np.allclose(found[far], exact[far], rtol=2.0**-12, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["none", "tanh"])
def test_zeros_infinities_and_nan(form: str, dtype: type[np.floating]) -> None:
    least, most = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, least, most, -most, 1e20, -1e20], dtype)
    expected = np.array([0.0, -0.0, np.inf, np.nan, np.nan, least / 2, most, -0.0, 1e20, -0.0], dtype)
    found = _gelu_of(x, form)
    assert np.array_equal(found, expected, equal_nan=True)
    is_zero = expected == 0
    assert np.array_equal(np.signbit(found[is_zero]), np.signbit(expected[is_zero]))


@pytest.mark.parametrize("size", [0, 1, 3, 17, 100])
@pytest.mark.parametrize("form", ["none", "tanh"])
def test_lanes_do_not_change_the_bits(form: str, size: int) -> None:
    x = np.linspace(-5, 5, size).astype(np.float32)
    alone = [_gelu_of(x[k : k + 1], form)[0] for k in range(size)]
    assert np.array_equal(_gelu_of(x, form), np.array(alone, np.float32))


def test_only_what_is_gelu_is_taken_for_it() -> None:
    def body(ir: Builder, x: Value, y: Value, wide: Value) -> list[Value]:
        def curve(inner: Value, gate: Value, half: float = 0.5, one: float = 1.0) -> Value:
            return ir.mul(ir.mul(gate, half), ir.add(inner, one))

        erf = ir.erf(ir.mul(x, math.sqrt(0.5)))
        cube = ir.mul(ir.mul(ir.mul(x, x), y), 0.044715)
        tanh = ir.tanh(ir.mul(ir.add(x, cube), 0.7978845608028654))
        others = [curve(erf, y), curve(erf, x, half=0.25), curve(erf, x, one=2.0), curve(tanh, x)]
        return [ir.gelu(x), ir.gelu(x, "tanh"), curve(erf, x), *others, curve(ir.erf(x), x), erf, ir.gelu(wide)]

    (function,) = make(["f32[4]", "f32[4]", "f64[4]"], body).functions
    block = decompose_block(function.body)
    x = block.parameters[0]
    assert [gelu_operand(value) for value in block.results] == [
        (x, gelu), (x, gelu_by_tanh), (x, gelu), *[None] * 7
    ]  # fmt: skip
