"""erf of f32.

Source of the form, x + x P(x²) near 0 and 1 - e^Q(|x|) beyond: N. Juffa, "erff", forums.developer.nvidia.com (2016);
here the second is 1 - 2^Q, which needs no reduction by ln 2.
"""

from compiler.codegen_cpu.elementary.exponential import EXP2, ROUNDING
from compiler.codegen_cpu.elementary.lanes import (
    absolute,
    at_most,
    from_bits,
    multiply_add,
    polynomial,
    to_bits,
    with_sign,
)
from compiler.codegen_host.llvm_ir import FunctionBuilder
from compiler.codegen_host.llvm_values import Reg

_SPLIT = 0.92

# erf(x) / x - 1 in x², minimax on [0, _SPLIT²]: erf within 2^-26.
_NEAR = (
    0.12837915122509003, -0.3761250078678131, 0.11281877011060715,
    -0.026768580079078674, 0.004995853640139103, -0.0006003800663165748,
)  # fmt: skip

# log2(1 - erf(x)) in x, minimax on [_SPLIT, 4]: erf within 2^-29.
_FAR = (
    -0.0002986994222737849, -1.6268222332000732, -0.9193805456161499, -0.14983271062374115,
    0.032012905925512314, -0.004376651253551245, 0.0002812449529301375,
)  # fmt: skip


def erf(f: FunctionBuilder, x: Reg) -> Reg:
    """erf of each lane within 2 units in the last place; erf(±inf) = ±1, -0.0 and NaN stay."""
    a = absolute(f, x)
    near = multiply_add(f, a, polynomial(f, f.fmul(a, a), _NEAR), a)
    return with_sign(f, f.select(f.fcmp("ogt", a, _SPLIT), _far(f, a), near), x)


def _far(f: FunctionBuilder, a: Reg) -> Reg:
    """erf between _SPLIT and infinity."""
    # From 3.92 on erf is 1.
    q = polynomial(f, at_most(f, a, 4.0), _FAR)
    shifted = f.fadd(q, ROUNDING + 127)
    fraction = f.fsub(q, f.fsub(shifted, ROUNDING + 127))
    scale = from_bits(f, f.shl(to_bits(f, shifted), 23))
    return multiply_add(f, f.fneg(polynomial(f, fraction, EXP2)), scale, 1.0)
