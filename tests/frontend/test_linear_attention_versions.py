"""LinearAttention in opsets that have none: a Scan that computes the same, its state too."""

import numpy as np
import pytest
from onnx import ModelProto, checker

import onnxc
from onnxc.runtime.errors import ModelError
from tests.support.models import model_from_text

# Two batches of three tokens: four query heads of four features share two key heads; values have three features.
OPERANDS = {
    "q": np.sin(np.arange(96, dtype=np.float32)).reshape(2, 3, 16),
    "k": np.cos(np.arange(48, dtype=np.float32)).reshape(2, 3, 8),
    "v": np.tanh(np.arange(-18, 18, dtype=np.float32)).reshape(2, 3, 6),
    "p": np.cos(np.arange(48, dtype=np.float32) * 2).reshape(2, 2, 4, 3),
    "d": np.linspace(-2, 0, 48, dtype=np.float32).reshape(2, 3, 8),
    "e": np.linspace(-2, 0, 12, dtype=np.float32).reshape(2, 3, 2),
    "r": np.linspace(0, 1, 12, dtype=np.float32).reshape(2, 3, 2),
    "t": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3, 1),
}
ROWS = (
    ("linear", "", "q, k, v", 26),
    ("linear", ", scale = -0.5", "q, k, v, p", 13),
    ("gated", "", "q, k, v, p, d", 11),
    ("gated", "", "q, k, v, , e", 8),
    ("delta", "", "q, k, v, , , r", 9),
    ("delta", "", "q, k, v, p, , t", 8),
    ("gated_delta", "", "q, k, v, p, d, r", 8),
    ("gated_delta", "", "q, k, v, , e, t", 16),
)


def model_of(rule: str, attributes: str, operands: str, rank: str = "B, L", element: str = "float") -> ModelProto:
    sizes = {name: f"{rank}, {x.shape[-1]}" if x.ndim == 3 else "B, 2, 4, 3" for name, x in OPERANDS.items()}
    inputs = ", ".join(f"{element}[{sizes[name]}] {name}" for name in named(operands))
    heads = "q_num_heads = 4, kv_num_heads = 2"
    return model_from_text(f"""<ir_version: 8, opset_import: ["" : 27]>
    g ({inputs}) => ({element}[B, L, 12] y, {element}[B, 2, 4, 3] s) {{
       y, s = LinearAttention <{heads}, update_rule = "{rule}"{attributes}> ({operands})
    }}""")


def named(operands: str) -> list[str]:
    return [name for name in operands.replace(" ", "").split(",") if name]


@pytest.mark.parametrize(("rule", "attributes", "operands", "target"), ROWS)
@pytest.mark.parametrize(("batches", "tokens"), [(2, 3), (2, 1), (1, 2)])
def test_it_computes_the_same(
    rule: str, attributes: str, operands: str, target: int, batches: int, tokens: int
) -> None:
    model = model_of(rule, attributes, operands)
    older = ModelProto.FromString(onnxc.convert_version(model, target).SerializeToString())
    checker.check_model(older)
    assert [opset.version for opset in older.opset_import] == [target]
    assert "Scan" in {node.op_type for node in older.graph.node}
    whole = (OPERANDS[name] for name in named(operands))
    inputs = [x[:batches, :tokens] if x.ndim == 3 else x[:batches] for x in whole]
    expected = onnxc.compile(model, target="interpreter")(*inputs)
    for computed, each in zip(onnxc.compile(older, target="interpreter")(*inputs), expected, strict=True):
        assert computed.dtype == np.float32
        np.testing.assert_allclose(computed, each, rtol=1e-5, atol=1e-6)


def test_floats_of_16_bits_are_rounded_at_the_end() -> None:
    model = model_of("gated_delta", "", "q, k, v, , d, r", element="float16")
    older = onnxc.convert_version(model, 13)
    inputs = [OPERANDS[name].astype(np.float16) for name in "qkvdr"]
    expected = onnxc.compile(model, target="interpreter")(*inputs)
    for computed, each in zip(onnxc.compile(older, target="interpreter")(*inputs), expected, strict=True):
        assert computed.dtype == np.float16
        np.testing.assert_allclose(computed, each, rtol=2e-3, atol=2e-3)


def test_opsets_without_scan_and_widths_that_are_not_known_are_refused() -> None:
    with pytest.raises(ModelError, match="opset-conversion"):
        onnxc.convert_version(model_of("linear", "", "q, k, v"), 7)
    model = model_of("linear", "", "q, k, v")
    model.graph.input[2].type.tensor_type.shape.dim[2].dim_param = "W"
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match="the width of its input v is not known"):
        onnxc.convert_version(model, 26)
