"""MoE of com.microsoft against ONNX Runtime."""

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError, UnsupportedError
from tests.operators.microsoft.agreement import assert_agrees, make_model, normal, run_ours

E, F, H = 4, 6, 5


def operands(*, fused: bool = False, has_bias: bool = False) -> dict[str, np.ndarray | None]:
    width = 2 * F if fused else F
    return {
        "x": normal(2, 3, H),
        "router": normal(6, E, seed=1),
        "w1": normal(E, width, H, seed=2),
        "b1": normal(E, width, seed=3) if has_bias else None,
        "w2": normal(E, H, F, seed=4),
        "b2": normal(E, H, seed=5) if has_bias else None,
    }


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("normalized", [0, 1])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
def test_moe(activation: str, normalized: int, k: int) -> None:
    options = {"activation_type": activation, "normalize_routing_weights": normalized, "k": k}
    assert_agrees("MoE", operands(has_bias=k == 2), **options)


@pytest.mark.parametrize("limit", [None, 0.5])
def test_moe_with_swiglu(limit: float | None) -> None:
    options: dict[str, object] = {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_fusion": 1, "k": 2}
    options |= {} if limit is None else {"swiglu_limit": limit}
    assert_agrees("MoE", operands(fused=True, has_bias=True), activation_type="swiglu", **options)


def test_moe_of_no_known_form_is_refused() -> None:
    inputs = operands()
    with pytest.raises(UnsupportedError, match="softmax"):
        run_ours(make_model("MoE", inputs, use_sparse_mixer=1), inputs)
    with pytest.raises(ModelError, match="expert-shape"):
        run_ours(make_model("MoE", inputs | {"w2": normal(E, H, F + 1)}), inputs)
