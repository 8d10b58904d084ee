"""Composites as one expression: shorter than what the ops give that they are made of, and no less exact."""

from collections.abc import Callable, Mapping
from math import e, log2, pi, sqrt

from onnxc.compiler.codegen_gpu.source.scalars import emit_cast
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, SourceBuilder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Op

__all__ = ["COMPOSITES", "emit_composite"]

TAIL = (
    1.1511729955673218, 0.45877137780189514, 0.05351744592189789, -0.008222979493439198, 0.0008439072989858687,
    -4.976570562575944e-05, 1.248439957635128e-06,
)  # fmt: skip
"""-log2(erfc(x / sqrt(2))) / x, from the power 0 of x on, for x > 0; its last coefficient takes it to infinity.

Fitted so that gelu is 4e-7 from what it means at most, as near as 1 + erf in f32, and 0.2 % for x from -9 on, where 1 +
erf has no digit left below -5.5.
"""


def emit_composite(op: Op, x: Expr, b: SourceBuilder) -> Expr:
    """The result of a composite of one operand, which arrives as f32."""
    return emit_cast(COMPOSITES[op.name](op, x, b), F32, op.results[0].dtype, b)


def _gelu(op: Op, x: Expr, b: SourceBuilder) -> Expr:
    """x / 2 * (1 + erf(x / sqrt(2))), of which the factor is a power of 2 on one side, and 2 less that on the other."""
    if op.text("approximate") == "tanh":
        return _gelu_tanh(x, b)
    distance = b.let(f"tl.abs({x})", x.dims)
    power = b.let(repr(TAIL[-1]))
    for coefficient in reversed(TAIL[:-1]):
        power = b.let(f"tl.fma({power}, {distance}, {coefficient!r})", x.dims)
    tail = b.let(f"tl.exp2({power} * -{distance})", x.dims)
    factor = b.let(f"tl.where({x} > 0, 2.0 - {tail}, {tail})", x.dims)
    return b.let(f"{x} * 0.5 * {factor}", x.dims)


def _gelu_tanh(x: Expr, b: SourceBuilder) -> Expr:
    """x / 2 * (1 + tanh(y)) = x / (1 + exp(-2 y)), where y = sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    unit = -2 * sqrt(2 / pi) * log2(e)
    power = b.let(f"{x} * tl.fma({x} * {x}, {0.044715 * unit!r}, {unit!r})", x.dims)
    return b.let(f"{x} / (1.0 + tl.exp2({power}))", x.dims)


COMPOSITES: Mapping[str, Callable[[Op, Expr, SourceBuilder], Expr]] = {"gelu": _gelu}
"""By name, of an operand in f32."""
