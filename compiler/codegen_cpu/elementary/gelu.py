"""gelu of f32, by a tail of the normal distribution or by tanh: one exponential for each.

The coefficients are a minimax fit of our own.
"""

from math import pi, sqrt

import numpy as np

from onnxc.compiler.codegen_cpu.elementary.exponential import normal_exp2, sigmoid
from onnxc.compiler.codegen_cpu.elementary.lanes import absolute, at_least, at_most, long_polynomial
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg

# log2(erfc(a / sqrt(2))) / a in a, for a > 0: erfc within 2^-24 of 1, up to 9 within 2^-12 of itself.
_TAIL = (
    -1.151107192039489746, -0.459187060594558716, -0.0525675006210803986, 0.00716600567102432251,
    -0.00020327055244706571, -0.000172150757862254977, 4.33250861533451825e-05, -5.11752296006307006e-06,
    3.1159004265646217e-07, -7.81182141196268276e-09,
)  # fmt: skip

_BOUND = 20.0
"""Here the probability of what lies beyond is 0, and has been for a while."""


def gelu(f: FunctionBuilder, x: Reg) -> Reg:
    """x / 2 (1 + erf(x / sqrt(2))) within 2 units in the last place of x, below -9 0 or nearly; NaN stays.

    x, or 0 where it is negative, less |x| times the probability of what lies beyond |x|, which 1 + erf has no digits of
    below -5.5. Chosen by the sign of x, f32[200704] took a Zen 5 33 us, and takes it 32; code for AVX2 77 and 70.
    """
    a = at_most(f, absolute(f, x), _BOUND)
    beyond = normal_exp2(f, long_polynomial(f, a, (-1.0, *_TAIL)))
    finite = at_most(f, x, float(np.finfo(np.float32).max))
    return f.multiply_add(f.fneg(absolute(f, finite)), beyond, at_least(f, x, -0.0))


def gelu_by_tanh(f: FunctionBuilder, x: Reg) -> Reg:
    """x / 2 (1 + tanh(y)) = x sigmoid(2 y) for y = sqrt(2 / pi) (x + 0.044715 x^3); NaN stays."""
    unit = 2 * sqrt(2 / pi)
    return f.fmul(x, sigmoid(f, f.fmul(x, f.multiply_add(f.fmul(x, x), 0.044715 * unit, unit))))
