"""The letters of a contraction in groups: which rows and columns are stepped through as one."""

import pytest

from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.planning.loops.matrix_products import panel_problem
from tests.codegen_cpu.support import make

A, B, H, M = (Size.symbol(name) for name in "ABHM")


@pytest.mark.parametrize(
    ("left", "equation", "rows", "outer"),
    [
        ("A, B, K", "abk,kn->abn", A * B, ""),
        ("A, B, K", "abk,kn->ban", A * B, ""),
        ("A, B, H, K", "abhk,kn->hban", A * B * H, ""),
        ("B, 7, K", "btk,kn->tbn", 7 * B, ""),
        ("A, K, B", "akb,kn->ban", A, "b"),
        ("A, H, K, B", "ahkb,kn->hban", A * H, "b"),
    ],
)
def test_rows_are_one_where_they_lie_so_in_whatever_order_they_are_wanted(
    left: str, equation: str, rows: Dim, outer: str
) -> None:
    module = make([f"f32[{left}]", "f32[K, N]"], lambda ir, x, w: ir.dot(x, w, equation))
    problem = panel_problem(module.main.body, 0)
    assert problem is not None
    assert (problem.rows, "".join(problem.outer)) == (rows, outer)


@pytest.mark.parametrize(
    ("left", "rows", "outer"),
    [
        ("B, K, 384", 384, "b"),
        ("B, K, 16", 16, "b"),
        ("B, K, 15", B, "m"),
        ("B, K, M", M, "b"),
        ("B, K, 40 * M", 40 * M, "b"),
    ],
)
def test_enough_known_rows_are_the_rows_beside_a_batch_that_may_be_one(left: str, rows: Dim, outer: str) -> None:
    module = make([f"f32[{left}]", "f32[K, N]"], lambda ir, x, w: ir.dot(x, w, "bkm,kn->bmn"))
    problem = panel_problem(module.main.body, 0)
    assert problem is not None
    assert (problem.rows, "".join(problem.outer)) == (rows, outer)
