"""Powers of two for weights of a softmax: precision, what is not finite, and independence of lanes."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.elementary.exponential import normal_exp2
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Reg
from onnxc.compiler.codegen_host.llvm_values import vector_type
from onnxc.compiler.target import Target
from tests.codegen_host.native import NATIVE_TARGETS, native

ELEMENTS = {np.float32: "float", np.float64: "double"}
LEAST = {np.float32: -126, np.float64: -1022}


def powers(x: np.ndarray, lanes: int, target: Target) -> np.ndarray:
    element = ELEMENTS[x.dtype.type]
    type = vector_type(element, lanes)

    def body(f: FunctionBuilder, source: Reg, result: Reg, count: Reg) -> None:
        def several(i: Reg) -> None:
            f.store(normal_exp2(f, f.load(type, f.gep(source, i, element))), f.gep(result, i, element))

        f.loop(0, count, lanes, several)

    result = np.empty_like(x)
    native(["ptr", "ptr", "i64"], body, target=target)(x.ctypes.data, result.ctypes.data, x.size)
    return result


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_they_are_precise_down_to_the_least_normal_number(dtype: type, target: Target) -> None:
    x = np.concatenate([np.linspace(LEAST[dtype], 0, 4080), -(2.0 ** -np.arange(16))]).astype(dtype)
    units = np.abs(powers(x, 16, target) / np.exp2(x.astype(np.longdouble)) - 1) / np.finfo(dtype).eps
    assert units.max() < (1 if dtype == np.float32 else 2)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_what_is_below_is_zero_and_nan_stays(dtype: type, target: Target) -> None:
    low = LEAST[dtype]
    x = np.array([-np.inf, -1e30, 2 * low, low - 1, low - 0.75, np.nan, 0, -0.0], dtype)
    expected = np.array([0, 0, 0, 0, 0, np.nan, 1, 1], dtype)
    assert np.array_equal(powers(np.resize(x, 16), 16, target), np.resize(expected, 16), equal_nan=True)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_lanes_do_not_change_the_bits(dtype: type, target: Target) -> None:
    x = np.linspace(LEAST[dtype] * 1.1, 0, 4096).astype(dtype)
    x[:4] = np.arange(-4, 0) - 0.5
    results = [powers(x, lanes, target) for lanes in (1, 2, 4, 8, 16, 32, 64)]
    assert all(np.array_equal(result, results[0]) for result in results)
