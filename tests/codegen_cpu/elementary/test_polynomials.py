"""Polynomials of any length, short and long ones, whose terms are added up in another order."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.elementary.lanes import long_polynomial, polynomial
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Reg
from onnxc.compiler.codegen_host.llvm_values import vector_type
from onnxc.compiler.target import Target
from tests.codegen_host.native import NATIVE_TARGETS, native

LANES = 4


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("count", [2, 3, 9, 10, 11, 12, 13, 16, 17])
def test_all_coefficients_count_once(count: int, target: Target) -> None:
    """Of integers so small that every sum and product is exact in f64, whatever the order is."""
    type, coefficients = vector_type("double", LANES), [float((7 * k) % 11 - 5) for k in range(count)]

    def body(f: FunctionBuilder, source: Reg, result: Reg) -> None:
        x = f.load(type, source)
        for place, form in enumerate((polynomial, long_polynomial)):
            f.store(form(f, x, coefficients), f.gep(result, place * LANES, "double"))

    x, result = np.array([0.0, -1.0, 2.0, -3.0]), np.empty((2, LANES))
    native(["ptr", "ptr"], body, target=target)(x.ctypes.data, result.ctypes.data)
    exact = [sum(int(c) * int(each) ** k for k, c in enumerate(coefficients)) for each in x]
    assert np.array_equal(result, [exact, exact])
