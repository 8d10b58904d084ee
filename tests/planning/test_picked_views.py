"""What indices pick: stepping through a buffer behind an index gives what gathers and movements give."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.loops.matrix_products import line_problem, panel_problem, picks_matrices
from onnxc.compiler.planning.loops.picked_views import PickedView, operand_pick
from tests.planning.plans import make
from tests.planning.test_views import elements, movements


def _elements(view: PickedView, data: np.ndarray, indices: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
    """What the view shows, element by element."""
    picked = elements(view.ordinals, indices.reshape(-1), sizes) * evaluate(view.step, sizes)
    places = elements(view.data, np.arange(data.size), sizes)
    shown: np.ndarray = data.reshape(-1)[places + picked]
    return shown


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_picked_view_is_what_the_gather_and_its_movements_give(data: st.DataObject) -> None:
    axis, rank = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))

    def build(ir: Builder, x: Value, i: Value, sized: Value) -> Value:
        inner = ir.slice(ir.transpose(x, (0, 2, 1)), (1, 0, 0), (3, 5, 3))
        return data.draw(movements(ir, ir.gather(inner, i, axis)))

    module = make(["f32[4, 3, 5]", f"i64[{', '.join(('N', '2')[:rank])}]", "f32[N]"], build)
    view = operand_pick(module.main.body.results[0])
    array = np.arange(60, dtype=np.float32).reshape(4, 3, 5)
    for count in (0, 1, 3):
        shape = (count, 2)[:rank]
        indices = (2 * np.arange(prod(shape)) % 3).reshape(shape)
        (expected,) = interpret(module, {"x0": array, "x1": indices, "x2": np.zeros(count, np.float32)})
        if view is not None:
            np.testing.assert_array_equal(_elements(view, array, indices, {"N": count}), expected)


@pytest.mark.parametrize(
    ("right", "equation", "is_read"),
    [
        ("f32[7, 40]", "amk,ak->am", True),
        ("f32[7, 40]", "amk,ak->ma", True),
        ("f32[7, 40]", "amk,ak->m", False),
        ("f32[40]", "amk,k->am", False),
    ],
)
def test_matrices_are_picked_along_letters_that_both_operands_and_the_result_have(
    right: str, equation: str, is_read: bool
) -> None:
    module = make(["f32[3, 70, 40]", "i64[7]", right], lambda ir, w, i, x: ir.dot(ir.gather(w, i, 0), x, equation))
    block = module.main.body
    dot = next(op for op in block.ops if op.name == "dot")
    pick = operand_pick(dot.operands[0])
    assert pick is not None
    assert picks_matrices(dot, 0, pick) is is_read
    lines = line_problem(block, 0)
    assert (lines is not None) is is_read
    assert panel_problem(block, 0) is None
    if lines is not None:
        assert (lines.m, lines.outer, lines.a_pick) == (("m",), ("a",), pick)
        assert lines.a_strides["a"] == 0
