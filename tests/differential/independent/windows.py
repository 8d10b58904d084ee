"""Windows that slide: pooling, transposed and deformable convolutions, resampling."""

from itertools import product
from math import ceil, floor, prod

import numpy as np

from tests.differential.independent.registry import Given, computes


def paddings(g: Given, shape: tuple[int, ...], reach: list[int], strides: list[int]) -> list[tuple[int, int]]:
    """What is padded before and after each axis."""
    rank, mode = len(reach), g.text("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        result = []
        for i in range(rank):
            places = ceil(shape[i] / strides[i])
            total = max(0, (places - 1) * strides[i] + reach[i] - shape[i])
            small, large = total // 2, total - total // 2
            result.append((small, large) if mode == "SAME_UPPER" else (large, small))
        return result
    pads = g.ints("pads", [0] * 2 * rank) if mode == "NOTSET" else [0] * 2 * rank
    return [(pads[i], pads[rank + i]) for i in range(rank)]


@computes("MaxPool", "AveragePool", "LpPool")
def pool(g: Given) -> list[object]:
    """Each window element by element; a window that begins in the padding after the end is left out."""
    x = g.array(0).astype(np.float64)
    kernel = g.ints("kernel_shape")
    rank = len(kernel)
    strides, dilations = g.ints("strides", [1] * rank), g.ints("dilations", [1] * rank)
    spatial = x.shape[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = paddings(g, spatial, reach, strides)
    places = []
    for i in range(rank):
        span = spatial[i] + sum(pads[i]) - reach[i]
        count = (ceil if g.int("ceil_mode") else floor)(span / strides[i]) + 1
        if g.int("ceil_mode") and (count - 1) * strides[i] >= spatial[i] + pads[i][0]:
            count -= 1
        places.append(count)
    result = np.zeros((*x.shape[:2], *places))
    indices = np.zeros((*x.shape[:2], *places), np.int64)
    for at in product(*map(range, places)):
        starts = [at[i] * strides[i] - pads[i][0] for i in range(rank)]
        taps = [[starts[i] + k * dilations[i] for k in range(kernel[i])] for i in range(rank)]
        inside = [[t for t in axis if 0 <= t < spatial[i]] for i, axis in enumerate(taps)]
        padded = [[t for t in axis if -pads[i][0] <= t < spatial[i] + pads[i][1]] for i, axis in enumerate(taps)]
        cells = list(product(*inside))
        values = np.stack([x[(..., *cell)] for cell in cells], axis=-1) if cells else np.zeros((*x.shape[:2], 0))
        if g.node.op_type == "AveragePool":
            count = prod(map(len, padded)) if g.int("count_include_pad") else len(cells)
            result[(..., *at)] = values.sum(axis=-1) / count
        elif g.node.op_type == "LpPool":
            p = g.number("p", 2)
            result[(..., *at)] = np.sum(np.abs(values) ** p, axis=-1) ** (1 / p)
        else:
            result[(..., *at)] = values.max(axis=-1, initial=-np.inf)
            order = "F" if g.int("storage_order") else "C"
            flat = [int(np.ravel_multi_index(cell, spatial, order=order)) for cell in cells]
            best = np.argmax(values, axis=-1)
            for n, c in np.ndindex(*x.shape[:2]):
                indices[(n, c, *at)] = (n * x.shape[1] + c) * prod(spatial) + flat[best[n, c]]
    return [result, indices]


@computes("ConvTranspose")
def conv_transpose(g: Given) -> list[object]:
    """Each element times the kernel, added where it belongs; then the pads of the equations cut off."""
    x, w, b = g.wide(0), g.wide(1), g.optional(2)
    rank, group = x.ndim - 2, g.int("group")
    strides, dilations = g.ints("strides", [1] * rank), g.ints("dilations", [1] * rank)
    extra = g.ints("output_padding", [0] * rank)
    kernel, spatial = w.shape[2:], x.shape[2:]
    whole_shape = [(spatial[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 + extra[i] for i in range(rank)]
    whole = np.zeros((x.shape[0], w.shape[1] * group, *whole_shape))
    each = x.shape[1] // group
    for c, at, tap in product(range(x.shape[1]), product(*map(range, spatial)), product(*map(range, kernel))):
        target = tuple(at[i] * strides[i] + tap[i] * dilations[i] for i in range(rank))
        filters = slice(c // each * w.shape[1], (c // each + 1) * w.shape[1])
        whole[(slice(None), filters, *target)] += x[(slice(None), c, *at)][:, None] * w[(c, slice(None), *tap)]
    mode = g.text("auto_pad", "NOTSET")
    sizes = g.ints("output_shape") or None
    if sizes is None and mode.startswith("SAME"):
        sizes = [n * s for n, s in zip(spatial, strides, strict=True)]
    pads = g.ints("pads", [0] * 2 * rank) if mode == "NOTSET" else [0] * 2 * rank
    if sizes is not None:
        totals = [whole_shape[i] - sizes[i] for i in range(rank)]
        before = [t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in totals]
        pads = [*before, *(t - low for t, low in zip(totals, before, strict=True))]
    wide = np.pad(whole, [(0, 0), (0, 0), *((max(0, -pads[i]), max(0, -pads[rank + i])) for i in range(rank))])
    cut = tuple(slice(max(0, pads[i]), wide.shape[2 + i] - max(0, pads[rank + i])) for i in range(rank))
    result = wide[(..., *cut)]
    return [result if b is None else result + b.astype(np.float64).reshape(-1, *[1] * rank)]


@computes("Col2Im")
def col2im(g: Given) -> list[object]:
    """Each element of each block, row-major both, added where it belongs; then the pads cut off."""
    x, image, block = g.array(0), [int(v) for v in g.array(1)], [int(v) for v in g.array(2)]
    rank = len(image)
    strides, dilations = g.ints("strides", [1] * rank), g.ints("dilations", [1] * rank)
    pads = g.ints("pads", [0] * 2 * rank)
    padded = [image[i] + pads[i] + pads[rank + i] for i in range(rank)]
    counts = [(padded[i] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(rank)]
    columns = x.reshape(x.shape[0], -1, *block, *counts)
    whole = np.zeros((*columns.shape[:2], *padded), x.dtype)
    for tap, at in product(np.ndindex(*block), np.ndindex(*counts)):
        target = tuple(at[i] * strides[i] + tap[i] * dilations[i] for i in range(rank))
        whole[(..., *target)] += columns[(..., *tap, *at)]
    cut = tuple(slice(pads[i], pads[i] + image[i]) for i in range(rank))
    return [whole[(..., *cut)]]


@computes("DeformConv")
def deform_conv(g: Given) -> list[object]:
    """The kernel's elements read between pixels, at places that the offsets move, 0 outside."""
    x, w, offset = g.wide(0), g.wide(1), g.wide(2)
    bias, mask = g.optional(3), g.optional(4)
    (kh, kw), (sh, sw), (dh, dw) = w.shape[2:], g.ints("strides", [1, 1]), g.ints("dilations", [1, 1])
    pads, group, offsets = g.ints("pads", [0] * 4), g.int("group"), g.int("offset_group")
    n, _, oh, ow = offset.shape
    result = np.zeros((n, w.shape[0], oh, ow))
    moved = offset.reshape(n, offsets, kh, kw, 2, oh, ow)
    weight = (
        np.ones((n, offsets, kh, kw, oh, ow))
        if mask is None
        else mask.astype(np.float64).reshape(n, offsets, kh, kw, oh, ow)
    )
    per_group, per_offset = w.shape[0] // group, x.shape[1] // offsets
    for b, m, i, j, c, p, q in product(
        range(n), range(w.shape[0]), range(oh), range(ow), range(w.shape[1]), range(kh), range(kw)
    ):
        channel = m // per_group * w.shape[1] + c
        o = channel // per_offset
        y = i * sh - pads[0] + p * dh + moved[b, o, p, q, 0, i, j]
        z = j * sw - pads[1] + q * dw + moved[b, o, p, q, 1, i, j]
        result[b, m, i, j] += w[m, c, p, q] * weight[b, o, p, q, i, j] * between(x[b, channel], y, z)
    return [result if bias is None else result + bias.astype(np.float64)[:, None, None]]


def between(plane: np.ndarray, y: float, z: float) -> float:
    """The plane at (y, z), linear between its pixels, which are 0 outside."""
    total = 0.0
    for i, j in product((floor(y), floor(y) + 1), (floor(z), floor(z) + 1)):
        if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
            total += plane[i, j] * (1 - abs(y - i)) * (1 - abs(z - j))
    return total


@computes("MaxUnpool")
def max_unpool(g: Given) -> list[object]:
    """The indices are those of the tensor that was pooled; in a larger output they keep their coordinates."""
    x, indices, given = g.array(0), g.array(1), g.optional(2)
    rank = x.ndim - 2
    kernel, strides, pads = g.ints("kernel_shape"), g.ints("strides", [1] * rank), g.ints("pads", [0] * 2 * rank)
    sizes = [(x.shape[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i] for i in range(rank)]
    natural = (*x.shape[:2], *sizes)
    result = np.zeros(natural if given is None else tuple(int(v) for v in given), x.dtype)
    for value, index in zip(x.ravel(), indices.ravel(), strict=True):
        result[np.unravel_index(int(index), natural)] = value
    return [result]


@computes("GridSample")
def grid_sample(g: Given) -> list[object]:
    """nearest, linear and cubic at normalised places, whatever the rank; integers are weighed as f64"""
    x, grid = g.wide(0), g.wide(1)
    if x.dtype == object:
        return [None]
    x = x.astype(np.float64) if x.dtype.kind in "biu" else x
    mode, padding, align = g.text("mode"), g.text("padding_mode"), g.int("align_corners")
    sizes = x.shape[2:]
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    for at in np.ndindex(*grid.shape[:-1]):
        place = [unnormalised(grid[at][-1 - i], size, align) for i, size in enumerate(sizes)]
        result[(at[0], slice(None), *at[1:])] = sampled(x[at[0]], place, sizes, mode, padding, align)
    return [result]


def unnormalised(value: float, size: int, align: int) -> float:
    return (value + 1) / 2 * (size - 1) if align else ((value + 1) * size - 1) / 2


def reflected(place: float, size: int, align: int) -> float:
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    if high <= low:
        return low
    while not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    return place


def sampled(
    x: np.ndarray, place: list[float], sizes: tuple[int, ...], mode: str, padding: str, align: int
) -> np.ndarray:
    if mode in ("cubic", "bicubic"):
        return cubic(x, place, sizes, padding, align)
    rounded = [float(np.rint(p)) for p in place] if mode == "nearest" else place
    if padding == "border":
        rounded = [min(max(p, 0.0), size - 1.0) for p, size in zip(rounded, sizes, strict=True)]
    elif padding == "reflection":
        rounded = [reflected(p, size, align) for p, size in zip(rounded, sizes, strict=True)]
    total = np.zeros(x.shape[0], x.dtype)
    if mode == "nearest":
        rounded = [float(np.rint(p)) if padding != "reflection" else float(floor(p)) for p in rounded]
    for corner in product(*((floor(p), floor(p) + 1) for p in rounded)):
        weight = prod(max(0.0, 1 - abs(p - c)) for p, c in zip(rounded, corner, strict=True))
        cell = tuple(corner)
        if padding != "zeros":
            cell = tuple(min(max(c, 0), size - 1) for c, size in zip(corner, sizes, strict=True))
        if weight and all(0 <= c < size for c, size in zip(cell, sizes, strict=True)):
            total += weight * x[(slice(None), *cell)]
    return total


def cubic(x: np.ndarray, place: list[float], sizes: tuple[int, ...], padding: str, align: int) -> np.ndarray:
    """Four neighbours on each axis, weighed by the cubic convolution with a = -0.75; each is padded for itself."""
    total = np.zeros(x.shape[0], x.dtype)
    for cell in product(*(range(floor(p) - 1, floor(p) + 3) for p in place)):
        weight = prod(cubic_weight(abs(p - c)) for p, c in zip(place, cell, strict=True))
        if padding == "reflection":
            cell = tuple(round(reflected(c, size, align)) for c, size in zip(cell, sizes, strict=True))
        if padding == "border":
            cell = tuple(min(max(c, 0), size - 1) for c, size in zip(cell, sizes, strict=True))
        if all(0 <= c < size for c, size in zip(cell, sizes, strict=True)):
            total += weight * x[(slice(None), *cell)]
    return total


def cubic_weight(distance: float, a: float = -0.75) -> float:
    if distance <= 1:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return ((distance - 5) * distance + 8) * distance * a - 4 * a if distance < 2 else 0.0


@computes("AffineGrid")
def affine_grid(g: Given) -> list[object]:
    """theta applied to (x, y, ..., 1), whose coordinates go from -1 to 1 over centers or over edges"""
    theta, size = g.wide(0), [int(v) for v in g.array(1)]
    spatial = size[2:]
    axes = []
    for n in spatial:
        if g.int("align_corners"):
            axes.append(np.linspace(-1, 1, n) if n > 1 else np.array([0.0]))
        else:
            axes.append((2 * np.arange(n) + 1) / n - 1)
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(spatial)], axis=-1)
    return [np.einsum("...k,nrk->n...r", places, theta)]
