"""Linear attention, gates, streams and 4-bit floats of com.microsoft: what is not drawn, and what is refused.

`tests/differential/microsoft/streams.py` draws cases of each that agree with ONNX Runtime.
"""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import InputError, ModelError, UnsupportedError
from tests.operators.microsoft.agreement import assert_agrees, assert_all_close, integers, make_model, normal, run_ours

# Weights of 4-bit floats

NF4_OF_0_AND_15 = (-1.0, 1.0)


@pytest.mark.parametrize("constants", [["b", "absmax"], []], ids=["known", "given"])
def test_a_product_with_bnb4_weights_that_are_not_transposed(constants: list[str]) -> None:
    n, k = 3, 7
    signs = np.random.default_rng(0).integers(0, 2, n * k + 1)
    inputs = {
        "a": normal(2, n),
        "b": np.asarray(signs[::2] * 0xF0 + signs[1::2] * 0x0F, np.uint8),
        "absmax": np.float32([2, 3]),
    }
    weights = np.take(NF4_OF_0_AND_15, signs)[: n * k] * np.repeat([2, 3], 16)[: n * k]
    options = {"K": k, "N": n, "block_size": 16, "quant_type": 1, "transB": 0, "constants": constants}
    (result,) = run_ours(make_model("MatMulBnb4", inputs, **options), inputs)
    assert_all_close([result], [inputs["a"] @ np.asarray(weights.reshape(n, k), np.float32)])


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"quant_type": 2}, ModelError, "quant_type is 2"),
        ({"block_size": 0}, ModelError, "block_size"),
        ({"K": 33}, ModelError, "B is"),
        ({"block_size": 16}, ModelError, "absmax"),
    ],
    ids=["format", "block", "weights", "scales"],
)
def test_bnb4_weights_that_do_not_fit_are_refused(changed: dict[str, int], error: type, words: str) -> None:
    inputs = {"a": normal(2, 32), "b": integers(0, 256, 48), "absmax": normal(3)}
    options = {"K": 32, "N": 3, "block_size": 32, "quant_type": 0, **changed}
    with pytest.raises(error, match=words):
        run_ours(make_model("MatMulBnb4", inputs, **options), inputs)


# Linear attention


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("heads", [(2, 2, 2), (4, 2, 2), (1, 1, 3), (2, 1, 4)], ids=str)
def test_linear_attention_of_sizes_that_a_call_gives(heads: tuple[int, int, int], length: int) -> None:
    q, k, groups = heads
    inputs = {
        "q": normal(2, length, q * 4),
        "k": normal(2, length, k * 4, seed=1),
        "v": normal(2, length, groups * 3, seed=2),
        "past": normal(2, groups, 4, 3, seed=3),
        "decay": -abs(normal(2, length, groups, seed=4)),
        "beta": abs(normal(2, length, 1, seed=5)),
    }
    shapes = {name: ["b", "l", value.shape[2]] for name, value in inputs.items() if name != "past"}
    options = {"q_num_heads": q, "kv_num_heads": groups, "outputs": ["y", "present"]}
    y, _ = assert_agrees("LinearAttention", inputs, shapes={**shapes, "past": ["b", groups, 4, 3]}, **options)
    assert y.shape == (2, length, max(q, groups) * 3)


@pytest.mark.parametrize(
    ("heads", "error", "words"),
    [
        ((2, 3, 0), ModelError, "cannot share"),
        ((0, 2, 0), ModelError, "are 0 and 2"),
        ((2, 2, 1), UnsupportedError, "state_window"),
    ],
    ids=["shared", "none", "window"],
)
def test_linear_attention_that_is_not_one_is_refused(heads: tuple[int, int, int], error: type, words: str) -> None:
    q, groups, window = heads
    inputs = {"q": normal(1, 2, 8), "k": normal(1, 2, 8), "v": normal(1, 2, 6)}
    options = {"q_num_heads": q, "kv_num_heads": groups, "state_window": window, "update_rule": "linear"}
    with pytest.raises(error, match=words):
        run_ours(make_model("LinearAttention", inputs, outputs=["y", "present"], **options), inputs)


def test_a_rate_without_its_operand_is_refused() -> None:
    inputs = {"a": normal(1, 2, 3), "bias": normal(3), "scale": normal(3)}
    with pytest.raises(ModelError, match="b is left out"):
        run_ours(make_model("LinearAttentionGate", inputs, outputs=["decay", "beta"]), inputs)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("last", [0, 1])
def test_causal_convolutions_of_sizes_that_a_call_gives(last: int, dilation: int) -> None:
    held = 2 * dilation
    inputs = {
        "x": normal(2, 5, 4) if last else normal(2, 4, 5),
        "w": normal(4, 1, 3),
        "bias": None,
        "past": normal(2, held, 4) if last else normal(2, 4, held),
    }
    shapes = {"x": ["b", "l", "c"] if last else ["b", "c", "l"], "past": ["b", held, "c"] if last else ["b", "c", held]}
    options = {"channels_last": last, "dilation": dilation, "outputs": ["y", "present"]}
    assert_agrees("CausalConvWithState", inputs, shapes=shapes, **options)


@pytest.mark.parametrize(
    ("attributes", "error", "words"),
    [
        ({"dilation": 0}, ModelError, "dilation is 0"),
        ({"ndim": 2}, UnsupportedError, "ndim is 2"),
        ({"state_window": 2}, UnsupportedError, "state_window"),
        ({"state_length": 4}, UnsupportedError, "state_length"),
    ],
    ids=str,
)
def test_other_causal_convolutions_are_refused(attributes: dict[str, int], error: type, words: str) -> None:
    inputs = {"x": normal(1, 2, 3), "w": normal(2, 1, 2)}
    with pytest.raises(error, match=words):
        run_ours(make_model("CausalConvWithState", inputs, outputs=["y", "present"], **attributes), inputs)


# Rotations by three positions


@pytest.mark.parametrize("layout", [0, 1])
def test_rotations_by_three_positions_of_a_call(layout: int) -> None:
    phase = np.arange(8, dtype=np.float32)[:, None] / 10.0 ** np.arange(6, dtype=np.float32)
    inputs = {
        "x": normal(2, 3, 5, 12),
        "positions": integers(0, 8, 3, 2, 5, dtype=np.int64),
        "cos": np.cos(phase),
        "sin": np.sin(phase),
    }
    shapes = {"x": ["b", 3, "s", 12], "positions": [3, "b", "s"]}
    assert_agrees("MRotaryEmbedding", inputs, shapes=shapes, mrope_section=[2, 2, 2], mrope_layout=layout)
    model = make_model("MRotaryEmbedding", inputs, mrope_section=[2, 2, 2], mrope_layout=layout)
    with pytest.raises(InputError, match="index-out-of-range"):
        onnxc.compile(model, "interpreter").run(None, {**inputs, "positions": inputs["positions"] + 8})


@pytest.mark.parametrize(
    "attributes", [{"mrope_section": [3, 3]}, {"mrope_section": [2, 2, 1]}, {"mrope_layout": 2}], ids=str
)
def test_sections_that_are_not_those_of_the_caches_are_refused(attributes: dict[str, object]) -> None:
    inputs = {
        "x": normal(1, 1, 2, 12),
        "positions": integers(0, 4, 3, 1, 2, dtype=np.int64),
        "cos": normal(4, 6),
        "sin": normal(4, 6),
    }
    with pytest.raises(ModelError, match="mrope"):
        run_ours(make_model("MRotaryEmbedding", inputs, **{"mrope_section": [2, 2, 2], **attributes}), inputs)


# Gates


def test_gates_and_streams_that_do_not_fit_are_refused() -> None:
    cases = [
        ("GatedAdd", {"a": normal(2, 3), "b": normal(2, 3), "gate": normal(2, 3)}, {}),
        ("GatedRMSNorm", {"a": normal(2, 5), "scale": normal(2), "gate": normal(2, 5)}, {}),
        ("BranchwiseRMSNorm", {"a": normal(2, 5)}, {"num_branches": 2}),
        ("BranchwiseRMSNorm", {"a": normal(2, 6), "scale": normal(4)}, {"num_branches": 2}),
        ("HyperConnectionPreMix", {"a": normal(2, 3, 4), "gate": normal(2, 4)}, {}),
        ("HyperConnectionPostMix", {"a": normal(2, 3, 4), "b": normal(2, 3), "gate": normal(2, 3)}, {}),
    ]
    for operator, inputs, attributes in cases:
        with pytest.raises(ModelError, match="normalization-parameter"):
            run_ours(make_model(operator, inputs, **attributes), inputs)


def test_a_projected_gate_is_refused() -> None:
    inputs = {"a": normal(2, 3), "b": normal(2, 3), "gate": normal(2, 4), "weight": normal(4, 1)}
    with pytest.raises(UnsupportedError, match="gate_weight"):
        run_ours(make_model("GatedAdd", inputs), inputs)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_streams_of_sizes_that_a_call_gives(size: int) -> None:
    inputs = {
        "x": normal(2, size, 3, 4),
        "b": normal(2, size, 4),
        "gate": normal(2, size, 3),
        "mix": normal(2, size, 3, 3),
    }
    shapes = {name: ["b", "s", *value.shape[2:]] for name, value in inputs.items()}
    assert_agrees("HyperConnectionPostMix", inputs, shapes=shapes)
    assert_agrees("HyperConnectionPreMix", {name: inputs[name] for name in ("x", "gate")}, shapes=shapes)
