"""Kernels that differ in numbers alone are one, but for numbers on which the code depends."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.planning.kernel_plan import segments_of
from onnxc.compiler.planning.plan import plan_kernels
from tests.codegen_cpu.support import HOST, Native, make
from tests.planning.plans import TARGET, plan

NUMBERS = (0.5, -0.0, 0.0, np.inf, np.nan, 3.4e38)


def _each(numbers: Sequence[float], build: Callable[[Builder, Value, float], Value], type: str = "f32[N, 5]") -> Module:
    """One kernel for each number, none of which reads what another made."""
    return make([type] * len(numbers), lambda ir, *xs: [build(ir, x, y) for x, y in zip(xs, numbers, strict=True)])


def _sigmoid_like(ir: Builder, x: Value, numerator: float, added: float = 1.0) -> Value:
    return ir.div(numerator, ir.add(ir.exp(ir.neg(x)), added))


def _kernels(module: Module) -> list[int]:
    made = plan_kernels(module, cpu_plan_target(HOST))
    return [launch.general.kernel for segment in segments_of(made.body.steps) for launch in segment.launches]


@pytest.mark.parametrize("name", ["add", "mul", "div", "min", "max", "pow"])
def test_numbers_of_any_kind_are_read_and_computed_with_as_before(name: str) -> None:
    native = Native(_each(NUMBERS, lambda ir, x, y: ir.binary(name, x, y)))
    assert _kernels(native.module) == [0] * len(NUMBERS)
    x = np.array([[-0.0, 1.5, np.nan, -np.inf, 2.0]] * 7, np.float32)
    results = native(*[x] * len(NUMBERS))
    for number, result in zip(NUMBERS, results, strict=True):
        (alone,) = Native(_each([number], lambda ir, x, y: ir.binary(name, x, y)))(x)
        assert (result.dtype, result.shape) == (np.float32, (7, 5))
        assert result.tobytes() == alone.tobytes(), (name, number)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_quantised_products_of_two_layers_are_one_kernel(rows: int) -> None:
    weights = [np.full((5, 5), index, np.float32) for index in (2, 3)]

    def build(ir: Builder, x: Value, scale: float) -> Value:
        product = ir.dot(x, ir.constant(weights[scale > 1]), "mk,kn->mn")
        return ir.max(ir.add(ir.unary("round", ir.div(product, scale)), 3 * scale), 0.0)

    native = Native(_each([0.25, 1.75], build))
    assert _kernels(native.module) == [0, 0]
    native.check(*[np.linspace(-3, 3, rows * 5).reshape(rows, 5).astype(np.float32)] * 2)


def test_numbers_that_are_equal_everywhere_stay_in_the_code() -> None:
    module = _each([2.0, 3.0], lambda ir, x, y: ir.add(ir.mul(x, y), 7.0))
    (kernel,) = plan_kernels(module, cpu_plan_target(HOST)).kernels
    assert sorted(parameter.rank for parameter in kernel.block.parameters) == [0, 2]
    assert "7.0" in str(kernel)


@pytest.mark.parametrize("name", ["div", "rem"])
@pytest.mark.parametrize("type", ["i32[N, 5]", "u8[N, 5]", "i64[]"])
def test_divisors_of_integers_stay_in_the_code(name: str, type: str) -> None:
    assert _kernels(_each([3, 10], lambda ir, x, y: ir.binary(name, x, y), type)) == [0, 1]
    assert _kernels(_each([3, 10], lambda ir, x, y: ir.binary(name, y, x), type)) == [0, 0]


def test_a_sigmoid_is_one_beside_what_differs_from_it_in_a_number() -> None:
    x = np.linspace(-100, 100, 35).astype(np.float32).reshape(7, 5)
    (alone,) = Native(_each([1.0], _sigmoid_like))(x)
    for others in (_each([1.0, 2.0], _sigmoid_like), _each([1.0, 2.0], lambda ir, x, y: _sigmoid_like(ir, x, 1.0, y))):
        assert _kernels(others) == [0, 1]
        assert Native(others)(x, x)[0].tobytes() == alone.tobytes()
    assert _kernels(_each([1.0, 1.0], _sigmoid_like)) == [0, 0]
    assert _kernels(_each([2.0, 3.0], _sigmoid_like)) == [0, 0]


def test_a_target_that_shares_none_has_a_kernel_for_each_number() -> None:
    module = _each([2.0, 3.0], lambda ir, x, y: ir.mul(x, y))
    assert len(plan(module, TARGET).kernels) == 2
    assert len(plan(module, replace(TARGET, shares_code=lambda op, ordinal: True)).kernels) == 1
    assert len(plan(module, replace(TARGET, shares_code=lambda op, ordinal: ordinal != 1)).kernels) == 2
