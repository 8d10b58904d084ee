"""FlexAttention against its formula."""

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from tests.operators.host_models import TARGETS, run_text
from tests.support.arrays import assert_close

HEADER = '<ir_version: 10, opset_import: ["" : 24, "ai.onnx.preview" : 1]>\n'
RANDOM = np.random.default_rng(0)
Q, K, V = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 7)))
MASKED = """score_mod = s (float[2, 4, L, 6] x) => (float[2, 4, L, 6] y) {
    half = Constant<value = float {0.5}>() y = Mul(x, half)
}"""
SCALED = """prob_mod = p (float[2, 4, L, 6] x) => (float[2, 4, L, 6] y) {
    two = Constant<value = float {2.0}>() y = Mul(x, two)
}"""


def model(attributes: str, kind: str = "float", sizes: str = "2, 4, L, 5") -> str:
    types = f"{kind}[{sizes}] q, {kind}[2, 2, 6, 5] k, {kind}[2, 2, 6, 7] v"
    options = f"<{attributes}>" if attributes else ""
    return HEADER + f"g ({types}) => ({kind}[2, 4, L, 7] y) {{ y = ai.onnx.preview.FlexAttention{options}(q, k, v) }}"


def expected(scale: float = 5**-0.5, score: float = 1.0, probability: float = 1.0) -> np.ndarray:
    k, v = (np.repeat(value.astype(np.float64), 2, 1) for value in (K, V))
    scores = Q.astype(np.float64) @ k.swapaxes(-1, -2) * scale * score
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) * probability @ v


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("attributes", "factors"),
    [
        ("", {}),
        ("scale = 0.25", {"scale": 0.25}),
        (MASKED, {"score": 0.5}),
        (SCALED, {"probability": 2.0}),
        (f"{MASKED}, {SCALED}, scale = 2.0", {"scale": 2.0, "score": 0.5, "probability": 2.0}),
    ],
)
def test_graphs_change_scores_and_probabilities(target: str, attributes: str, factors: dict[str, float]) -> None:
    (y,) = run_text(model(attributes), {"q": Q, "k": K, "v": V}, target)
    assert_close(y, expected(**factors).astype(np.float32), terms=8)


@pytest.mark.parametrize(("kind", "dtype"), [("double", np.float64), ("float16", np.float16)])
def test_other_floats(kind: str, dtype: type[np.generic]) -> None:
    inputs = {name: value.astype(dtype) for name, value in (("q", Q), ("k", K), ("v", V))}
    for attributes in ("", "softmax_precision = 1"):
        (y,) = run_text(model(attributes, kind), inputs)
        # Precision 1 is f32.
        assert_close(
            y,
            expected().astype(dtype),
            terms=8,
            accumulator=np.float32 if attributes and dtype == np.float64 else dtype,
        )


def test_the_graphs_keep_the_type() -> None:
    wrong = "score_mod = s (float[2, 4, L, 6] x) => (float[2, 4, L] y) { y = ReduceSum<keepdims = 0>(x, axes) }"
    wrong = wrong.replace("{ y", "{ axes = Constant<value_ints = [3]>() y")
    with pytest.raises(DiagnosedModelError, match="score_mod takes"):
        run_text(model(wrong), {})


def test_heads_that_cannot_be_shared_are_refused() -> None:
    with pytest.raises(DiagnosedModelError, match="3 heads of Q cannot share 2"):
        run_text(model("", sizes="2, 3, L, 5"), {})
