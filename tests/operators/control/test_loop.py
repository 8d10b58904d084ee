"""Loop: its iteration and condition come to the body in the shapes that it declares."""

import numpy as np
import pytest

import onnxc
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
