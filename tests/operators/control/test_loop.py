"""Loop: the shapes in which its iteration and condition come to the body, and the ranks of what it stacks."""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import InputError
from tests.operators.host_models import TARGETS
from tests.support.models import model_from_text

COUNTING = """
<ir_version: 10, opset_import: ["": 21]>
count (int64 trips, bool going, int64[3] x) => (int64[3] last, int64[n, ...] seen)
{{
  last, seen = Loop (trips, going, x) <
    body = b ({iteration} i, {condition} c, int64[3] v) => (kept, w, seen) {{
      kept = Identity (c) w = Add (v, i) seen = Identity (i)
    }} >
}}"""


@pytest.mark.parametrize("trips", [0, 1, 4])
@pytest.mark.parametrize("condition", ["bool", "bool[1]"])
@pytest.mark.parametrize(("iteration", "shape"), [("int64", ()), ("int64[1]", (1,)), ("int64[one]", (1,))])
def test_a_scalar_or_a_vector_of_one(iteration: str, shape: tuple[int, ...], condition: str, trips: int) -> None:
    text = COUNTING.format(iteration=iteration, condition=condition).replace("[n, ...]", f"[n{', 1' * len(shape)}]")
    exe = onnxc.compile(model_from_text(text))
    last, seen = exe(np.array(trips), np.array(True), np.array([5, -1, 0]))
    rounds = np.arange(trips).reshape(trips, *shape)
    np.testing.assert_array_equal(last, np.array([5, -1, 0]) + rounds.sum(), strict=True)
    np.testing.assert_array_equal(seen, rounds, strict=True)


OF_ANY_RANK = """
<ir_version: 10, opset_import: ["": 21]>
stack (int64 trips, float[] x, float[] start) => (float[] last, float[] seen) {
  last, seen = Loop (trips, , start) <
    body = b (int64 i, bool c, float[] v) => (kept, w, s) { kept = Identity (c) w = Add (v, x) s = Identity (w) }
  >
}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (2,), (1, 2), (0, 2), (2, 1, 2)])
def test_elements_of_a_rank_that_only_the_call_tells_are_stacked(shape: tuple[int, ...], target: str) -> None:
    exe = onnxc.compile(model_from_text(OF_ANY_RANK), target=target)
    x, start = np.ones(shape, np.float32), np.array([1, -3], np.float32)
    expected = [start + x, start + x + x, start + x + x + x]
    last, seen = exe(np.array(3), x, start)
    np.testing.assert_array_equal(last, expected[-1], strict=True)
    np.testing.assert_array_equal(seen, np.stack(expected), strict=True)


@pytest.mark.parametrize("target", TARGETS)
def test_a_stack_of_no_elements_of_unknown_rank_has_one_axis(target: str) -> None:
    exe = onnxc.compile(model_from_text(OF_ANY_RANK), target=target)
    last, seen = exe(np.array(0), np.ones((2, 1), np.float32), np.ones((), np.float32))
    np.testing.assert_array_equal(last, np.ones((), np.float32), strict=True)
    np.testing.assert_array_equal(seen, np.ones(0, np.float32), strict=True)


@pytest.mark.parametrize("target", TARGETS)
def test_elements_that_differ_in_rank_are_not_stacked(target: str) -> None:
    text = OF_ANY_RANK.replace("s = Identity (w)", "s = Identity (v)")
    exe = onnxc.compile(model_from_text(text), target=target)
    with pytest.raises(InputError, match="iteration 1 gives an element of shape"):
        exe(np.array(2), np.ones((2, 1), np.float32), np.ones((), np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_a_scan_of_elements_of_unknown_rank(target: str) -> None:
    text = """
<ir_version: 10, opset_import: ["": 21]>
stack (float[n] x, float[] y) => (float[] seen) {
  seen = Scan <num_scan_inputs = 1, body = b (float e) => (s) { s = Mul (e, y) }> (x)
}"""
    exe = onnxc.compile(model_from_text(text), target=target)
    x, y = np.array([2, 3], np.float32), np.array([[1], [-1]], np.float32)
    np.testing.assert_array_equal(exe(x, y), np.stack([2 * y, 3 * y]), strict=True)
