"""Fourier transforms on a CPU: which have a kernel, and the memory that one needs."""

from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.place_buffers import aligned
from onnxc.compiler.target import Target

MOST_UNITS = 64
"""Units of work, each with memory for the lines it transforms at once: enough for any number of threads."""


def is_native(op: Op) -> bool:
    """Whether the roots are f32 or f64, and the signal is no wider."""
    x, roots = (operand.dtype for operand in op.operands)
    return roots in (F32, F64) and x in (F32, F64) and x.bits <= roots.bits


def lanes(computed: DType, target: Target) -> int:
    """How many lines are transformed at once."""
    return target.vector_bits // computed.bits


def units(op: Op, target: Target) -> Dim:
    """How many units of work there are."""
    x, roots = op.operands
    at_once = lanes(roots.dtype, target)
    return minimum(floordiv(product(x.shape[:-2]) + at_once - 1, at_once), MOST_UNITS)


def buffer_bytes(op: Op, target: Target) -> Dim:
    """The bytes of one buffer of a unit: real and imaginary parts of as many lines as are transformed at once."""
    roots = op.operands[1]
    element = 2 * lanes(roots.dtype, target) * roots.dtype.bits // 8
    return aligned(element * maximum(roots.shape[0], 1))
