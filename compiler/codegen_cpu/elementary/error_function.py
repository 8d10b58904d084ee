"""erf of f32 and f64.

Source of the form, x + x P(x²) near 0 and 1 - e^Q(|x|) beyond: ROCm-Device-Libs, ocml/src/erfF.cl; here the second is
1 - 2^Q, which needs no reduction by ln 2. The coefficients are minimax fits of our own.
"""

from onnxc.compiler.codegen_cpu.elementary.exponential import EXP2
from onnxc.compiler.codegen_cpu.elementary.lanes import (
    absolute,
    as_exponent,
    at_most,
    format_of,
    long_polynomial,
    polynomial,
    to_bits,
    with_sign,
)
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg

# What errors there are on both sides of it is measured in tests/codegen_cpu/elementary/test_elementary.py.
_SPLIT = 0.92

# Here erf is 1 after rounding, and has been for a while.
_BOUND = {"float": 4.0, "double": 6.0}

# erf(x) / x - 1 in x², minimax on [0, _SPLIT²]: erf within 2^-25 and 2^-56.
_NEAR = {
    "float": (
        0.12837915122509003, -0.3761250078678131, 0.11281877011060715, -0.026768580079078674, 0.004995853640139103,
        -0.0006003800663165748,
    ),
    "double": (
        0.1283791670955126, -0.37612638903184054, 0.11283791670967727, -0.026866170647183513, 0.005223977642417012,
        -0.0008548327824412893, 0.00012055355459764469, -1.4926013655490086e-05, 1.6464754698579623e-06,
        -1.63548335880956e-07, 1.4419755099652254e-08, -9.242881123354952e-10,
    ),
}  # fmt: skip

# log2(1 - erf(x)) in x, minimax on [_SPLIT, _BOUND]: erf within 2^-29 and 2^-58.
_FAR = {
    "float": (
        -0.0002986994222737849, -1.6268222332000732, -0.9193805456161499, -0.14983271062374115, 0.032012905925512314,
        -0.004376651253551245, 0.0002812449529301375,
    ),
    "double": (
        -1.2756388118994167e-07, -1.627905682822814, -0.9184547269161035, -0.14825022867461407, 0.027558251140338063,
        0.00035454876282029905, -0.002496258297414496, 0.0008764301136166879, -3.125987228656391e-05,
        -0.00011980990034990032, 7.297120741835622e-05, -2.6607982808172754e-05, 7.008426641352089e-06,
        -1.3914043033073895e-06, 2.0822762573987763e-07, -2.289377348281289e-08, 1.7495459091524265e-09,
        -8.310554258935262e-11, 1.848263117986112e-12,
    ),
}  # fmt: skip


def erf(f: FunctionBuilder, x: Reg) -> Reg:
    """erf of each lane within 2 units in the last place; |erf| <= 1, erf(±inf) = ±1, -0.0 and NaN stay."""
    a = absolute(f, x)
    near = f.multiply_add(a, long_polynomial(f, f.fmul(a, a), _NEAR[x.element]), a)
    return with_sign(f, f.select(f.fcmp("ogt", a, _SPLIT), _far(f, a), near), x)


def _far(f: FunctionBuilder, a: Reg) -> Reg:
    """erf between _SPLIT and infinity."""
    format = format_of(a)
    q = long_polynomial(f, at_most(f, a, _BOUND[a.element]), _FAR[a.element])
    rounding = format.rounding + format.bias
    shifted = f.fadd(q, rounding)
    u = f.fsub(q, f.fsub(shifted, rounding))
    complement = polynomial(f, u, EXP2[a.element])
    return f.multiply_add(f.fneg(complement), as_exponent(f, to_bits(f, shifted)), 1.0)
