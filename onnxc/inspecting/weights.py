"""What the elements of a weight are like: their range and mean, zeros, infinities and NaN."""

import math

import numpy as np

from onnxc.compiler.frontend.graph import Tensor
from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.program import JsonValue

__all__ = ["statistics"]

# Elements are widened to f64 in parts of 8 MB, so that a weight of any size takes no memory of its own.
PART = 1 << 20
SHOWN_ELEMENTS = 16


def statistics(tensor: Tensor) -> dict[str, JsonValue]:
    """By a word for each, what there is to say; for texts and complex numbers only the first elements.

    Range and mean are those of the finite elements.
    """
    try:
        array = tensor.array().reshape(-1)
    except (OnnxcError, OSError, ValueError, MemoryError) as problem:
        return {"unreadable": str(problem)}
    said: dict[str, JsonValue] = {"elements": array.size, "first": [_text(x) for x in array[:SHOWN_ELEMENTS]]}
    if array.size == 0 or array.dtype.kind in "OSUc":
        return said
    return {**said, **_statistics(array)}


def _text(element: object) -> str:
    return f"{element:.6g}" if isinstance(element, float | np.floating) else str(element)[:80]


def _statistics(array: np.ndarray) -> dict[str, JsonValue]:
    low, high, total = math.inf, -math.inf, 0.0
    zeros = nans = infinities = 0
    for start in range(0, array.size, PART):
        with np.errstate(invalid="ignore"):  # a signalling NaN
            part = array[start : start + PART].astype(np.float64)
        zeros += int(np.count_nonzero(part == 0))
        nans += int(np.count_nonzero(np.isnan(part)))
        infinities += int(np.count_nonzero(np.isinf(part)))
        finite = part[np.isfinite(part)]
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            # Divided first: the sum of the largest f64 would not be finite.
            total += float((finite / array.size).sum())
    counts: dict[str, JsonValue] = {"zeros": zeros, "NaN": nans, "infinities": infinities}
    count = array.size - nans - infinities
    if not count:
        return counts
    return {"min": f"{low:.6g}", "max": f"{high:.6g}", "mean": f"{total * (array.size / count):.6g}", **counts}
