"""In which precision an operator that is several primitives computes: 16-bit floats in f32, all else in itself."""

from collections.abc import Callable

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from onnxc.compiler.ir.module import Value


def wide_type(dtype: DType) -> DType:
    """f32 for a 16-bit float, else `dtype`."""
    return F32 if dtype in (F16, BF16) else dtype


def widened(x: Value, ir: Builder) -> Value:
    """`x` in its wide type, which holds it exactly."""
    return ir.cast(x, wide_type(x.dtype))


def in_wide(compute: Callable[[Value], Value], x: Value, ir: Builder) -> Value:
    """`compute(x)` in the type of `x`; of a 16-bit float in f32, rounded once at the end."""
    return ir.cast(compute(widened(x, ir)), x.dtype)


def softplus(x: Value, ir: Builder) -> Value:
    """log(1 + exp(x)), which does not overflow and keeps its digits where exp(x) is small.

    max(x, 0) + log1p(exp(-|x|)), where log1p(u) is log(w) * u / (w - 1), w = 1 + u, as the rounding of w cancels.
    Source: Goldberg, What every computer scientist should know about floating-point arithmetic, theorem 4.
    """
    u = ir.exp(ir.neg(ir.abs(x)))
    w = ir.add(u, 1)
    rounded = ir.sub(w, 1)
    is_lost = ir.equal(rounded, 0)
    precise = ir.div(ir.mul(ir.log(w), u), ir.select(is_lost, 1, rounded))
    return ir.add(ir.relu(x), ir.select(is_lost, u, precise))


def integer_bounds(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if dtype.is_signed:
        return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1
    return 0, (1 << dtype.bits) - 1


def real_type(dtype: DType) -> DType:
    """The float type in which functions with real results are computed for `dtype`: f64 for wide integers."""
    if dtype.is_float:
        return wide_type(dtype)
    return F32 if dtype.bits < 32 else F64
