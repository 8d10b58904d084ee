"""Discrete Fourier transforms of lines of real numbers, or of pairs of real and imaginary parts."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.types import TensorType, Type


def _fourier(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[..., m, 1 or 2], roots: W[n, 2]  ->  T[..., n, 2], computed in W

    The signal along the axis before the last is cut, or filled up with zeros, to n. Row k of `roots` is the cosine and
    the sine of 2πk/n; other numbers have no meaning, and n is at least 1. `onesided`: of a real signal the bins up to
    n // 2 alone; inverse, what comes in are such bins, and what comes out is real, T[..., n, 1].
    """
    x, roots = tensors(operands)
    if x.rank < 2 or not x.dtype.is_float or x.known_shape[-1] not in (1, 2):
        raise TypeRuleError(f"{x} does not hold signals of 1 or 2 parts")
    if roots.rank != 2 or not roots.dtype.is_float or roots.known_shape[1] != 2:
        raise TypeRuleError(f"{roots} are not cosines and sines")
    inverse, onesided = (bool(attributes.get(name)) for name in ("inverse", "onesided"))
    if onesided and x.known_shape[-1] != (2 if inverse else 1):
        raise TypeRuleError(f"{x} has no one-sided transform")
    length = roots.known_shape[0]
    bins = floordiv(length, 2) + 1 if onesided and not inverse else length
    return (TensorType(x.dtype, (*x.known_shape[:-2], bins, 1 if onesided and inverse else 2)),)


def _lines(op: Op) -> tuple[AxisLink, ...]:
    return tuple(AxisLink("map", (axis, None), (axis,)) for axis in range(op.operands[0].rank - 2))


define(Primitive("fourier", "composite", _fourier, _lines, kernel=Anchor("fourier")))
