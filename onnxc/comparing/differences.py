"""How one value of two runs differs: by its largest value, element by element, and in units in the last place."""

from dataclasses import asdict

import numpy as np

from onnxc.measuring.values import compare_outputs
from onnxc.runtime.arrays import describe
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["ValueDifference", "compare_values"]

_INTEGERS = {2: "i2", 4: "i4", 8: "i8"}


@record
class ValueDifference:
    """A value of both runs. node: what computes it. a, b: its types there.

    difference: the largest, as a part of the largest value of b; infinite where types, shapes, or the positions of NaN
    differ. allowed: what counts as the same. max_abs, max_rel, max_ulps: over elements that are finite in both; None
    where there is nothing to subtract. nans: in how many elements only one of them is NaN.
    """

    name: str
    node: str
    a: str
    b: str
    difference: float
    allowed: float
    max_abs: float | None = None
    max_rel: float | None = None
    max_ulps: int | None = None
    nans: int = 0

    @property
    def is_same(self) -> bool:
        return self.difference <= self.allowed

    def to_json(self) -> dict[str, JsonValue]:
        """The fields; an infinite difference is null."""
        finite = self.difference if np.isfinite(self.difference) else None
        return {**asdict(self), "difference": finite, "same": self.is_same}


def compare_values(name: str, node: str, a: object, b: object, precision: str = "fp32") -> ValueDifference:
    """How `a` differs from `b`, which is taken for right; `precision` is the lower of what they were computed in."""
    agreement = compare_outputs({name: a}, {name: b}, precision)
    types = (describe(a), describe(b))
    plain = ValueDifference(name, node, *types, agreement.difference, agreement.allowed)
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)) or types[0] != types[1] or not a.size:
        return plain
    if a.dtype.kind not in "fciuV":
        return plain
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    both = np.isfinite(x) & np.isfinite(y)
    distance, size = np.abs(x - y)[both], np.abs(y)[both]
    relative = distance[size > 0] / size[size > 0]
    return ValueDifference(
        name,
        node,
        *types,
        agreement.difference,
        agreement.allowed,
        float(distance.max(initial=0.0)),
        float(relative.max(initial=0.0)),
        _ulps(a[both], b[both]),
        int(np.count_nonzero(np.isnan(x) != np.isnan(y))),
    )


def _ulps(a: np.ndarray, b: np.ndarray) -> int | None:
    """The most floats between two elements, by their bits, which are in the order of the floats."""
    integer = _INTEGERS.get(a.dtype.itemsize)
    if integer is None or a.dtype.kind not in "fV" or not a.size:
        return None
    least = int(np.iinfo(integer).min)
    ordered = []
    for each in (a, b):
        bits = np.ascontiguousarray(each).view(integer).astype(object if integer == "i8" else np.int64)
        ordered.append(np.where(bits < 0, least - bits, bits))
    return int(np.abs(ordered[0] - ordered[1]).max())
