"""Which values of a block are a product and a sum in f32 that are rounded once, though they are written in f64.

f64 holds the product of two numbers of f32, and rounds the sum so far behind f32 that this decides one result in 2^29.
"""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitive import PRIMITIVES

INSTRUCTION_SETS = frozenset(("fma", "neon"))
"""Those with the instruction; without it f64 takes less than a library call does."""

INTEGER_BITS = 16
"""Wider integers of the IR have 32 bits, of which f32 does not hold all."""


def rounded_once(value: Value) -> tuple[Value, Value, Value] | None:
    """x, y and z of which f32 holds all elements, whatever type they have, where `value` is x * y + z in f32."""
    narrowed = made_by(value, "cast") if value.dtype == F32 else None
    total = None if narrowed is None else made_by(narrowed.operands[0], "add")
    if total is None or total.results[0].dtype != F64:
        return None
    for product, term in (total.operands, total.operands[::-1]):
        factors = made_by(product, "mul")
        if factors is not None and all(map(_is_narrow, (*factors.operands, term))):
            x, y, z = map(_before_cast, (*factors.operands, term))
            return x, y, z
    return None


def emit_rounded_once(values: Sequence[Value], operands: Sequence[Reg], f: FunctionBuilder) -> Reg:
    """x * y + z in f32 of these values, in registers."""
    x, y, z = (emit_cast(operand, value.dtype, F32, f) for value, operand in zip(values, operands, strict=True))
    return f.fma(x, y, z)


def _before_cast(value: Value) -> Value:
    cast = made_by(value, "cast")
    return value if cast is None else cast.operands[0]


def _is_narrow(value: Value) -> bool:
    """Whether all elements of a value of f64 are numbers of f32."""
    while value.op is not None and PRIMITIVES[value.op.name].is_view:
        value = value.op.operands[0]
    op = value.op
    if op is None or op.name not in ("cast", "constant"):
        return False
    if op.name == "cast":
        return _fits(op.operands[0].dtype)
    array = op.array()
    return bool(np.array_equal(array, array.astype(np.float32).astype(np.float64), equal_nan=True))


def _fits(dtype: DType) -> bool:
    return dtype in (F32, F16, BF16) or (dtype.is_integer and dtype.bits <= INTEGER_BITS)
