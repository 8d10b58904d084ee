"""Convolutions of one image whose results are added: one convolution by the sum of their filters.

Networks that are trained with branches (RepVGG, MobileOne, FastViT) are exported with these, too.
A smaller window is a larger one with zeros, where the padding of both agrees. Rounding happens after other steps.
"""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.makers import constant_of, is_constant, made_by, unbroadcast
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.notes import note_refusal
from onnxc.runtime.records import record

_SAME = ("strides", "dilations", "input_dilations", "groups", "dimensions", "dtype")
"""The attributes in which convolutions agree whose filters are added."""


def add_filters(module: Module) -> Module:
    """Makes one convolution of those of one image whose results are added."""
    return rewrite(module, [add_convolutions], note_refusal)


@record
class _Branch:
    """convolution + all offsets, which are constants, as are the filters."""

    convolution: Op
    filters: np.ndarray
    offsets: tuple[Value, ...]


@rule("add")
def add_convolutions(op: Op, build: Rewriter) -> Value | Refusal | None:
    """convolution(x, v) + a + convolution(x, w) + b = convolution(x, v + w) + a + b, with constants a, b, v and w"""
    first, second = (_branch(operand, build) for operand in op.operands)
    if first is None or second is None or not _agree(first.convolution, second.convolution):
        return None
    large, small = (first, second) if first.filters.size >= second.filters.size else (second, first)
    widened = _widened(small, large)
    if widened is None:
        return None
    offsets = _along_axes((*first.offsets, *second.offsets))
    with np.errstate(over="ignore"):
        filters, *summands = (
            array.astype(large.filters.dtype) for array in (large.filters + widened, *offsets.values())
        )
    if not all(np.isfinite(array.astype(np.float64)).all() for array in (filters, *summands)):
        return Refusal("a sum of filters or summands is not finite")
    x = large.convolution.operands[0]
    result = build.op("convolution", [x, build.constant(filters)], large.convolution.attributes)[0]
    for axes, summand in zip(offsets, summands, strict=True):
        result = build.add(result, build.broadcast(build.constant(summand), axes, result.shape))
    return result


def _branch(value: Value, build: Rewriter) -> _Branch | None:
    """The branch that ends in `value`, if nothing else reads any of it and it is of floats of 16 bits or more."""
    offsets: list[Value] = []
    source = value
    while (added := made_by(source, "add")) is not None and is_constant(added.operands[1]) and build.uses(source) == 1:
        source, offset = added.operands
        offsets.append(offset)
    convolution = made_by(source, "convolution")
    if convolution is None or build.uses(source) > 1:
        return None
    w = convolution.operands[1]
    filters = constant_of(w)
    is_wide = w.dtype.is_float and w.dtype.bits > 8 and w.dtype == source.dtype
    if filters is None or not is_wide or build.uses(w) > 1:
        return None
    return _Branch(convolution, filters, tuple(offsets))


def _along_axes(offsets: Sequence[Value]) -> dict[tuple[int, ...], np.ndarray]:
    """The sum of the constants that are along the same axes, in f64."""
    sums: dict[tuple[int, ...], np.ndarray] = {}
    for offset in offsets:
        source, axes = unbroadcast(offset)
        array = constant_of(source)
        assert array is not None, offset
        sums[axes] = np.asarray(sums.get(axes, 0) + array.astype(np.float64))
    return sums


def _agree(first: Op, second: Op) -> bool:
    return (
        first.operands[0] == second.operands[0]
        and first.result.type == second.result.type
        and all(first.attributes.get(name) == second.attributes.get(name) for name in _SAME)
    )


def _widened(small: _Branch, large: _Branch) -> np.ndarray | None:
    """The filters of `small` with zeros beside them, so that they meet the image as those of `large` do."""
    labels = parse_dimensions(large.convolution.text("dimensions")).w
    pads = [(0, 0)] * small.filters.ndim
    rows = zip(
        labels.spatial,
        *(branch.convolution.dims(side) for side in ("low", "high") for branch in (small, large)),
        large.convolution.ints("dilations"),
        strict=True,
    )
    for axis, low, wide_low, high, wide_high, dilation in rows:
        before, after = _steps(wide_low - low, dilation), _steps(wide_high - high, dilation)
        if before is None or after is None:
            return None
        pads[axis] = (before, after)
    widened = np.pad(small.filters.astype(np.float64), pads)
    return widened if widened.shape == large.filters.shape else None


def _steps(distance: object, dilation: int) -> int | None:
    """How many taps a distance is, if it is a whole number of them that is known."""
    return distance // dilation if isinstance(distance, int) and distance >= 0 and distance % dilation == 0 else None
