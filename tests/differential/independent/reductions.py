"""Reductions of anything, the empty and the integers included; softmax of two dimensions; normalizations."""

from collections.abc import Callable

import numpy as np

from tests.differential.independent.registry import Given, computes

Axes = tuple[int, ...]


def exact(x: np.ndarray) -> np.ndarray:
    """Integers of any size for integers, f64 for floats."""
    return x.astype(object) if x.dtype.kind in "iuO" else x.astype(np.float64)


def log_sum_exp(x: np.ndarray, axes: Axes) -> np.ndarray:
    x = x.astype(np.float64)
    most = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    safe = np.where(np.isfinite(most), most, 0)
    return np.log(np.sum(np.exp(x - safe), axis=axes)) + safe.reshape(np.sum(x, axis=axes).shape)


def total(x: np.ndarray, axes: Axes) -> np.ndarray:
    return np.asarray(np.sum(exact(x), axis=axes))


def floor_to_zero(sums: np.ndarray, count: int) -> np.ndarray:
    """Integers divided as integers, towards zero."""
    return np.vectorize(lambda s: abs(s) // count * (1 if s >= 0 else -1), otypes=[object])(sums)


def mean(x: np.ndarray, axes: Axes) -> np.ndarray:
    sums, count = total(x, axes), int(np.prod([x.shape[axis] for axis in axes]))
    if x.dtype.kind not in "iu":
        return np.asarray(sums / count)
    # The sum is one of 64 bits, and wraps around as such.
    wide = np.dtype(np.int64 if x.dtype.kind == "i" else np.uint64)
    return floor_to_zero(wrapped(sums, wide).astype(object), count)


def wrapped(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Integers of any size modulo 2 to the width of the type."""
    if dtype.kind not in "iu":
        return values
    bits, signed = dtype.itemsize * 8, dtype.kind == "i"
    low = -(2 ** (bits - 1)) if signed else 0
    return np.vectorize(lambda v: (int(v) - low) % 2**bits + low, otypes=[dtype])(values)


def l2(x: np.ndarray, axes: Axes) -> np.ndarray:
    return np.sqrt(np.sum(np.square(x.astype(np.float64)), axis=axes))


def extreme(x: np.ndarray, axes: Axes, fold: Callable[..., np.ndarray], nothing: float) -> np.ndarray:
    if x.dtype.kind in "iub":
        limits = np.iinfo(x.dtype) if x.dtype.kind != "b" else None
        start = (limits.min if nothing < 0 else limits.max) if limits else nothing > 0
        return np.asarray(fold(x, axis=axes, initial=start))
    return np.asarray(fold(x.astype(np.float64), axis=axes, initial=nothing))


FORMULAS: dict[str, Callable[[np.ndarray, Axes], np.ndarray]] = {
    "ReduceSum": total,
    "ReduceProd": lambda x, axes: np.asarray(np.prod(exact(x), axis=axes)),
    "ReduceMean": mean,
    "ReduceL1": lambda x, axes: total(np.asarray(np.abs(exact(x))), axes),
    "ReduceL2": l2,
    "ReduceSumSquare": lambda x, axes: np.asarray(np.sum(exact(x) ** 2, axis=axes)),
    "ReduceLogSum": lambda x, axes: np.log(total(x, axes).astype(np.float64)),
    "ReduceLogSumExp": log_sum_exp,
    "ReduceMax": lambda x, axes: extreme(x, axes, np.max, -np.inf),
    "ReduceMin": lambda x, axes: extreme(x, axes, np.min, np.inf),
}


@computes(*FORMULAS)
def reduce(g: Given) -> list[object]:
    """NaN among the elements is NaN; of nothing the neutral element; integers wrap, real results are cut off."""
    x = g.array(0)
    axes = g.attribute("axes")
    if axes is None:
        given = g.optional(1)
        axes = None if given is None or not given.size else [int(v) for v in given]
    if axes is None and g.int("noop_with_empty_axes"):
        axes = []
    chosen = tuple(range(x.ndim)) if axes is None else tuple(sorted(axis % x.ndim for axis in axes))
    result = FORMULAS[g.node.op_type](x, chosen)
    if x.dtype.kind in "iu" and g.node.op_type not in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        result = wrapped(result, x.dtype)
    shape = [1 if axis in chosen else size for axis, size in enumerate(x.shape)]
    if not g.int("keepdims", 1):
        shape = [size for axis, size in enumerate(x.shape) if axis not in chosen]
    return [np.asarray(result).reshape(shape)]


@computes("Softmax", "LogSoftmax", "Hardmax")
def softmax(g: Given) -> list[object]:
    """Before opset 13 the input is coerced into 2-D: [a_0 * ... * a_{k-1}, a_k * ... * a_{n-1}]."""
    x = g.wide(0)
    axis = g.int("axis") % x.ndim
    if g.since < 13:
        flat = x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
    else:
        flat = np.moveaxis(x, axis, -1)
    if not flat.size:
        return [x]
    if g.node.op_type == "Hardmax":
        result = (np.arange(flat.shape[-1]) == np.argmax(flat, axis=-1)[..., None]).astype(np.float64)
    else:
        shifted = flat - flat.max(axis=-1, keepdims=True)
        result = np.exp(shifted) / np.exp(shifted).sum(axis=-1, keepdims=True)
        if g.node.op_type == "LogSoftmax":
            result = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return [result.reshape(x.shape) if g.since < 13 else np.moveaxis(result, -1, axis)]


@computes("LpNormalization")
def lp_normalization(g: Given) -> list[object]:
    x = g.wide(0)
    norm = np.linalg.norm(x, ord=g.int("p"), axis=g.int("axis"), keepdims=True)
    return [np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)]


@computes("BatchNormalization")
def batch_normalization(g: Given) -> list[object]:
    x, scale, bias, mean_, var = (g.wide(place) for place in range(5))
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    running: list[object] = []
    if g.int("training_mode"):
        momentum = g.number("momentum")
        own_mean, own_var = x.mean(axis=axes), x.var(axis=axes)
        running = [mean_ * momentum + own_mean * (1 - momentum), var * momentum + own_var * (1 - momentum)]
        mean_, var = own_mean, own_var
    shape = (1, -1, *[1] * (x.ndim - 2)) if g.int("spatial", 1) else (1, *x.shape[1:])
    scale, bias, mean_, var = (value.reshape(shape) for value in (scale, bias, mean_, var))
    return [(x - mean_) / np.sqrt(var + g.number("epsilon")) * scale + bias, *running]


@computes("GroupNormalization")
def group_normalization(g: Given) -> list[object]:
    x, scale, bias = (g.wide(place) for place in range(3))
    groups = g.int("num_groups")
    grouped = x.reshape(x.shape[0], groups, -1)
    centered = grouped - grouped.mean(axis=2, keepdims=True)
    normal = (centered / np.sqrt(grouped.var(axis=2, keepdims=True) + g.number("epsilon"))).reshape(x.shape)
    each = x.shape[1] // scale.size
    shape = (1, -1, *[1] * (x.ndim - 2))
    return [normal * np.repeat(scale, each).reshape(shape) + np.repeat(bias, each).reshape(shape)]


@computes("LRN")
def lrn(g: Given) -> list[object]:
    """The region of channel c is from max(0, c - floor((size - 1) / 2)) to min(C - 1, c + ceil((size - 1) / 2))."""
    x, size = g.wide(0), g.int("size")
    result = np.empty_like(x)
    for c in range(x.shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c - (-(size - 1) // 2))
        squares = np.sum(x[:, low : high + 1] ** 2, axis=1)
        result[:, c] = x[:, c] / (g.number("bias") + g.number("alpha") / size * squares) ** g.number("beta")
    return [result]


@computes("GlobalMaxPool")
def global_max_pool(g: Given) -> list[object]:
    x = g.array(0).astype(np.float64)
    return [x.max(axis=tuple(range(2, x.ndim)), keepdims=True)]


@computes("NegativeLogLikelihoodLoss")
def nll_loss(g: Given) -> list[object]:
    x, target, weight = g.wide(0), g.array(1), g.optional(2)
    ignored = g.int("ignore_index") if g.has("ignore_index") else None
    loss, weights = np.zeros(target.shape), np.zeros(target.shape)
    for at in np.ndindex(*target.shape):
        label = int(target[at])
        if label != ignored:
            weights[at] = 1.0 if weight is None else float(weight[label])
            loss[at] = -x[(at[0], label, *at[1:])] * weights[at]
    reduction = g.text("reduction")
    return [loss if reduction == "none" else loss.sum() / (weights.sum() if reduction == "mean" else 1)]


@computes("Gemm")
def gemm(g: Given) -> list[object]:
    a, b = (g.wide(i).T if g.int(name) else g.wide(i) for i, name in enumerate(("transA", "transB")))
    c = g.optional(2)
    product = g.number("alpha") * (a @ b)
    return [product if c is None else product + g.number("beta") * c.astype(np.float64)]


@computes("Det")
def det(g: Given) -> list[object]:
    return [np.linalg.det(g.wide(0))]
