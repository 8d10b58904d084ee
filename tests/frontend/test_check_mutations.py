"""Damaged models: whatever happens to the bytes, a model is checked or refused, and its tensors can be read."""

import warnings
from functools import cache

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.backend.test.loader import load_model_tests

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.graph import CheckedModel, Graph, Tensor
from onnxc.compiler.frontend.read import read_model
from onnxc.runtime.errors import ModelError
from tests.frontend.model_texts import ADD, CALL, IF, LEAKY, LOOP, model


@cache
def seeds() -> tuple[bytes, ...]:
    """Small models of every feature, and some of the official ones."""
    texts = [model(text).SerializeToString() for text in (ADD, CALL, IF, LEAKY, LOOP)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        official = [case.model for case in load_model_tests(kind="node")[::40]]
    data = [proto.SerializeToString() for proto in official if proto is not None]
    return (*texts, *(small for small in data if len(small) < 3000))


def _visit(graph: Graph) -> int:
    tensors = [*graph.initializers.values()]
    for node in graph.nodes:
        tensors += [value for value in node.attributes.values() if isinstance(value, Tensor)]
        assert node.location
    inner = sum(_visit(inner) for node in graph.nodes for inner in node.subgraphs())
    return inner + sum(tensor.array().shape == tensor.shape for tensor in tensors)


def survive(data: bytes) -> None:
    """The model is accepted and can be read and printed, or refused with findings."""
    try:
        result: CheckedModel = check_model(read_model(data))
    except ModelError as refused:
        if not refused.code or not str(refused).startswith("error["):
            raise
        return
    _visit(result.graph)
    assert str(result)


@settings(max_examples=1000, deadline=None)
@given(st.data())
def test_bytes_that_are_changed_cut_or_doubled_do_no_harm(choices: st.DataObject) -> None:
    data = bytearray(choices.draw(st.sampled_from(seeds())))
    for _ in range(choices.draw(st.integers(1, 4))):
        start = choices.draw(st.integers(0, len(data)))
        match choices.draw(st.sampled_from(["set", "cut", "double", "insert"])):
            case "set" if start < len(data):
                data[start] = choices.draw(st.integers(0, 255))
            case "cut":
                del data[start : start + choices.draw(st.integers(1, 8))]
            case "double":
                data[start:start] = data[start : start + choices.draw(st.integers(1, 40))]
            case "insert":
                data[start:start] = choices.draw(st.binary(min_size=1, max_size=4))
    survive(bytes(data))


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_messages_that_are_swapped_do_no_harm(choices: st.DataObject) -> None:
    """Damage that stays well formed: fields of one node or attribute go to another."""
    official = onnx.ModelProto.FromString(choices.draw(st.sampled_from(seeds())))
    other = onnx.ModelProto.FromString(choices.draw(st.sampled_from(seeds())))
    nodes = [*official.graph.node, *(node for function in official.functions for node in function.node)]
    donors = [*other.graph.node, *(node for function in other.functions for node in function.node)]
    for _ in range(choices.draw(st.integers(1, 4))):
        if not nodes or not donors:
            break
        node, donor = choices.draw(st.sampled_from(nodes)), choices.draw(st.sampled_from(donors))
        match choices.draw(st.sampled_from(["attributes", "inputs", "outputs", "operator", "graph", "reference"])):
            case "attributes":
                node.attribute.extend(donor.attribute)
            case "inputs":
                node.input.extend(donor.input)
            case "outputs":
                node.output.extend(donor.output)
            case "operator":
                node.op_type, node.domain = donor.op_type, donor.domain
            case "graph":
                official.graph.MergeFrom(other.graph)
            case "reference" if node.attribute:
                node.attribute[0].ref_attr_name = "alpha"
    survive(official.SerializeToString())


@pytest.mark.parametrize("index", range(5))
def test_a_model_cut_anywhere_is_refused_or_accepted(index: int) -> None:
    data = seeds()[index]
    for end in range(len(data)):
        survive(data[:end])
