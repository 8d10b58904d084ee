"""What moves elements and keeps containers: exact, type by type."""

import numpy as np
from onnx import NodeProto, numpy_helper

from tests.differential.independent.registry import Given, computes


@computes("Unsqueeze")
def unsqueeze(g: Given) -> list[object]:
    """`axes` are axes of the result."""
    x = g.array(0)
    axes = g.ints("axes") if g.since < 13 else [int(a) for a in g.array(1)]
    rank = x.ndim + len(axes)
    rest = iter(x.shape)
    chosen = {axis % rank for axis in axes}
    return [x.reshape([1 if axis in chosen else next(rest) for axis in range(rank)])]


@computes("Gather")
def gather(g: Given) -> list[object]:
    return [np.take(g.array(0), g.array(1), axis=g.int("axis"))]


@computes("Shape")
def shape(g: Given) -> list[object]:
    """ "Negative axes will be added by r ... and then clamped to [0, r]": of both bounds."""
    x = g.array(0)
    start, end = g.int("start"), g.int("end") if g.has("end") else x.ndim
    start, end = (min(max(v + (x.ndim if v < 0 else 0), 0), x.ndim) for v in (start, end))
    return [np.array(x.shape[start : max(start, end)], np.int64)]


@computes("Slice")
def slice_axes(g: Given) -> list[object]:
    """A negative step clamps starts to [0, n - 1], as NumPy does not, and ends to [-1, n - 1]."""
    x = g.array(0)
    if g.since < 10:
        starts, ends, axes, steps = g.ints("starts"), g.ints("ends"), g.ints("axes"), []
    else:
        starts, ends, axes, steps = (g.given_ints(place) for place in range(1, 5))
    result = x
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = axes[i] if axes else i
        step = steps[i] if steps else 1
        n = x.shape[axis]
        first, last = (v + (n if v < 0 else 0) for v in (start, end))
        first = min(max(first, 0), n if step > 0 else n - 1)
        last = min(max(last, 0), n) if step > 0 else min(max(last, -1), n - 1)
        result = np.take(result, range(first, last, step), axis)
    return [result]


@computes("Pad")
def pad(g: Given) -> list[object]:
    """The default of constant_value is "0, empty string or False"."""
    x, given = g.array(0), g.given_ints(3) if g.optional(3) is not None else range(g.array(0).ndim)
    pads = g.given_ints(1) if g.since >= 11 else g.ints("paddings" if g.since < 2 else "pads")
    value = g.optional(2) if g.since >= 11 else np.asarray(g.number("value"))
    axes = [axis % x.ndim for axis in given]
    width = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        width[axis] = (pads[i], pads[len(axes) + i])
    cut = tuple(slice(max(0, -low), n - max(0, -high)) for n, (low, high) in zip(x.shape, width, strict=True))
    grown = [(max(0, low), max(0, high)) for low, high in width]
    if g.text("mode") != "constant":
        return [np.pad(x[cut], grown, g.text("mode"))]
    fill = ("" if x.dtype == object else np.zeros((), x.dtype)) if value is None else value.item()
    return [np.pad(x[cut], grown, constant_values=fill)]


@computes("CenterCropPad")
def center_crop_pad(g: Given) -> list[object]:
    """Half of what is cropped or padded goes before, the odd one after."""
    x = g.array(0)
    wanted = [int(n) for n in g.array(1)]
    axes = g.ints("axes") if g.has("axes") else list(range(x.ndim))
    for axis, size in zip(axes, wanted, strict=True):
        extra = size - x.shape[axis]
        if extra <= 0:
            start = -extra // 2
            x = np.take(x, range(start, start + size), axis)
            continue
        width = [0] * x.ndim
        shape = list(x.shape)
        shape[axis] = size
        result = np.full(shape, "" if x.dtype == object else 0, x.dtype)
        width[axis] = extra // 2
        result[tuple(slice(w, w + n) for w, n in zip(width, x.shape, strict=True))] = x
        x = result
    return [x]


@computes("Optional")
def optional(g: Given) -> list[object]:
    return [g.inputs[0] if g.inputs else None]


@computes("SequenceInsert")
def sequence_insert(g: Given) -> list[object]:
    values = g.inputs[0]
    assert isinstance(values, list)
    at = g.optional(2)
    place = len(values) if at is None else int(at) + (len(values) if at < 0 else 0)
    return [[*values[:place], g.inputs[1], *values[place:]]]


@computes("Unique")
def unique(g: Given) -> list[object]:
    """The slices along `axis`, each at the place of its first; in order where they are sorted."""
    x = g.array(0)
    moved = np.moveaxis(x, g.int("axis"), 0) if g.has("axis") else x.ravel()
    rows = moved.reshape(moved.shape[0], -1).astype(np.float64 if x.dtype.kind == "V" else x.dtype)
    kept: list[int] = []
    for i, row in enumerate(rows):
        if not any(np.array_equal(row, rows[k]) for k in kept):
            kept.append(i)
    if g.int("sorted"):
        kept.sort(key=lambda i: [(v.real, v.imag) if x.dtype.kind == "c" else v for v in rows[i].tolist()])
    picked = moved[kept]
    return [np.moveaxis(picked, 0, g.int("axis")) if g.has("axis") else picked, None, None, None]


@computes("NonZero")
def non_zero(g: Given) -> list[object]:
    return [np.stack(np.nonzero(g.array(0))).astype(np.int64)]


@computes("Loop")
def loop(g: Given) -> list[object]:
    """The bodies of our recipes: what is carried stays, or grows by one constant; scans are stacked."""
    trips, condition, carried = (g.inputs[i] if i < len(g.inputs) else None for i in range(3))
    body = {node.output[0]: node for node in g.node.attribute[0].g.node}
    limits = [n for n in body if n == "limit"]
    most = int(trips) if trips is not None else 10**6
    limit = int(constant(body["limit"])) if limits else None
    count, going = 0, condition is None or bool(condition)
    while going and count < most:
        going = limit is None or count < limit
        if isinstance(carried, list):
            carried = [*carried, constant(body["one"])]
        count += 1
    if isinstance(carried, list):
        return [carried]
    source = g.captured["captured"] if body["scanned"].input[0] == "captured" else carried
    assert isinstance(source, np.ndarray)
    return [carried, np.stack([source] * count) if count else None, np.arange(count)]


def constant(node: NodeProto) -> np.ndarray:
    """The tensor of a Constant node."""
    return numpy_helper.to_array(node.attribute[0].t)


@computes("Scan")
def scan(g: Given) -> list[object]:
    """The bodies of our recipes: the state takes up the first scanned input, or stays; the pieces come out again."""
    values = g.inputs[1:] if g.since == 8 else g.inputs
    state, parts = values[0], values[1:]
    assert isinstance(state, np.ndarray)
    if g.since != 8:
        return [None] * (1 + len(parts))
    lengths = g.optional(0)
    adds = any(node.op_type == "Add" for node in next(a.g for a in g.node.attribute if a.name == "body").node)
    directions = g.ints("directions", [0] * len(parts))
    result, pieces = state.copy(), []
    for b in range(state.shape[0]):
        length = parts[0].shape[1] if lengths is None else int(lengths[b])
        taken = parts[0][b][:length]
        if adds:
            result[b] = state[b] + taken.sum(axis=0, dtype=state.dtype)
    for part, backwards in zip(parts, directions, strict=True):
        piece = np.zeros_like(part)
        for b in range(state.shape[0]):
            length = part.shape[1] if lengths is None else int(lengths[b])
            piece[b, :length] = part[b, :length][:: -1 if backwards else 1]
        pieces.append(piece)
    return [result, *pieces]
