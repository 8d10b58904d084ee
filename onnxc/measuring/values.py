"""Whether two runtimes give the same answer: a speed without it is none."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from onnxc.runtime.records import record

__all__ = ["Agreement", "compare_outputs", "worst"]

TOLERANCES = {2: 3e-2, 4: 1e-3, 8: 1e-6}
"""Of the largest value, by the bytes of a float. In f32 exported models differ by up to 4e-6 from what ONNX Runtime
gives (benchmarks/results/cpu.md), and by 2e-3 where a runtime computes in bf16 unasked, which is to be noticed."""

NARROWED = 2
"""The bytes of a float where f32 is computed in a lower precision."""


@record
class Agreement:
    """The output that differs most, by how much of its largest value, and how much may be.

    A difference is infinite where shapes, types, or the places of NaN differ; integers and texts that are not equal
    differ by more than may be.
    """

    output: str
    difference: float
    allowed: float

    @property
    def is_same(self) -> bool:
        return self.difference <= self.allowed


def compare_outputs(ours: Mapping[str, object], theirs: Mapping[str, object], precision: str = "fp32") -> Agreement:
    """How the outputs of one call agree with those of another; `precision` is what ours were computed in."""
    if list(ours) != list(theirs):
        missing = next(iter(set(ours) ^ set(theirs)), "the order of outputs")
        return Agreement(missing, float("inf"), 0.0)
    return worst([_compare(name, ours[name], theirs[name], precision) for name in ours])


def worst(agreements: Iterable[Agreement]) -> Agreement:
    """The one that differs most among those that differ by more than may be, else among all."""
    return max(agreements, key=lambda each: (not each.is_same, each.difference), default=Agreement("", 0.0, 0.0))


def _compare(name: str, ours: object, theirs: object, precision: str) -> Agreement:
    """The numbers of all maps of an output, as those of ZipMap, are compared together: small ones are no more exact."""
    scalars, agreements = [], []
    for pair in _pairs(ours, theirs):
        if all(isinstance(value, int | float | np.integer | np.floating) for value in pair):
            scalars.append(pair)
        else:
            agreements.append(_compare_leaves(name, *pair, precision))
    if scalars:
        mine = np.array([value for value, _ in scalars])
        agreements.append(_compare_leaves(name, mine, np.array([value for _, value in scalars], mine.dtype), precision))
    return worst(agreements) if agreements else Agreement(name, 0.0, 0.0)


def _pairs(ours: object, theirs: object) -> Iterator[tuple[object, object]]:
    """What is inside of two values in the same position; the two themselves where they have not the same inside.

    A sequence is a tuple to us and a list to others.
    """
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple) and len(ours) == len(theirs):
        for pair in zip(ours, theirs, strict=True):
            yield from _pairs(*pair)
    elif isinstance(ours, Mapping) and isinstance(theirs, Mapping) and ours.keys() == theirs.keys():
        for key, value in ours.items():
            yield from _pairs(value, theirs[key])
    else:
        yield ours, theirs


def _compare_leaves(name: str, ours: object, theirs: object, precision: str) -> Agreement:
    if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray):
        return Agreement(name, 0.0 if ours == theirs else float("inf"), 0.0)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return Agreement(name, float("inf"), 0.0)
    if ours.dtype.kind not in "fcV":
        return Agreement(name, float(np.mean(ours != theirs)) if ours.size else 0.0, 0.0)
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    nbytes = NARROWED if precision != "fp32" else ours.real.dtype.itemsize
    allowed = TOLERANCES.get(nbytes, TOLERANCES[NARROWED])
    return Agreement(name, _difference(ours.astype(wide), theirs.astype(wide)), allowed)


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, as a part of the largest finite value of theirs."""
    different = ~((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
    if not different.any():
        return 0.0
    distance = np.abs(ours[different] - theirs[different])
    if not np.isfinite(distance).all():
        return float("inf")
    scale = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0))
    return float(distance.max()) / (scale or 1.0)
