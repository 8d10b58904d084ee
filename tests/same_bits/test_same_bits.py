"""The comparison of two checkouts: a checkout is the same as itself, and what differs is seen and named."""

from pathlib import Path

import numpy as np
import pytest

from tests.frontend.model_texts import model
from tests.same_bits.__main__ import Pair, compared, model_jobs, ratios
from tests.same_bits.compare import changed_kernels, difference, value_difference
from tests.same_bits.side import Side, kernels_of
from tests.same_bits.worker import Answer, Job

ROOT = Path(__file__).parents[2]
X = np.float32([1.0, -2.0, 0.0])


def job() -> Job:
    made = model("g (float[N] x) => (float[N] y) { z = Exp(x) y = Neg(z) }")
    return Job(model=made.SerializeToString(), feeds=[[X], [X[:0]]])


def answer(*outputs: object, error: str = "", seconds: float = 1.0) -> Answer:
    return Answer(error=error, outputs=[list(outputs)], compile_s=seconds, call_s=seconds)


def test_a_checkout_is_the_same_as_itself() -> None:
    sides = Side(ROOT), Side(ROOT)
    pair = compared("exp", job(), *sides)
    for side in sides:
        side.stop()
    assert (pair.difference, pair.kernels, pair.now["error"]) == ("", "", "")
    assert [[np.shape(y) for y in call] for call in pair.now["outputs"]] == [[(3,)], [(0,)]]


def test_what_is_refused_and_what_takes_too_long_are_errors_of_the_job() -> None:
    side = Side(ROOT, limit_s=300.0)
    assert side.ask(Job(model=b"no model", feeds=[]))["error"] == "DiagnosedModelError: not-a-model"
    side.limit_s = 0.0
    assert side.ask(job())["error"] == "no answer within 0 s"
    side.limit_s = 300.0
    assert side.ask(job())["error"] == ""
    side.stop()


def test_the_models_of_a_folder_come_with_their_inputs(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    np.savez(tmp_path / "m.npz", X, X[:1])
    ((name, found),) = model_jobs(tmp_path)
    assert (name, found["model"]) == ("m", str(tmp_path / "m.onnx"))
    assert [value.tolist() for value in found["feeds"][0]] == [X.tolist(), X[:1].tolist()]


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (X, X.copy(), ""),
        (np.array(np.nan, np.float32), np.array(np.nan, np.float32), ""),
        (X, np.float32([1.0, -2.0, -0.0]), "1 of 3 elements, by 0.0e+00 of the largest"),
        (X, np.float32([1.0, -2.0, 0.5]), "1 of 3 elements, by 2.5e-01 of the largest"),
        (X, X[:2], "float32[3] -> float32[2]"),
        (X, X.astype(np.float64), "float32[3] -> float64[3]"),
        (X[:0], X[:0], ""),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), "1 of 2 elements"),
        ([X, X], [X], "2 -> 1 elements"),
        ([X, X], [X, X + 1], "3 of 3 elements, by 5.0e-01 of the largest"),
        (None, None, ""),
        (None, X, "NoneType -> ndarray"),
    ],
)
def test_values_are_compared_bit_by_bit(x: object, y: object, words: str) -> None:
    assert value_difference(x, y) == words


def test_answers_differ_in_errors_and_in_their_outputs() -> None:
    assert difference(answer(X), answer(error="ModelError: x")) == "ran -> ModelError: x"
    assert difference(answer(X), answer(X, X)) == "call 0: 1 -> 2 outputs"
    assert difference(answer(X), answer(X + 1)).startswith("call 0, output 0: 3 of 3")
    assert difference(answer(X), answer(X)) == ""


PLAN = """plan "m"
  weight w0 = constant 0
  kernel k0 pointwise (s0) {block = 1}
    block(%a0: f32[s0]) {
      return %a0
    }
  kernel k1 reduction () {split = 2}
    block(%a0: f32[3]) {
    }
  segment (%x) -> (%0), arena 0 bytes
    launch k0 (input 0) -> output 0
"""


def test_kernels_of_plans_are_compared_without_their_names() -> None:
    before = kernels_of(PLAN)
    assert [kernel.splitlines()[0] for kernel in before] == ["pointwise (s0) {block = 1}", "reduction () {split = 2}"]
    assert changed_kernels(before, kernels_of(PLAN.replace("k0", "k7"))) == ""
    assert changed_kernels(before, kernels_of(PLAN.replace("split = 2", "split = 4"))) == "1 -> 1 reduction"
    assert changed_kernels(before, before[:1]) == "1 -> 0 reduction"


def test_times_are_compared_where_both_ran() -> None:
    pairs = [Pair("a", answer(seconds=1.0), answer(seconds=2.0)), Pair("b", answer(), answer(error="x", seconds=9.0))]
    assert ratios(pairs, "call_s") == "geometric mean 2.000, of the sums 2.000; largest a 2.00"
    assert ratios(pairs[1:], "call_s") == "nothing ran"
