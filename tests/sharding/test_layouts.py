"""Operands and results that are divided each by itself: what does not fit is exchanged, results stay the same."""

import pytest

from onnxc.compiler.ir.primitive import PRIMITIVES
from tests.ir.cases import CASES
from tests.sharding.all_layouts import apart, prove_apart, value_layouts
from tests.sharding.test_partition import DIVIDED, MESHES, mesh_of

CASES_OF_OP, SAMPLE = 2, 1
"""So many cases of each op, and layouts of each; the command of all_layouts.py takes all cases, and many layouts."""


@pytest.mark.parametrize("mesh", MESHES)
def test_values_that_are_divided_apart_give_the_same(mesh: str) -> None:
    counts = [
        prove_apart(case, mesh_of(mesh), SAMPLE)
        for name in DIVIDED
        for case in CASES[name][: 1 if PRIMITIVES[name].kind == "pointwise" else CASES_OF_OP]
    ]
    assert sum(counts) > len(DIVIDED)


def test_all_ways_to_divide_a_value_are_taken() -> None:
    """A matrix on 2 x 2: whole, by one axis (4) or both (4) along one of its axes, by one along each (2)."""
    assert len(value_layouts(mesh_of("d0=2, d1=2"), 2)) == 1 + 4 + 4 + 2
    assert (
        len(list(apart(CASES["neg"][0], mesh_of("d0=4"), 10_000)))
        == len(value_layouts(mesh_of("d0=4"), CASES["neg"][0].op().operands[0].rank)) ** 2
    )
