"""Reductions, extremes by index, running sums, and the softmax family."""

import numpy as np

from tests.differential.draw import Draw, Parameter, Parts, i64
from tests.differential.recipes.registry import recipe


@recipe(
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
def reduce(d: Draw) -> Parts:
    name = d.schema.name
    low, high = {"ReduceLogSum": (0.1, 10), "ReduceProd": (-3, 3)}.get(name, (-6, 6))
    # The mean of nothing and the extremum of no integers are not defined.
    shape = d.shape(0, 5, empty=name not in ("ReduceMean",))
    # The logarithm of a sum that overflows is none of an integer.
    special = 0 if "Log" in name and "int" in d.dtype("T").name else 0.25
    x = d.tensor("T", shape, low, high, special=special)
    named = d.attributes(keepdims=d.int(0, 1))
    axes = d.axes(x.ndim, 1) if x.ndim and d.flag(0.75) else None
    if d.has("axes"):
        return Parts([x], named | ({"axes": axes} if axes else {}), accumulates=True)
    if d.flag(0.4):
        named["noop_with_empty_axes"] = d.int(0, 1)
    if axes is None:
        return Parts([x, Parameter(i64([]))] if d.flag() else [x], named, accumulates=True)
    return Parts([x, Parameter(i64(axes))], named, accumulates=True)


@recipe("ArgMax", "ArgMin")
def arg_reduce(d: Draw) -> Parts:
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    shape = tuple(max(size, 1) for size in shape)
    x = d.tensor("T", shape, -3, 3)
    if d.flag() and x.dtype.kind == "f":
        x = np.round(x)
    named = d.attributes(keepdims=d.int(0, 1), select_last_index=d.int(0, 1))
    return Parts([x], named | ({"axis": axis} if axis or d.flag() else {}))


@recipe("Softmax", "LogSoftmax", "Hardmax")
def softmax(d: Draw) -> Parts:
    shape = d.shape(2 if d.since < 13 else 1, 4)
    x = d.tensor("input" if False else "T", shape, -5, 5)
    return Parts([x], {"axis": d.axis(len(shape))} if d.flag(0.7) else {}, accumulates=True)


@recipe("CumSum", "CumProd")
def cumulative(d: Draw) -> Parts:
    shape = d.shape(1, 4)
    x = d.tensor("T", shape, -3, 3)
    axis = Parameter(np.array(d.axis(len(shape)), d.dtype("T2")))
    return Parts([x, axis], d.attributes(exclusive=d.int(0, 1), reverse=d.int(0, 1)), accumulates=True)


@recipe("MeanVarianceNormalization")
def mean_variance_normalization(d: Draw) -> Parts:
    shape = d.shape(4, 4, empty=False)
    x = d.tensor("T", shape, -5, 5)
    axes = d.axes(4, 1) if d.flag() else None
    return Parts([x], {"axes": axes} if axes else {}, accumulates=True)


@recipe("LpNormalization")
def lp_normalization(d: Draw) -> Parts:
    shape = d.shape(1, 4)
    x = d.tensor("T", shape, -5, 5)
    return Parts([x], d.attributes(p=d.int(1, 2), axis=d.axis(len(shape), since=1)), accumulates=True)
