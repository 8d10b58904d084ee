"""The cases of the sweep, one file for each kind of operator."""

from collections.abc import Sequence
from functools import cache

from benchmarks.operators.case import OperatorCase
from benchmarks.operators.suites import (
    casts,
    elementwise,
    indexing,
    learning,
    movements,
    normalizations,
    products,
    reductions,
    signals,
    texts,
    windows,
)

SUITES = (
    elementwise, casts, reductions, normalizations, movements, indexing, windows, products, signals, learning,
    texts,
)  # fmt: skip


@cache
def all_cases() -> Sequence[OperatorCase]:
    """Every case once, in a fixed order."""
    return tuple({case.name: case for suite in SUITES for case in suite.cases()}.values())
