"""The letters of a contraction in groups: which rows and columns are stepped through as one."""

import pytest

from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.planning.loops.matrix_products import panel_problem
from tests.codegen_cpu.support import make

A, B, H = (Size.symbol(name) for name in "ABH")


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
