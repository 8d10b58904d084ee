"""Resize and Upsample: tensors resampled to other sizes, which scales or sizes give.

The length of a scaled axis is floor(size * scale), multiplied in f32; a region of interest does not change it, as in
onnx's own shape inference.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import inf

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.resampling import Region, ResizedAxis, Sampling, resample
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_vector, element, of_shape, read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F32, F64, I64
from onnxc.compiler.ir.module import Value

# A size times a scale has a closed form where the scale's denominator is no larger: in f32 too the product is exact, as
# long as f32 holds the size.
DENOMINATOR = 64
# The call finds that there is no size as large as this.
BEYOND_SIZES = 1e38

TRANSFORMS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
# version of Resize: what it has besides
MORE_TRANSFORMS = {11: ("tf_half_pixel_for_nn",), 19: ("half_pixel_symmetric",)}
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
POLICIES = ("stretch", "not_larger", "not_smaller")


@operator("Upsample", since=(1,))
def upsample_plane(node: Node, ir: Builder) -> Value:
    """X: T[N, C, H, W]  ->  T[N, C, H * height_scale, W * width_scale]

    Source: https://onnx.ai/onnx/operators/onnx__Upsample.html
    """
    x = node.input("X")
    if x.rank != 4:
        node.fail("upsample-rank", f"X has rank {x.rank}, not 4", rule="ONNX Upsample, X")
    scales = np.array([node.float("height_scale"), node.float("width_scale")], np.float32)
    mode = {"nearest": "nearest", "bilinear": "linear"}[node.choice("mode", ("nearest", "bilinear"))]
    return resample(x, _scaled(x, (2, 3), ir.constant(scales), (None, None), node, ir), Sampling(mode), node, ir)


@operator("Upsample", since=(7,))
def upsample_by_attribute(node: Node, ir: Builder) -> Value:
    """X: T[d...]  ->  T[d * scale ...], scales an attribute.

    Source: https://onnx.ai/onnx/operators/onnx__Upsample.html
    """
    x, scales = node.input("X"), np.array(node.floats("scales"), np.float32)
    return _by_scales(x, ir.constant(scales), node, ir)


@operator("Upsample", since=(9, 10))
@operator("Resize", since=(10,))
def resize_by_scales(node: Node, ir: Builder) -> Value:
    """X: T[d...], scales: f32[r]  ->  T[d * scale ...]

    Source: https://onnx.ai/onnx/operators/onnx__Resize.html
    """
    return _by_scales(node.input("X"), node.input("scales"), node, ir)


def _by_scales(x: Value, scales: Value, node: Node, ir: Builder) -> Value:
    sampling = Sampling(node.choice("mode", ("nearest", "linear")))
    return resample(x, _scaled(x, range(x.rank), scales, [None] * x.rank, node, ir), sampling, node, ir)


@operator("Resize", since=(11, 13, 18, 19))
def resize(node: Node, ir: Builder) -> Value:
    """X: T1[d...], roi: T2[2n]?, scales: f32[n]?, sizes: i64[n]?  ->  T1[...], n = r or the number of `axes`.

    Source: https://onnx.ai/onnx/operators/onnx__Resize.html
    """
    x = node.input("X")
    axes = node.axes_list(node.ints("axes", range(x.rank)), x.rank)
    scales, sizes = _given("scales", node), _given("sizes", node)
    node.choice("keep_aspect_ratio_policy", POLICIES, "stretch")
    sampling = _sampling(node)
    regions = _regions(len(axes), sampling, node, ir)
    if scales is not None and sizes is None:
        resized = _scaled(x, axes, scales, regions, node, ir)
    elif sizes is not None and scales is None:
        resized = _sized(x, axes, sizes, regions, node, ir)
    else:
        for value in (scales, sizes):
            if value is not None and value.rank == 1 and not isinstance(value.shape[0], int):
                node.split_by_size(value, 0, "whether scales or sizes are given is only known at run time")
        given = "neither" if scales is None else "both"
        node.fail("resize-target", f"{given} of scales and sizes is given", rule="ONNX Resize, scales and sizes")
    return resample(x, resized, sampling, node, ir)


def _given(name: str, node: Node) -> Value | None:
    """An optional input; an empty tensor is as good as none."""
    value = node.optional(name)
    return None if value is None or value.shape == (0,) else value


def _sampling(node: Node) -> Sampling:
    transforms, elsewhere = TRANSFORMS + MORE_TRANSFORMS.get(node.since, ()), sum(MORE_TRANSFORMS.values(), ())
    transform = node.choice("coordinate_transformation_mode", transforms, elsewhere=elsewhere)
    mode, antialias = node.choice("mode", ("nearest", "linear", "cubic")), node.flag("antialias", False)
    if antialias and mode == "nearest":
        node.fail("resize-antialias", "mode nearest has no antialias", rule="ONNX Resize, attribute antialias")
    return Sampling(
        mode,
        transform,
        node.choice("nearest_mode", NEAREST_MODES),
        node.float("cubic_coeff_a"),
        node.flag("exclude_outside"),
        antialias,
        node.float("extrapolation_value") if transform == "tf_crop_and_resize" else None,
    )


def _regions(count: int, sampling: Sampling, node: Node, ir: Builder) -> Sequence[Region | None]:
    """The normalised region of interest of each axis, where the coordinates depend on it."""
    if sampling.transform != "tf_crop_and_resize":
        return [None] * count
    roi = _given("roi", node)
    if roi is None:
        node.fail("resize-region", "roi is absent, which tf_crop_and_resize takes", rule="ONNX Resize, roi")
    wide = ir.cast(of_shape(roi, (2 * count,), "roi", node, ir, "resize-region"), F64)
    return [(element(wide, ordinal, ir), element(wide, count + ordinal, ir)) for ordinal in range(count)]


# Scales


def _scaled(
    x: Value, axes: Sequence[int], scales: Value, regions: Sequence[Region | None], node: Node, ir: Builder
) -> list[ResizedAxis]:
    """The axes that change, by `scales`."""
    scales = of_shape(scales, (len(axes),), "scales", node, ir, "resize-lengths")
    known = ir.known_array(scales)
    ratios = [None] * len(axes) if known is None else [float(scale) for scale in known]
    if any(ratio is not None and not 0 < ratio < inf for ratio in ratios):
        node.fail(
            "resize-scale", f"scales are {ratios}, not all finite and above 0", rule=f"ONNX {node.operator}, scales"
        )
    if node.operator == "Upsample" and any(ratio is not None and ratio < 1 for ratio in ratios):
        node.fail("resize-scale", f"scales are {ratios}, not all at least 1", rule="ONNX Upsample, scales")
    lengths = _scaled_lengths(x, axes, scales, ratios, node, ir)
    resized, wide = [], ir.cast(scales, F64)
    for ordinal, axis in enumerate(axes):
        if ratios[ordinal] != 1 or regions[ordinal] is not None:
            size, scale = x.shape[axis], element(wide, ordinal, ir)
            width = ir.mul(scale, ir.cast(ir.size(size), F64))
            resized.append(ResizedAxis(axis, size, lengths[ordinal], scale, width, ratios[ordinal], regions[ordinal]))
    return resized


def _scaled_lengths(
    x: Value, axes: Sequence[int], scales: Value, ratios: Sequence[float | None], node: Node, ir: Builder
) -> list[Dim]:
    """floor(size * scale): in closed form where the scale is a simple fraction, else computed by the call."""
    lengths = [_scaled_length(x.shape[axis], ratio) for axis, ratio in zip(axes, ratios, strict=True)]
    if all(length is not None for length in lengths):
        return [length for length in lengths if length is not None]
    sizes = ir.cast(ir.sizes([x.shape[axis] for axis in axes]), F32)
    products = ir.cast(ir.floor(ir.mul(sizes, ir.cast(scales, F32))), I64)
    bound = read_lengths(products, "scaled size", node, ir)
    return [dim if known is None else known for dim, known in zip(bound, lengths, strict=True)]


def _scaled_length(size: Dim, ratio: float | None) -> Dim | None:
    if ratio is None:
        return None
    if isinstance(size, int) and float(size) * ratio >= BEYOND_SIZES:
        return None
    exact = Fraction(ratio)
    if exact.denominator <= DENOMINATOR:
        return floordiv(size * exact.numerator, exact.denominator)
    return int(np.floor(np.float32(size) * np.float32(ratio))) if isinstance(size, int) else None


# Sizes


def _sized(
    x: Value, axes: Sequence[int], sizes: Value, regions: Sequence[Region | None], node: Node, ir: Builder
) -> list[ResizedAxis]:
    """The axes that change, to `sizes` or, by the policy, to what keeps their proportions."""
    sizes = of_shape(sizes, (len(axes),), "sizes", node, ir, "resize-lengths")
    lengths = read_lengths(sizes, "sizes", node, ir, code="resize-size")
    policy = node.choice("keep_aspect_ratio_policy", POLICIES, "stretch")
    if policy != "stretch":
        return _in_proportion(x, axes, sizes, policy, regions, node, ir)
    resized = []
    for ordinal, axis in enumerate(axes):
        size, length = x.shape[axis], lengths[ordinal]
        if size != length or regions[ordinal] is not None:
            width = ir.cast(ir.size(length), F64)
            scale = ir.div(width, ir.cast(ir.size(size), F64))
            resized.append(ResizedAxis(axis, size, length, scale, width, _ratio(length, size), regions[ordinal]))
    return resized


def _ratio(length: Dim, size: Dim) -> float | None:
    return length / size if isinstance(length, int) and isinstance(size, int) and size else None


def _in_proportion(
    x: Value,
    axes: Sequence[int],
    sizes: Value,
    policy: str,
    regions: Sequence[Region | None],
    node: Node,
    ir: Builder,
) -> list[ResizedAxis]:
    """One scale for all axes: the least or greatest that an axis asks for; lengths are rounded, halves up."""
    before = ir.cast(ir.sizes([x.shape[axis] for axis in axes]), F64)
    after = ir.cast(as_vector(sizes, "sizes", node, ir), F64)
    scale = ir.reduce(ir.div(after, before), "min" if policy == "not_larger" else "max", (0,))
    widths = ir.mul(before, scale)
    lengths = _proportional_lengths(x, axes, sizes, policy, ir)
    if lengths is None:
        rounded = ir.cast(ir.floor(ir.add(widths, 0.5)), I64)
        lengths = read_lengths(rounded, "sizes", node, ir)
    return [
        ResizedAxis(axis, x.shape[axis], lengths[ordinal], scale, element(widths, ordinal, ir), None, regions[ordinal])
        for ordinal, axis in enumerate(axes)
    ]


def _proportional_lengths(
    x: Value, axes: Sequence[int], sizes: Value, policy: str, ir: Builder
) -> tuple[Dim, ...] | None:
    """The lengths where all sizes are integers."""
    before, after = [x.shape[axis] for axis in axes], ir.known(sizes) or ()
    pairs = [(b, a) for b, a in zip(before, after, strict=False) if isinstance(b, int) and isinstance(a, int) and b > 0]
    if len(pairs) != len(axes):
        return None
    choose = min if policy == "not_larger" else max
    scale = choose(Fraction(a, b) for b, a in pairs)
    return tuple(int(scale * b + Fraction(1, 2)) for b, _ in pairs)
