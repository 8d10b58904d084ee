"""Resize and Upsample by their formulas, axis by axis, in f64; RoiAlign."""

from collections.abc import Callable
from math import ceil, floor

import numpy as np

from tests.differential.independent.registry import Given, Rounded, computes


def nearest_of(mode: str, scale: float) -> Callable[[float], int]:
    if mode == "simple":
        # The text of the first versions does not say which neighbour: that of ONNX Runtime.
        return floor if scale >= 1 else ceil
    return {
        "floor": floor,
        "ceil": ceil,
        "round_prefer_floor": lambda p: ceil(p - 0.5),
        "round_prefer_ceil": lambda p: floor(p + 0.5),
    }[mode]


def place_of(i: int, scale: float, size: int, length: int, transform: str, roi: tuple[float, float]) -> float:
    match transform:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if length > 1 else 0.0
        case "align_corners":
            # The length may be a fraction here, where it comes from a scale.
            return i * (size - 1) / (scale * size - 1) if length > 1 else 0.0
        case "asymmetric":
            return i / scale
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale if scale != 1 else i
        case "half_pixel_symmetric":
            adjustment = length / (scale * size)
            return size / 2 * (1 - adjustment) + (i + 0.5) / scale - 0.5
    start, end = roi
    if length > 1:
        return start * (size - 1) + i * (end - start) * (size - 1) / (length - 1)
    return 0.5 * (start + end) * (size - 1)


def kernel(mode: str, distance: float, a: float) -> float:
    d = abs(distance)
    if mode == "linear":
        return max(0.0, 1 - d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


@computes("Resize", "Upsample")
def resize(g: Given) -> list[object]:
    x = g.array(0)
    is_old = g.node.op_type == "Upsample" or g.since == 10
    scales, lengths = wanted(g, x.shape)
    mode = {"bilinear": "linear"}.get(g.text("mode"), g.text("mode"))
    transform = "asymmetric" if is_old else g.text("coordinate_transformation_mode")
    roi = np.zeros(2 * x.ndim) if is_old or transform != "tf_crop_and_resize" else region(g, x.ndim)
    result: np.ndarray = x if mode == "nearest" else x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    outside = np.zeros(lengths, bool)
    for axis, (scale, length) in enumerate(zip(scales, lengths, strict=True)):
        size = x.shape[axis]
        if scale == 1 and length == size and transform != "tf_crop_and_resize":
            continue
        places = [place_of(i, scale, size, length, transform, (roi[axis], roi[x.ndim + axis])) for i in range(length)]
        if transform == "tf_crop_and_resize":
            off = np.array([p < 0 or p > size - 1 for p in places])
            outside |= off.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        if mode == "nearest":
            pick = nearest_of("simple" if is_old else g.text("nearest_mode"), scale)
            result = np.take(result, [min(max(pick(p), 0), size - 1) for p in places], axis)
            continue
        matrix = np.stack([weights(p, size, scale, mode, g) for p in places])
        result = np.moveaxis(np.tensordot(matrix, result, axes=(1, axis)), 0, axis)
    if transform == "tf_crop_and_resize":
        result = np.where(outside, "" if x.dtype == object else g.number("extrapolation_value"), result)
    return [Rounded(result) if x.dtype.kind in "iu" and mode != "nearest" else result]


def weights(place: float, size: int, scale: float, mode: str, g: Given) -> np.ndarray:
    """How much of each element: those beyond the border count as the one at it, or are excluded."""
    shrink = min(1.0, scale) if g.int("antialias", 0) else 1.0
    reach = (1 if mode == "linear" else 2) / shrink
    row = np.zeros(size)
    total = 0.0
    for tap in range(floor(place - reach), ceil(place + reach) + 1):
        weight = kernel(mode, (place - tap) * shrink, g.number("cubic_coeff_a", -0.75))
        if g.int("exclude_outside", 0) and not 0 <= tap < size:
            continue
        row[min(max(tap, 0), size - 1)] += weight
        total += weight
    return row / total


def region(g: Given, rank: int) -> np.ndarray:
    roi = g.array(1).astype(np.float64)
    axes = [a % rank for a in g.ints("axes")] if g.has("axes") else list(range(rank))
    full = np.array([0.0] * rank + [1.0] * rank)
    for i, axis in enumerate(axes):
        full[axis], full[rank + axis] = roi[i], roi[len(axes) + i]
    return full


def wanted(g: Given, shape: tuple[int, ...]) -> tuple[list[float], list[int]]:
    """The scale and the length of each axis."""
    if g.has("height_scale"):
        scales = [1.0, 1.0, g.number("height_scale"), g.number("width_scale")]
    elif g.has("scales"):
        scales = [float(v) for v in g.floats("scales")]
    else:
        given = g.optional(1 if g.node.op_type == "Upsample" or g.since == 10 else 2)
        scales = [] if given is None else [float(v) for v in given]
    axes = [a % len(shape) for a in g.ints("axes")] if g.has("axes") else list(range(len(shape)))
    if scales:
        full = [1.0] * len(shape)
        for axis, scale in zip(axes, scales, strict=True):
            full[axis] = scale
        return full, [floor(float(np.float32(n) * np.float32(s))) for n, s in zip(shape, full, strict=True)]
    sizes = [int(v) for v in g.array(3)]
    lengths = list(shape)
    for axis, size in zip(axes, sizes, strict=True):
        lengths[axis] = size
    full = [length / n for length, n in zip(lengths, shape, strict=True)]
    policy = g.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        pick = min if policy == "not_larger" else max
        scale = pick(full[axis] for axis in axes)
        for axis in axes:
            full[axis], lengths[axis] = scale, floor(scale * shape[axis] + 0.5)
    return full, lengths


@computes("RoiAlign")
def roi_align(g: Given) -> list[object]:
    """Samples of each bin, linear between pixels: their mean, or the largest of the weighted pixels."""
    x, rois, batch = g.wide(0), g.wide(1), g.array(2)
    height, width, ratio = g.int("output_height"), g.int("output_width"), g.int("sampling_ratio")
    half = 0.5 if g.text("coordinate_transformation_mode", "output_half_pixel") == "half_pixel" else 0.0
    result = np.zeros((len(rois), x.shape[1], height, width))
    for n, roi in enumerate(rois):
        x1, y1, x2, y2 = (float(v) * g.number("spatial_scale") - half for v in roi)
        w, h = (x2 - x1, y2 - y1) if half else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        rows, columns = (ratio or ceil(h / height)), (ratio or ceil(w / width))
        for i, j in np.ndindex(height, width):
            taps = []
            for p, q in np.ndindex(rows, columns):
                y = y1 + (i + (p + 0.5) / rows) * h / height
                z = x1 + (j + (q + 0.5) / columns) * w / width
                taps.append(corners(x[int(batch[n])], y, z))
            stacked = np.stack(taps)
            result[n, :, i, j] = (
                stacked.sum(axis=1).mean(axis=0) if g.text("mode") == "avg" else stacked.max(axis=(0, 1))
            )
    return [result]


def corners(planes: np.ndarray, y: float, z: float) -> np.ndarray:
    """The four weighted pixels around (y, z), [4, C]; nothing where that lies more than one pixel outside."""
    h, w = planes.shape[1:]
    if y < -1 or y > h or z < -1 or z > w:
        return np.zeros((4, planes.shape[0]))
    y, z = min(max(y, 0.0), h - 1.0), min(max(z, 0.0), w - 1.0)
    i, j = floor(y), floor(z)
    found = []
    for a, wa in ((i, 1 - (y - i)), (min(i + 1, h - 1), y - i)):
        for b, wb in ((j, 1 - (z - j)), (min(j + 1, w - 1), z - j)):
            found.append(planes[:, a, b] * wa * wb)
    return np.stack(found)
