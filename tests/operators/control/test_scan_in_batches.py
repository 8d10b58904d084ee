"""Scan as it was in opset 8, against a loop over batch and time."""

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from tests.operators.host_models import TARGETS, run_text
from tests.support.arrays import assert_same

HEADER = '<ir_version: 3, opset_import: ["" : 8]>\n'
X = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
START = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
BODY = """body = b (float[3] before, float[3] e) => (float[3] after, float[3] out) {
    after = Add(before, e) out = Mul(before, e)
}"""


def expected(lengths: list[int], *, backwards: bool) -> tuple[np.ndarray, np.ndarray]:
    state, out = START.copy(), np.zeros_like(X)
    for b, length in enumerate(lengths):
        for t in range(length):
            x = X[b, length - 1 - t if backwards else t]
            out[b, t] = state[b] * x
            state[b] += x
    return state, out


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lengths", [None, [4, 4], [1, 3], [0, 2]])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("sizes", ["2, 4", "B, L"])
def test_lengths_and_directions(target: str, lengths: list[int] | None, backwards: bool, sizes: str) -> None:
    attributes = f"num_scan_inputs = 1, directions = [{int(backwards)}], {BODY}"
    batch = sizes.split(",", maxsplit=1)[0]
    given = "" if lengths is None else f"int64[{batch}] lens, "
    text = (
        HEADER
        + f"""g ({given}float[{batch}, 3] s, float[{sizes}, 3] x) => (float[M, 3] last, float[P, Q, 3] y) {{
        last, y = Scan<{attributes}>({"" if lengths is None else "lens"}, s, x)
    }}"""
    )
    inputs = {"s": START, "x": X} | ({} if lengths is None else {"lens": np.array(lengths)})
    last, y = run_text(text, inputs, target)
    state, out = expected(lengths or [4, 4], backwards=backwards)
    assert_same(last, state)
    assert_same(y, out)


def test_a_scanned_input_needs_its_two_axes() -> None:
    text = HEADER + "g (float[3] s, float[3] x) => (float[M] a, float[N] y) {"
    with pytest.raises(DiagnosedModelError, match="without batch and sequence axes"):
        run_text(text + f" a, y = Scan<num_scan_inputs = 1, {BODY}>(, s, x) }}", {})


@pytest.mark.parametrize("target", TARGETS)
def test_texts_end_in_empty_ones(target: str) -> None:
    body = "body = b (string s, string e) => (string t, string p) { t = Identity(e) p = Identity(e) }"
    graph = "g (int64[2] lengths, string[2] state, string[2, 2] x) => (string[2] last, string[2, 2] y)"
    text = f"{HEADER}{graph} {{ last, y = Scan<num_scan_inputs = 1, {body}>(lengths, state, x) }}"
    x = np.array([["a", "b"], ["c", "d"]], object)
    last, y = run_text(text, {"lengths": np.array([1, 2]), "state": np.array(["", ""], object), "x": x}, target)
    assert_same(last, np.array(["a", "d"], object))
    assert_same(y, np.array([["a", ""], ["c", "d"]], object))
