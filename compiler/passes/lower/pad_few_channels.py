"""Images of few channels are padded in memory, so that the taps of a line lie side by side with their channels.

The CPU's kernel sums runs of what lies side by side, and looks up where each begins. Three channels under each tap are
too few for that; seven taps of a line are a run of 21, where none of them can lie outside of the image.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Attribute, Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule

FEW_CHANNELS = 16
"""Runs of so many products hide what it takes to look up where they begin."""


def pad_few_channels(module: Module) -> Module:
    """Writes the padding of images of few channels before they are convolved."""
    return rewrite(module, [pad_first])


@rule("convolution")
def pad_first(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w) = convolution(pad(x, 0), w) without padding, where that makes the runs longer"""
    if not _gains(op):
        return None
    x, w = op.operands
    axes = parse_dimensions(op.text("dimensions")).x
    low, high = (axes.arranged(0, 0, op.dims(name)) for name in ("low", "high"))
    zeros = (0,) * (x.rank - 2)
    attributes: dict[str, Attribute] = {**op.attributes, "low": zeros, "high": zeros}
    return build.op("convolution", [_padded(x, low, high, build), w], attributes)[0]


def _gains(op: Op) -> bool:
    """Whether a line has several taps of few channels of floats, beside padding."""
    low, high, w = op.dims("low"), op.dims("high"), op.operands[1]
    labels = parse_dimensions(op.text("dimensions"))
    if not op.dtype().is_float or labels.result.order != labels.x.order:
        return False
    axes = parse_dimensions(op.text("dimensions")).w
    channels = w.shape[axes.input]
    if not low or op.int("groups") > 1 or not isinstance(channels, int) or channels >= FEW_CHANNELS:
        return False
    if w.shape[axes.spatial[-1]] == 1 or max(op.ints("input_dilations")) > 1 or op.ints("dilations")[-1] > 1:
        return False
    return (low[-1], high[-1]) != (0, 0) and all(at_least(size, 0) for size in (*low, *high))


def _padded(x: Value, low: Sequence[Dim], high: Sequence[Dim], build: Rewriter) -> Value:
    """`x` with zeros around it; of a view that only turns axes, what it is a view of is padded."""
    turned = made_by(x, "transpose")
    if turned is None:
        return _padded_lines(x, low, high, build)
    order = turned.ints("permutation")
    before, after = ([padding[order.index(axis)] for axis in range(x.rank)] for padding in (low, high))
    return build.transpose(build.pad(turned.operands[0], before, after), order)


def _padded_lines(x: Value, low: Sequence[Dim], high: Sequence[Dim], build: Rewriter) -> Value:
    """`x` with zeros around it; channels that lie last are one axis with the columns, as rows of them are too short."""
    if (low[-1], high[-1]) != (0, 0):
        return build.pad(x, low, high)
    channels = x.shape[-1]
    lines = build.reshape(x, (*x.shape[:-2], x.shape[-2] * channels))
    before, after = ((*padding[:-2], padding[-2] * channels) for padding in (low, high))
    sizes = [size + first + last for size, first, last in zip(x.shape, low, high, strict=True)]
    return build.reshape(build.pad(lines, before, after), sizes)
