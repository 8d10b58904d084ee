"""Gathering and scattering by index, one-hot vectors, and boxes picked by score."""

from math import prod

import numpy as np

from tests.differential.draw import Draw, Parameter, Parts, i64
from tests.differential.kinds import EXTENDED
from tests.differential.recipes.registry import recipe


def index_type(d: Draw) -> np.dtype:
    return d.dtype("Tind") if "Tind" in d.types else np.dtype(np.int64)


def indices(d: Draw, size: int, shape: tuple[int, ...]) -> np.ndarray:
    low = -size if d.since >= 11 else 0
    return np.asarray(d.rng.integers(low, size, shape)).astype(index_type(d))


@recipe("Gather")
def gather(d: Draw) -> Parts:
    shape = d.shape(1, 4, empty=False)
    axis = d.axis(len(shape))
    x = d.tensor("T", shape, special=0.2)
    picked = Parameter(indices(d, shape[axis], d.shape(0, 2)))
    return Parts([x, picked], {"axis": axis} if axis or d.flag() else {})


@recipe("GatherElements")
def gather_elements(d: Draw) -> Parts:
    shape = d.shape(1, 4, empty=False)
    axis = d.axis(len(shape))
    target = [d.int(1, size) for size in shape]
    target[axis] = d.size()
    x = d.tensor("T", shape, special=0.2)
    return Parts([x, indices(d, shape[axis], tuple(target))], {"axis": axis} if axis or d.flag() else {})


@recipe("GatherND")
def gather_nd(d: Draw) -> Parts:
    shape = d.shape(1, 4, empty=False)
    batch = d.int(0, len(shape) - 1) if d.has("batch_dims") else 0
    depth = d.int(1, len(shape) - batch)
    outer = d.shape(0, 2) if batch == 0 else (*shape[:batch], *d.shape(0, 1))
    places = np.stack([d.rng.integers(-shape[batch + i], shape[batch + i], outer) for i in range(depth)], axis=-1)
    named = {"batch_dims": batch} if batch or (d.has("batch_dims") and d.flag()) else {}
    return Parts([d.tensor("T", shape, special=0.2), places.astype(np.int64)], named)


@recipe("Scatter", "ScatterElements")
def scatter(d: Draw) -> Parts:
    shape = d.shape(1, 4, empty=False)
    axis = d.axis(len(shape))
    x = d.tensor("T", shape, -4, 4)
    named: dict[str, object] = {"axis": axis} if axis or d.flag() else {}
    reduction = reduction_of(d, x.dtype)
    target = [d.int(1, size) for size in shape]
    if reduction:
        named["reduction"] = reduction
        places = indices(d, shape[axis], tuple(target))
    else:
        # Without a reduction no place may be written twice.
        order = d.rng.permuted(
            np.arange(prod(shape)).reshape(shape) * 0
            + np.arange(shape[axis]).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]),
            axis=axis,
        )
        places = order[tuple(slice(n) for n in target)].astype(index_type(d))
        if d.since >= 11 and d.flag():
            places = np.where(d.rng.random(places.shape) < 0.5, places - shape[axis], places).astype(places.dtype)
    return Parts([x, places, d.tensor("T", target, -4, 4)], named, accumulates=True)


def reduction_of(d: Draw, dtype: np.dtype) -> str | None:
    """A reduction of this version that the type has."""
    if not d.has("reduction") or d.flag(0.4):
        return "none" if d.has("reduction") and d.flag(0.3) else None
    options = ["add", "mul", *(["max", "min"] if d.since >= 18 else [])]
    if dtype.kind in "Ob" or (dtype.kind == "c" and d.since >= 18):
        return None
    return None if dtype in EXTENDED and dtype.name != "bfloat16" else d.pick(options)


@recipe("ScatterND")
def scatter_nd(d: Draw) -> Parts:
    shape = d.shape(1, 4, empty=False)
    depth = d.int(1, len(shape))
    x = d.tensor("T", shape, -4, 4)
    reduction = reduction_of(d, x.dtype)
    most = prod(shape[:depth])
    count = d.int(0, most) if reduction is None or reduction == "none" else d.int(1, 6)
    flat = d.rng.permutation(most)[:count] if reduction in (None, "none") else d.rng.integers(0, most, count)
    places = np.stack(np.unravel_index(flat.astype(np.int64), shape[:depth]), axis=-1).astype(np.int64)
    if d.flag():
        places = np.where(d.rng.random(places.shape) < 0.5, places - np.array(shape[:depth]), places)
    updates = d.tensor("T", (count, *shape[depth:]), -4, 4)
    return Parts([x, places, updates], {"reduction": reduction} if reduction else {}, accumulates=True)


@recipe("OneHot")
def one_hot(d: Draw) -> Parts:
    depth = d.int(1, 5)
    low = -depth - 1 if d.dtype("T1").kind in "if" else 0
    picked = np.round(d.tensor("T1", d.shape(1, 3), low, depth + 1)).astype(d.dtype("T1"))
    if d.since < 11:
        picked = np.abs(picked) % depth
    depths = np.array([depth] if d.flag() else depth).astype(d.dtype("T2"))
    axis = d.int(-picked.ndim - 1, picked.ndim)
    return Parts(
        [picked.astype(d.dtype("T1")), Parameter(depths), Parameter(d.tensor("T3", (2,)))],
        {"axis": axis} if d.flag() else {},
    )


@recipe("TensorScatter")
def tensor_scatter(d: Draw) -> Parts:
    shape = list(d.shape(3, 4, empty=False))
    axis = d.int(1, len(shape) - 1)
    update = list(shape)
    update[axis] = d.int(1, shape[axis])
    mode = d.pick(["linear", "circular"])
    most = shape[axis] - update[axis] if mode == "linear" else shape[axis] - 1
    write = i64([d.int(0, most) for _ in range(shape[0])]) if d.flag(0.7) else None
    named = {"axis": d.pick([axis, axis - len(shape)]), "mode": mode}
    if axis == len(shape) - 2 and d.flag():
        named.pop("axis")
    given = [d.tensor("T", shape), d.tensor("T", update)]
    return Parts([*given, Parameter(write)] if write is not None else given, named)


@recipe("NonMaxSuppression")
def non_max_suppression(d: Draw) -> Parts:
    batches, classes, boxes = d.int(1, 2), d.int(1, 3), d.int(1, 8)
    corner = d.tensor("float", (batches, boxes, 2), 0, 5)
    other = corner + d.tensor("float", (batches, boxes, 2), 0.5, 5)
    center = d.int(0, 1)
    given = np.concatenate([corner, other], axis=-1)
    if not center and d.flag(0.3):
        given = given[..., [2, 3, 0, 1]]
    scores = d.tensor("float", (batches, classes, boxes), 0, 1)
    options = [
        Parameter(i64([d.int(0, 4)])) if d.flag(0.85) else None,
        Parameter(np.array([d.real(0, 0.9)], np.float32)) if d.flag(0.6) else None,
        Parameter(np.array([d.real(0, 0.7)], np.float32)) if d.flag(0.6) else None,
    ]
    while options and options[-1] is None:
        options.pop()
    return Parts([given, scores, *options], {"center_point_box": center} if center or d.flag() else {})
