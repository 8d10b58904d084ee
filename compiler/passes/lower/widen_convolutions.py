"""Convolutions of 16-bit floats as those of f32: what is summed is the same, and kernels multiply f32 alone.

Values between convolutions are rounded to 16 bits where they are made, and lie there as the next one reads them.
"""

import numpy as np

from onnxc.compiler.ir.dtypes import BF16, F16, F32
from onnxc.compiler.ir.module import Attribute, Module, Op, Value
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule

HALVES = (F16, BF16)


def widen_convolutions(module: Module) -> Module:
    """Widens what convolutions of 16-bit floats read to f32."""
    return rewrite(module, [widen])


@rule("convolution")
def widen(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w) = convolution(f32(x), f32(w)), rounded to its type"""
    x, w = op.operands
    if not {x.dtype, w.dtype} & set(HALVES) or op.dtype() not in (F32, *HALVES):
        return None
    attributes: dict[str, Attribute] = {**op.attributes, "dtype": F32}
    (result,) = build.op("convolution", [_widened(operand, build) for operand in op.operands], attributes)
    return build.cast(result, op.dtype())


def _widened(value: Value, build: Rewriter) -> Value:
    array = build.known_array(value)
    return build.cast(value, F32) if array is None else build.constant(array.astype(np.float32))
