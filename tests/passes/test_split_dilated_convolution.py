"""Transposed convolutions become ordinary ones with the same results."""

from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, walk
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.lower.split_dilated_convolution import split_dilated_convolution


def transposed(
    filters: np.ndarray, spread: Sequence[int], low: Sequence[Dim], high: Sequence[Dim], groups: int, rank: int
) -> Module:
    """A module of one transposed convolution over an input of symbolic sizes."""
    ir = Builder()
    shape = (ir.fresh_symbol("N"), filters.shape[1] * groups, *(ir.fresh_symbol(f"S{axis}") for axis in range(rank)))
    x = ir.parameter("x", TensorType(F32, shape))
    ones = [1] * rank
    y = ir.convolution(x, ir.constant(filters), ones, low, high, ones, groups, spread)
    return Module("m", (Function("main", ir.block([x], [y]), ("y",), dict.fromkeys(ir.symbols.ranges, (0, None))),))


CASES = [
    ((4, 3, 2, 2), (2, 2), (1, 1), (1, 1), 1),
    ((4, 3, 3, 3), (2, 2), (1, 1), (1, 2), 1),
    ((4, 3, 3, 2), (2, 3), (2, 1), (2, 0), 1),
    ((6, 2, 4, 4), (2, 2), (2, 2), (2, 2), 3),
    ((2, 1, 1, 1), (3, 2), (0, 0), (0, 0), 1),
    ((4, 3, 5), (4,), (3,), (4,), 1),
    ((2, 2, 2, 3, 2), (2, 1, 3), (1, 2, 0), (1, 0, 2), 1),
]


@pytest.mark.parametrize(("shape", "spread", "low", "high", "groups"), CASES)
def test_the_results_stay(
    shape: tuple[int, ...], spread: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], groups: int
) -> None:
    rng = np.random.default_rng(0)
    filters = rng.integers(-4, 5, shape).astype(np.float32)
    before = transposed(filters, spread, low, high, groups, len(spread))
    after = split_dilated_convolution(before)
    convolutions = [op for op in walk(after.main.body) if op.name == "convolution"]
    assert [set(op.ints("input_dilations")) for op in convolutions] == [{1}]
    for batch, size in ((1, 3), (2, 4), (0, 3), (3, 7)):
        x = rng.integers(-4, 5, (batch, shape[1] * groups, *[size] * len(spread))).astype(np.float32)
        (expected,), (found,) = interpret(before, {"x": x}), interpret(after, {"x": x})
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.float32


def test_elements_that_are_far_apart_are_left_so() -> None:
    module = transposed(np.ones((2, 1, 1, 2), np.float32), (1, 1 << 31), (0, 1), (0, 1), 1, 2)
    assert split_dilated_convolution(module).main.body.ops == module.main.body.ops


def test_axes_in_another_order_are_left_so() -> None:
    ir = Builder()
    x, w = ir.parameter("x", TensorType(F32, (1, 4, 4, 2))), ir.constant(np.ones((3, 2, 2, 2), np.float32))
    y = ir.convolution(x, w, [1, 1], [1, 1], [1, 1], [1, 1], 1, [2, 2], dimensions="n01c,oi01->n01c")
    module = Module("m", (Function("main", ir.block([x], [y]), ("y",)),))
    assert split_dilated_convolution(module).main.body.ops == module.main.body.ops


def test_filters_that_are_data_are_left_alone() -> None:
    ir = Builder()
    x, w = (ir.parameter(name, TensorType(F32, (1, 2, 4, 4))) for name in "xw")
    y = ir.convolution(x, w, [1, 1], [1, 1], [1, 1], [1, 1], 1, [2, 2])
    module = Module("m", (Function("main", ir.block([x, w], [y]), ("y",)),))
    assert split_dilated_convolution(module).main.body.ops == module.main.body.ops
