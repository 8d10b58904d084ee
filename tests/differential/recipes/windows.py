"""Convolutions and pooling: windows that slide over spatial axes."""

from math import prod

import numpy as np

from tests.differential.draw import Draw, Parameter, Parts, i64
from tests.differential.recipes.registry import recipe


def sliding(d: Draw, kernel: list[int], *, valid: bool = True) -> tuple[dict[str, object], list[int]]:
    """Attributes of a window, and sizes of the spatial axes that it fits into."""
    rank = len(kernel)
    named: dict[str, object] = {}
    strides = [d.int(1, 3) for _ in kernel]
    dilations = [d.int(1, 2) for _ in kernel]
    named |= {} if d.flag(0.3) else {"strides": strides}
    if d.has("dilations") and d.flag(0.4):
        named["dilations"] = dilations
    else:
        dilations = [1] * rank
    reach = [(k - 1) * dilation + 1 for k, dilation in zip(kernel, dilations, strict=True)]
    if d.flag(0.6):
        named["pads"] = [d.int(0, max(min(2, kernel[i % rank] - 1), 0)) for i in range(2 * rank)]
        if d.flag(0.3):
            named["auto_pad"] = "NOTSET"
    elif d.flag():
        # SAME_* of a dilated window is drawn too: the text of the operators defines it.
        named["auto_pad"] = d.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return named, [r + d.int(0, 5) for r in reach]


def kernel_sizes(d: Draw, rank: int) -> list[int]:
    return [d.int(1, 3) for _ in range(rank)]


@recipe("Conv", "ConvInteger", "QLinearConv")
def conv(d: Draw) -> Parts:
    rank = d.pick([1, 2, 2, 3])
    kernel = kernel_sizes(d, rank)
    named, spatial = sliding(d, kernel)
    groups = d.pick([1, 1, 2, 3])
    each = d.int(1, 3)
    out = groups * d.int(1, 3)
    if d.flag(0.2):
        groups, each, out = d.int(2, 4), 1, 0
        out = groups * d.int(1, 2)
    x_shape, w_shape = (d.pick([0, 1, 2, 2]), groups * each, *spatial), (out, each, *kernel)
    if groups > 1 or d.flag(0.3):
        named["group"] = groups
    if d.flag():
        named["kernel_shape"] = kernel
    if d.schema.name == "Conv":
        bias = [Parameter(d.tensor("T", (out,)))] if d.flag() else []
        return Parts(
            [d.tensor("T", x_shape, -3, 3), Parameter(d.tensor("T", w_shape, -3, 3)), *bias], named, accumulates=True
        )
    x, w = d.tensor("T1", x_shape, -128, 255), d.tensor("T2", w_shape, -128, 255)
    zero = Parameter(d.tensor("T1", (), -5, 200))
    per_channel = d.flag(0.4)
    w_zero = Parameter(d.tensor("T2", (out,) if per_channel else (), -5, 5))
    if d.schema.name == "ConvInteger":
        return Parts([x, w, *([zero, w_zero] if d.flag(0.6) else [zero] if d.flag() else [])], named)
    scales = [
        Parameter(d.tensor("float", (), 0.01, 0.05)),
        Parameter(d.tensor("float", (out,) if per_channel else (), 0.01, 0.05)),
        Parameter(d.tensor("float", (), 0.5, 2)),
    ]
    if per_channel:
        w_zero = Parameter(np.zeros(out, w.dtype))
    bias = [Parameter(d.tensor("int32", (out,), -500, 500))] if d.flag() else []
    return Parts(
        [x, scales[0], zero, Parameter(w), scales[1], w_zero, scales[2], Parameter(d.tensor("T3", (), 0, 100)), *bias],
        named,
    )


@recipe("ConvTranspose")
def conv_transpose(d: Draw) -> Parts:
    rank = d.pick([1, 2, 2, 3])
    kernel = kernel_sizes(d, rank)
    named, _ = sliding(d, kernel)
    spatial = [d.int(1, 4) for _ in kernel]
    strides = named.get("strides", [1] * rank)
    groups = d.pick([1, 1, 2])
    each_in, each_out = d.int(1, 3), d.int(1, 3)
    if groups > 1:
        named["group"] = groups
    if d.flag():
        named["kernel_shape"] = kernel
    dilations = named.get("dilations", [1] * rank)
    if d.flag(0.3):
        padding = [d.int(0, max(s, 1) - 1) for s in strides]
        named["output_padding"] = padding
    if d.flag(0.2) and "auto_pad" not in named:
        named.pop("pads", None)
        named.pop("output_padding", None)
        full = [s * (n - 1) + (k - 1) * di + 1 for s, n, k, di in zip(strides, spatial, kernel, dilations, strict=True)]
        named["output_shape"] = [max(f - d.int(0, 2), 1) for f in full]
    for i in range(rank):
        pads = named.get("pads")
        if pads and strides[i] * (spatial[i] - 1) + (kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[i + rank] < 1:
            named.pop("pads")
    if str(named.get("auto_pad", "")).startswith("SAME"):
        named.pop("dilations", None)
    inputs = [
        d.tensor("T", (d.int(1, 2), groups * each_in, *spatial), -3, 3),
        Parameter(d.tensor("T", (groups * each_in, each_out, *kernel), -3, 3)),
    ]
    bias = [Parameter(d.tensor("T", (groups * each_out,)))] if d.flag() else []
    return Parts([*inputs, *bias], named, accumulates=True)


@recipe("DeformConv")
def deform_conv(d: Draw) -> Parts:
    kernel = kernel_sizes(d, 2)
    named, spatial = sliding(d, kernel)
    groups = d.pick([1, 1, 2])
    offset_groups = d.pick([1, 1, 2])
    channels = groups * offset_groups
    named |= {"group": groups} if groups > 1 else {}
    named |= {"offset_group": offset_groups} if offset_groups > 1 else {}
    named.pop("auto_pad", None)
    strides, dilations = named.get("strides", [1, 1]), named.get("dilations", [1, 1])
    pads = named.get("pads", [0] * 4)
    result = [
        (spatial[i] + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(2)
    ]
    n, out = d.int(1, 2), groups * d.int(1, 2)
    x = d.tensor("T", (n, channels, *spatial), -3, 3)
    w = d.tensor("T", (out, channels // groups, *kernel), -2, 2)
    offset = d.tensor("T", (n, offset_groups * prod(kernel) * 2, *result), -2, 2)
    bias = d.tensor("T", (out,), -3, 3) if d.flag() else None
    mask = d.tensor("T", (n, offset_groups * prod(kernel), *result), 0, 1) if d.flag() else None
    if mask is not None:
        return Parts([x, Parameter(w), offset, bias, mask], named, accumulates=True)
    return Parts([x, Parameter(w), offset, *([bias] if bias is not None else [])], named, accumulates=True)


@recipe("MaxPool", "AveragePool", "LpPool")
def pool(d: Draw) -> Parts:
    rank = d.pick([1, 2, 2, 3])
    kernel = kernel_sizes(d, rank)
    named, spatial = sliding(d, kernel)
    named["kernel_shape"] = kernel
    if str(named.get("auto_pad", "")).startswith("SAME"):
        named.pop("dilations", None)
    if "auto_pad" not in named or named["auto_pad"] == "NOTSET":
        named |= d.attributes(ceil_mode=d.int(0, 1))
    named |= d.attributes(count_include_pad=d.int(0, 1), p=d.int(1, 3) if d.since >= 2 else float(d.int(1, 3)))
    x = d.tensor("T", (d.int(0, 2) if d.flag(0.2) else 2, d.int(1, 3), *spatial), -9, 9)
    outputs = 1
    if d.schema.name == "MaxPool" and len(d.schema.outputs) > 1 and d.flag(0.4):
        outputs = 2
        named |= d.attributes(storage_order=d.int(0, 1))
    return Parts([x], named, outputs, accumulates=True)


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d: Draw) -> Parts:
    x = d.tensor("T", (d.size(), d.size(), *d.shape(1, 3, empty=False)), -9, 9)
    return Parts([x], d.attributes(p=d.int(1, 3) if d.since >= 2 else float(d.int(1, 3))), accumulates=True)


@recipe("MaxUnpool")
def max_unpool(d: Draw) -> Parts:
    rank = d.pick([1, 2, 2])
    n, c = d.int(1, 2), d.int(1, 2)
    spatial = [d.int(1, 3) for _ in range(rank)]
    kernel = [2] * rank
    sizes = [2 * s for s in spatial]
    x = d.tensor("T1", (n, c, *spatial), -9, 9)
    places = np.zeros((n, c, *spatial), np.int64)
    for at in np.ndindex(*places.shape):
        inner = [2 * s + d.int(0, 1) for s in at[2:]]
        flat = int(np.ravel_multi_index(inner, sizes))
        places[at] = (at[0] * c + at[1]) * prod(sizes) + flat
    named = {"kernel_shape": kernel, "strides": [2] * rank}
    if d.flag(0.3):
        return Parts([x, places, Parameter(i64([n, c, *[s + d.int(0, 2) for s in sizes]]))], named)
    return Parts([x, places], named)


@recipe("MaxRoiPool")
def max_roi_pool(d: Draw) -> Parts:
    n, size = d.int(1, 2), d.int(4, 8)
    x = d.tensor("T", (n, d.int(1, 2), size, size), -9, 9)
    rois = []
    for _ in range(d.int(1, 3)):
        a, b = sorted((d.int(0, size - 1), d.int(0, size - 1)))
        e, f = sorted((d.int(0, size - 1), d.int(0, size - 1)))
        rois.append([d.int(0, n - 1), a, e, b, f])
    named = {"pooled_shape": [d.int(1, 3), d.int(1, 3)]} | d.attributes(spatial_scale=d.pick([1.0, 0.5]))
    return Parts([x, np.array(rois).astype(x.dtype)], named)


@recipe("RoiAlign")
def roi_align(d: Draw) -> Parts:
    n, h, w = d.int(1, 2), d.int(3, 7), d.int(3, 7)
    x = d.tensor("T1", (n, d.int(1, 2), h, w), -9, 9)
    count = d.int(1, 3)
    corner = d.rng.uniform(0, 3, (count, 2))
    rois = np.concatenate([corner, corner + d.rng.uniform(0.5, 4, (count, 2))], axis=1).astype(x.dtype)
    batch = i64([d.int(0, n - 1) for _ in range(count)])
    named = d.attributes(
        mode=d.pick(["avg", "max"]),
        output_height=d.int(1, 3),
        output_width=d.int(1, 3),
        sampling_ratio=d.int(0, 3),
        spatial_scale=d.pick([1.0, 0.5]),
        coordinate_transformation_mode=d.pick(["half_pixel", "output_half_pixel"]),
    )
    return Parts([x, rois, batch], named, accumulates=True)
