"""Every axes rule with every layout: `python -m tests.sharding.all_layouts [MOST [OP ...]]`; tests hold a sample.

For each case of an op and each mesh: all divisions along its factors, with all sizes and with and without those of
results; then each operand and result divided by itself, in all ways, or MOST of them (200) drawn where there are more.
"""

import itertools
import sys
from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from onnxc.compiler.ir.sharding import Mesh
from onnxc.compiler.sharding.factors import factors_of, has_axes
from tests.ir.cases import CASES, Case
from tests.sharding.test_partition import (
    DIVIDED,
    MESHES,
    Layout,
    divided_module,
    layouts,
    mesh_of,
    prove,
    stated_module,
)

MOST = 200


def value_layouts(mesh: Mesh, rank: int) -> list[Layout]:
    """Every way to divide a value of `rank`, whole first."""
    return [{}, *({axis: axes for axis, axes in enumerate(chosen) if axes} for chosen in layouts(mesh, rank))]


def apart(case: Case, mesh: Mesh, most: int) -> Iterator[tuple[Sequence[Layout], Sequence[Layout]]]:
    """Layouts of operands and of results, each chosen by itself: all, or `most` that are drawn."""
    op = case.op()
    choices = [value_layouts(mesh, value.rank) for value in (*op.operands, *op.results)]
    count, random = prod(map(len, choices)), np.random.default_rng(len(choices))
    drawn = range(count) if count <= most else (int(each) for each in random.integers(0, count, most))
    sizes = [len(each) for each in choices]
    for ordinal in drawn:
        chosen = [each[int(k)] for each, k in zip(choices, np.unravel_index(ordinal, sizes), strict=True)]
        yield chosen[: len(op.operands)], chosen[len(op.operands) :]


def prove_apart(case: Case, mesh: Mesh, most: int) -> int:
    """How many layouts were held against the whole; none of an op with values that have no axes."""
    op, choices, count = case.op(), list(case.sizes()), 0
    if all(map(has_axes, (*op.operands, *op.results))):
        for operands, results in apart(case, mesh, most):
            prove(case, mesh, stated_module(case, mesh, operands, results), choices[-1:])
            count += 1
    return count


def prove_along_factors(case: Case, mesh: Mesh) -> int:
    """How many divisions along factors were held against the whole, for all sizes."""
    op, count = case.op(), 0
    factors = factors_of(op) if all(map(has_axes, (*op.operands, *op.results))) else ()
    for chosen, results in itertools.product(layouts(mesh, len(factors)), (False, True)):
        prove(case, mesh, divided_module(case, mesh, chosen, results=results), list(case.sizes()))
        count += 1
    return count


def main() -> None:
    """Prints how many layouts of each op hold; the first that does not ends it."""
    most, total = int(sys.argv[1]) if len(sys.argv) > 1 else MOST, 0
    for name, text in itertools.product(sys.argv[2:] or DIVIDED, MESHES):
        mesh = mesh_of(text)
        counts = [prove_along_factors(case, mesh) + prove_apart(case, mesh, most) for case in CASES[name]]
        total += sum(counts)
        print(f"{name} on {text}: {sum(counts)} layouts of {len(counts)} cases", flush=True)
    print(f"{total} layouts hold")


if __name__ == "__main__":
    main()
