"""Operators of com.microsoft without a lowering: all are named at once, with what to do instead."""

import numpy as np
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


def test_what_is_behind_a_tokenizer_is_a_model_whose_input_are_the_words() -> None:
    counts = {"mode": "TF", "ngram_counts": [0], "ngram_indexes": [0, 1], "pool_strings": ["a", "b"]}
    grams = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    tokens = {"mark": 0, "mincharnum": 1, "pad_value": "#", "tokenexp": "[a-z]+", "domain": "com.microsoft"}
    nodes = [
        helper.make_node("Tokenizer", ["text"], ["words"], **tokens),
        helper.make_node("TfIdfVectorizer", ["words"], ["y"], **counts, **grams),
    ]
    ends = [helper.make_tensor_value_info("text", 8, ["N"]), helper.make_tensor_value_info("y", 1, None)]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=imports, ir_version=10)
    with pytest.raises(onnxc.UnsupportedError, match=r"onnxc\.extract makes begin at its result"):
        onnxc.compile(model)
    words = np.array([["a", "b", "a"]], object)
    behind = onnxc.compile(onnxc.extract(model, inputs=["words"], outputs=["y"]))
    assert behind(words).tolist() == [[2, 1]]
    model.graph.value_info.append(helper.make_tensor_value_info("words", 8, ["N", "K"]))
    behind = onnxc.compile(onnxc.extract(model, inputs=["words"], outputs=["y"]))
    assert behind(words).tolist() == [[2, 1]]
