"""Layout choice through normalisations of groups of channels: they read and write channels last, too.

A group, or a channel alone, is normalised over its pixels. Where channels lie last, the elements of a group are as many
neighbours as it has channels, at each pixel. Kernels that write as they read normalise it there, and nothing is moved.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.makers import made_by, splat_of
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.pointwise import is_widening
from onnxc.compiler.ir.rewriter import Rewriter, rule
from onnxc.compiler.passes.layout.choose_layout import lay_out
from onnxc.compiler.passes.layout.moved_layouts import layout_of

GROUPS_RANK = 3
"""The axes of [N, G, C/G * S], in which exporters normalise groups."""


def choose_layout_through_norms(module: Module) -> Module:
    """Puts the channels of convolutions last, also where groups of them are normalised in between."""
    return lay_out(module, (cast_before_joining, split_groups, normalize_as_pixels_lie))


@rule("cast")
def cast_before_joining(op: Op, build: Rewriter) -> Value | None:
    """cast(reshape(transpose(x))) = reshape(cast(transpose(x))) where only the reshape ends the way of the transpose"""
    joined = made_by(op.operands[0], "reshape")
    if joined is None or joined.result.rank != GROUPS_RANK or layout_of(joined.operands[0]) is None:
        return None
    (moved,) = build.op("cast", joined.operands, op.attributes)
    return build.with_shape(moved, op.result.shape)


@rule("layer_norm", "rms_norm")
def split_groups(op: Op, build: Rewriter) -> Value | None:
    """norm(reshape(x)) = reshape(norm(reshape(x))): x of [N, C, *S] was [N, G, C/G * S] and becomes [N, G, C/G, *S]"""
    x, *factors = op.operands
    joined = made_by(x, "reshape")
    if joined is None or op.int("axis") != 2 or x.rank != GROUPS_RANK or layout_of(joined.operands[0]) is None:
        return None
    image = joined.operands[0]
    batch, channels, *spatial = image.shape
    groups = x.shape[1]
    if x.shape[0] != batch or not isinstance(channels, int) or not isinstance(groups, int) or channels % groups:
        return None
    shape = (batch, groups, *(() if channels == groups else (channels // groups,)), *spatial)
    repeated = _repeated(factors, shape[2:], build)
    if repeated is None:
        return None
    normal = build.op(op.name, [build.with_shape(image, shape), *repeated], op.attributes)[0]
    return build.with_shape(normal, op.result.shape)


@rule("layer_norm", "rms_norm")
def normalize_as_pixels_lie(op: Op, build: Rewriter) -> Value | None:
    """norm(transpose(x)) = transpose(reshape(transpose(norm(transpose(reshape(x)))))) over [N, G, S, C/G, 1]

    x lies as [N, *S, G, C/G], or without C/G. The axis of size 1 keeps a reshape between the transposes of the result,
    so that the last one goes on its way alone.
    """
    x, *factors = op.operands
    layout = layout_of(x)
    if layout is None or op.int("axis") != 2 or layout.channels > 2:
        return None
    stored = layout.stored(x, build)
    first = layout.rank - layout.channels
    pixels, channels = product(stored.shape[1:first]), stored.shape[first:]
    repeated = _repeated(factors, (pixels, *channels[1:], 1), build)
    if repeated is None:
        return None
    order = (0, 2, 1, 3, 4)[: len(channels) + 3]
    rows = _turned(stored, (stored.shape[0], pixels, *channels, 1), order, build)
    normal = build.op(op.name, [rows, *repeated], op.attributes)[0]
    return layout.seen(build.with_shape(build.transpose(normal, order), stored.shape), build)


def _turned(x: Value, shape: Sequence[Dim], order: Sequence[int], build: Rewriter) -> Value:
    """A value in another shape and order of axes; it is widened behind that, as what is moved is read from memory."""
    reshape = made_by(x, "reshape")
    cast = (x if reshape is None else reshape.operands[0]).op
    if cast is None or not is_widening(cast):
        return build.transpose(build.with_shape(x, shape), order)
    return build.op("cast", [_turned(cast.operands[0], shape, order, build)], cast.attributes)[0]


def _repeated(factors: Sequence[Value], shape: Sequence[Dim], build: Rewriter) -> list[Value] | None:
    """The scale and the bias of a normalisation in another shape; None where they differ from element to element."""
    splats = [splat for factor in factors if (splat := splat_of(factor)) is not None]
    if len(splats) < len(factors):
        return None
    return [build.full(shape, splat, factor.dtype) for splat, factor in zip(splats, factors, strict=True)]
