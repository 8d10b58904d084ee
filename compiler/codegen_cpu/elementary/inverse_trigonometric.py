"""asin, acos and atan of f32.

Sources: S. Moshier, Cephes 2.8, single/asinf.c and atanf.c, for the forms; ROCm-Device-Libs, ocml, atan of float, for
π/2 as the product of two floats in an fma. The coefficients and factors are our own.
"""

from onnxc.compiler.codegen_cpu.elementary.lanes import absolute, polynomial, rounded_once, with_sign
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg

# (asin(x) / x - 1) / x² in x², minimax on [0, 0.55²]: asin within 2^-29.
_ASIN = (
    0.1666664034128189, 0.07501626759767532, 0.04431099817156792,
    0.03344330936670303, 0.008578225038945675, 0.04529273882508278,
)  # fmt: skip

# A little above 1/2, so that an arc that is doubled is below 1/2 and its rounding error half of one above.
_ASIN_SPLIT = 0.55

# (atan(x) / x - 1) / x² in x², minimax on [0, 1]: atan within 2^-25.
_ATAN = (
    -0.33333152532577515, 0.19993767142295837, -0.14211003482341766, 0.10665787756443024,
    -0.07551740854978561, 0.043206289410591125, -0.016364576295018196, 0.0029198830015957355,
)  # fmt: skip

# Their product is π/2 within 2^-45; a sum with it rounds once.
_HALF_PI = (1.6832555532455444, 0.9331894516944885)


def asin(f: FunctionBuilder, x: Reg) -> Reg:
    """asin of each lane within 2 units in the last place; NaN beyond ±1, -0.0 and NaN stay."""
    a = absolute(f, x)
    is_far = f.fcmp("ogt", a, _ASIN_SPLIT)
    arc = _short_arc(f, a, is_far)
    far = rounded_once(f, f.constant(x.type, _HALF_PI[0]), _HALF_PI[1], f.fmul(arc, -2.0))
    return with_sign(f, f.select(is_far, far, arc), x)


def acos(f: FunctionBuilder, x: Reg) -> Reg:
    """acos of each lane within 2 units in the last place; NaN beyond ±1, NaN stays."""
    a = absolute(f, x)
    is_far = f.fcmp("ogt", a, _ASIN_SPLIT)
    arc = _short_arc(f, a, is_far)
    # π/2 - arc, or 2 arc; for x < 0 they are π/2 + arc and π - 2 arc.
    signed = f.select(is_far, f.fmul(arc, 2.0), f.fneg(arc))
    is_negative = f.fcmp("olt", x, 0.0)
    signed = f.select(is_negative, f.fneg(signed), signed)
    far_base = f.select(is_negative, f.constant(x.type, 2 * _HALF_PI[1]), 0.0)
    return rounded_once(f, f.select(is_far, far_base, _HALF_PI[1]), _HALF_PI[0], signed)


def _short_arc(f: FunctionBuilder, a: Reg, is_far: Reg) -> Reg:
    """asin(a), or asin(sqrt((1 - a) / 2)), which is half of acos(a), where `is_far`."""
    square = f.select(is_far, f.multiply_add(a, -0.5, 0.5), f.fmul(a, a))
    sine = f.select(is_far, f.intrinsic("llvm.sqrt.*", a.type, square), a)
    return f.multiply_add(f.fmul(square, sine), polynomial(f, square, _ASIN), sine)


def atan(f: FunctionBuilder, x: Reg) -> Reg:
    """atan of each lane within 2 units in the last place; atan(±inf) = ±π/2, -0.0 and NaN stay."""
    a = absolute(f, x)
    is_far = f.fcmp("ogt", a, 1.0)
    # atan(a) = π/2 + atan(-1 / a)
    t = f.fdiv(f.select(is_far, -1.0, a), f.select(is_far, a, 1.0))
    square = f.fmul(t, t)
    arc = f.multiply_add(f.fmul(square, t), polynomial(f, square, _ATAN), t)
    far = rounded_once(f, f.constant(x.type, _HALF_PI[0]), _HALF_PI[1], arc)
    return with_sign(f, f.select(is_far, far, arc), x)
