"""MoE of com.microsoft against ONNX Runtime."""

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError, UnsupportedError
from tests.operators.microsoft.agreement import assert_agrees, integers, make_model, normal, run_ours

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


# ONNX Runtime's kernel rounds what it multiplies with blocks of 8 bits, and scales weights to a sum of 1 whatever the
# attribute says; both only on a CPU.
@pytest.mark.parametrize(("bits", "block"), [(4, 0), (8, 0), (4, 32)])
@pytest.mark.parametrize("activation", ["silu", "swiglu"])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_qmoe(has_zeros: bool, activation: str, block: int, bits: int) -> None:
    width, hidden = 32, 64
    entering = width * 2 if activation == "swiglu" else width

    def scales(rows: int, columns: int, seed: int) -> np.ndarray:
        shape = (E, rows, columns // block) if block else (E, rows)
        return np.abs(normal(*shape, seed=seed)) * np.float32(0.01)

    def zeros(rows: int, columns: int, seed: int) -> np.ndarray:
        per_block = (rows, -(-(columns // block) * bits // 8)) if block else (rows * bits // 8,)
        return integers(0, 256, E, *per_block, seed=seed)

    inputs: dict[str, np.ndarray | None] = {
        "x": normal(6, hidden),
        "router": normal(6, E, seed=1),
        "w1": integers(0, 256, E, entering, hidden * bits // 8, seed=2),
        "s1": scales(entering, hidden, 3),
        "b1": None,
        "w2": integers(0, 256, E, hidden, width * bits // 8, seed=4),
        "s2": scales(hidden, width, 5),
    }
    if has_zeros:
        inputs |= dict.fromkeys(("b2", "w3", "s3", "b3"))
        inputs["z1"] = zeros(entering, hidden, 6)
        inputs["z2"] = zeros(hidden, width, 7)
    options: dict[str, object] = {"activation_type": activation, "expert_weight_bits": bits, "k": 2}
    options["normalize_routing_weights"] = 1
    options |= {"block_size": block} if block else {}
    options |= {"swiglu_fusion": 1} if activation == "swiglu" else {}
    constants = [name for name, value in inputs.items() if value is not None and name not in ("x", "router")]
    assert_agrees("QMoE", inputs, constants=constants, **options)
