"""Operators of com.microsoft without a lowering: all are named at once, with what to do instead."""

import pytest
from onnx import helper

import onnxc
from onnxc.compiler.frontend.advice import advice
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from tests.operators.microsoft.agreement import make_model, normal, run_ours


def test_every_such_node_is_listed_with_advice() -> None:
    model = make_model("Irfft", {"x": normal(3, 2)}, outputs=["t"], normalized=0, onesided=1, signal_ndim=1)
    model.graph.node.append(helper.make_node("Neg", ["t"], ["u"]))
    options = {"mark": 0, "mincharnum": 1, "pad_value": "", "domain": "com.microsoft"}
    model.graph.node.append(helper.make_node("Tokenizer", ["u"], ["y"], **options))
    with pytest.raises(onnxc.UnsupportedError) as caught:
        lower_model(check_model(read_model(model)))
    text = str(caught.value)
    assert caught.value.code == "unsupported-node"
    assert "2 node(s)" in text
    assert "Irfft-1" in text
    assert "Tokenizer-1" in text
    assert "before the model is called" in text


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ("QOrderedGelu", "in the format QDQ"),
        ("Irfft", "ORT_ENABLE_BASIC"),
        ("Tokenizer", "before the model is called"),
    ],
)
def test_advice_fits_the_operator(operator: str, words: str) -> None:
    assert words in advice("com.microsoft", operator)
    assert advice("", operator) == "no lowering of this operator version"


def test_arity_and_attributes_are_those_of_the_schema() -> None:
    with pytest.raises(onnxc.ModelError, match="input-count"):
        run_ours(make_model("BiasGelu", {"a": normal(3)}), {})
    with pytest.raises(onnxc.ModelError, match="unknown-attribute"):
        run_ours(make_model("Gelu", {"a": normal(3)}, slope=1.0), {})
