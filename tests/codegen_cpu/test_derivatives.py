"""The derivative of every primitive, compiled, beside the interpreter: it is made of ops that have native kernels."""

import numpy as np
import pytest

from tests.codegen_cpu.support import HOST, Native
from tests.ir.cases import Case
from tests.ir.derivatives.test_every_case import DIFFERENTIABLE, gradient_module


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_a_derivative_is_what_the_interpreter_says(case: Case) -> None:
    module, names = gradient_module(case)
    native = Native(module, HOST)
    for sizes in case.sizes():
        binders = [np.zeros(sizes[name], np.bool_) for name in names]
        native.check(*case.arrays(sizes), *binders, bound=2e-5, reports=True)
