"""log and the inverse hyperbolic functions of f32.

x = 2^e m with sqrt(1/2) <= m < sqrt(2), so that log x = e ln 2 + log m and neither part cancels the other.
Source of the method: P. Tang, "Table-driven implementation of the logarithm function", ACM TOMS 16 (1990), without the
table; the split of the bits is that of FreeBSD's msun, e_logf.c.
"""

import math

from compiler.codegen_cpu.elementary.lanes import from_bits, multiply_add, polynomial, to_bits
from compiler.codegen_host.llvm_ir import FunctionBuilder
from compiler.codegen_host.llvm_values import Reg

# (log(1 + r) - r + r²/2) / r³, minimax on [sqrt(1/2) - 1, sqrt(2) - 1]: log(1 + r) within 2^-27.
_LOG = (
    0.3333333134651184, -0.2500081956386566, 0.2000124156475067, -0.1662341058254242,
    0.14201585948467255, -0.13159598410129547, 0.12762142717838287, -0.07636363059282303,
)  # fmt: skip

_SQRT_HALF_BITS = 0x3F3504F3
_LEAST_NORMAL = 2.0**-126


def log(f: FunctionBuilder, x: Reg) -> Reg:
    """The natural logarithm of each lane within 1 unit in the last place; log(±0) = -inf, NaN below 0 and of NaN."""
    is_subnormal = f.fcmp("olt", x, _LEAST_NORMAL)
    scaled = f.fmul(x, 2.0**23)
    bits = to_bits(f, f.select(is_subnormal, scaled, x))
    exponent = f.ashr(f.sub(bits, _SQRT_HALF_BITS), 23)
    r = f.fsub(from_bits(f, f.sub(bits, f.shl(exponent, 23))), 1.0)
    e = f.fadd(f.convert("sitofp", exponent, x.type), f.select(is_subnormal, f.constant(x.type, -23.0), 0.0))
    q = multiply_add(f, polynomial(f, r, _LOG), r, -0.5)
    result = multiply_add(f, e, math.log(2), multiply_add(f, f.fmul(r, r), q, r))
    # `scaled` is +inf or the quiet NaN where x is.
    result = f.select(f.fcmp("olt", x, math.inf), result, scaled)
    pole = f.select(f.fcmp("oeq", x, 0.0), f.constant(x.type, -math.inf), math.nan)
    return f.select(f.fcmp("ole", x, 0.0), pole, result)
