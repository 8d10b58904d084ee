"""Whole models and official cases on the device: the values, and that graphs give the same.

What is right, and how far a precision may be from it, was computed when the pack was made (pack_models.py).
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.gpu.bench import Bench, Row, rows_in_time
from benchmarks.gpu.kernel_values import distribution, worst_error
from benchmarks.gpu.pack_file import PackedModel
from benchmarks.gpu.packed_models import executable_of, pack_of

__all__ = ["model_values"]

CALLS = 3
"""The third is the first that is replayed from a graph."""


def model_values(bench: Bench) -> Iterator[Row]:
    """One row for each model and precision, then how the errors are distributed."""
    models = [model for model in pack_of(bench).index.models if not model.is_skeleton]
    rows = []
    for row in rows_in_time(bench, [(f"{m.name}/{m.precision}", partial(_row, bench, m)) for m in models]):
        rows.append(row)
        yield row
    yield {"name": "distribution", **distribution(rows)}


def _row(bench: Bench, model: PackedModel) -> Row:
    """The worst error at each feed, whether a replayed graph gives the same bits."""
    executable = executable_of(bench, model)
    worst, same = 0.0, True
    for given, wanted in pack_of(bench).feeds(model):
        results = [{name: np.asarray(y) for name, y in executable.run(given).items()} for _ in range(CALLS)]
        worst = max([worst, *(worst_error(results[0][name], wanted[name]) for name in wanted)])
        same &= all(
            np.array_equal(results[0][name], again[name], equal_nan=again[name].dtype.kind in "fc")
            for again in results
            for name in wanted
        )
    return {"error_ratio": worst, "bound": model.bound, "same_in_a_graph": same, "ok": worst <= model.bound and same}
