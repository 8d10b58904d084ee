"""`onnxc.check` of parts of models, as messages of onnx's classes and ours."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

import onnxc
from onnxc.compiler.frontend.proto import onnxc_pb2
from onnxc.runtime.errors import InputError

Part = AttributeProto | FunctionProto | GraphProto | NodeProto | SparseTensorProto | TensorProto | ValueInfoProto

RELU = helper.make_node("Relu", ["x"], ["y"], name="r")
X = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])
TENSOR = numpy_helper.from_array(np.ones(3, np.float32))
BRANCH = helper.make_graph(
    [helper.make_node("Neg", ["outer"], ["p"])], "b", [], [helper.make_tensor_value_info("p", 1, [])]
)

GOOD: Mapping[str, Part] = {
    "node": RELU,
    "node whose graphs take values from around it": helper.make_node(
        "If", ["c"], ["y"], then_branch=BRANCH, else_branch=BRANCH
    ),
    "node of ai.onnx.ml": helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml"),
    "tensor": TENSOR,
    "sparse tensor": helper.make_sparse_tensor(TENSOR, numpy_helper.from_array(np.array([0, 2, 5])), [6]),
    "attribute": helper.make_attribute("alpha", 1.0),
    "attribute that is a parameter": AttributeProto(name="alpha", ref_attr_name="a", type=AttributeProto.FLOAT),
    "graph": helper.make_graph([RELU], "g", [X], [Y]),
    "function": helper.make_function("own", "f", ["x"], ["y"], [RELU], [helper.make_opsetid("", 13)]),
    "value": X,
}


def broken(name: str, break_it: Callable[[Part], object]) -> Part:
    made = type(GOOD[name])()
    made.CopyFrom(GOOD[name])
    break_it(made)
    return made


BAD: Mapping[str, tuple[str, Callable[..., object]]] = {
    "node": ("input-count", lambda node: node.input.append("z")),
    "tensor": ("tensor-data-length", lambda tensor: tensor.dims.append(2)),
    "sparse tensor": ("sparse-index-range", lambda sparse: sparse.dims.__setitem__(0, 5)),
    "attribute": ("attribute-ambiguous", lambda attribute: setattr(attribute, "i", 3)),
    "graph": ("undefined-name", lambda graph: graph.input.pop()),
    "function": ("unknown-operator", lambda function: setattr(function.node[0], "op_type", "Rel")),
    "value": ("missing-type", lambda info: info.ClearField("type")),
}


def codes(part: object, **versions: object) -> list[str]:
    return [finding.code for finding in onnxc.check(part, **versions)]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_part_has_no_findings(name: str) -> None:
    assert onnxc.check(GOOD[name]) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", BAD)
def test_a_part_has_the_finding_that_it_has_in_a_model(name: str) -> None:
    code, break_it = BAD[name]
    part = broken(name, break_it)
    assert codes(part) == [code]
    ours = getattr(onnxc_pb2, type(part).__name__).FromString(part.SerializeToString())
    assert codes(ours) == [code]


def test_findings_say_nothing_of_what_holds_a_part() -> None:
    (finding,) = onnxc.check(broken("node", BAD["node"][1]))  # type: ignore[arg-type]
    assert str(finding.location) == 'graph "part", node 0 "r" (ai.onnx.Relu-14)'


def test_the_caller_says_in_which_versions_a_part_is() -> None:
    scaler, gelu = GOOD["node of ai.onnx.ml"], helper.make_node("Gelu", ["x"], ["y"])
    assert (codes(gelu, opset=13), codes(gelu, opset=20)) == (["operator-not-in-opset"], [])
    assert codes(scaler, opset_imports={"ai.onnx": 21}) == ["missing-opset-import"]
    assert codes(scaler, opset_imports={"ai.onnx": 21, "ai.onnx.ml": 1}) == []
    assert codes(RELU, ir_version=6) == []
    assert codes(RELU, ir_version=99) == ["unsupported-ir-version"]
    assert codes(GOOD["sparse tensor"], ir_version=5) == ["later-ir-version"]


def test_a_node_of_an_unknown_domain_is_legal() -> None:
    (finding,) = onnxc.check(helper.make_node("Foo", ["x"], ["y"], domain="nowhere"))
    assert (finding.severity, finding.code) == ("warning", "unknown-domain")


@pytest.mark.parametrize(
    ("part", "versions", "code"),
    [
        (RELU, {"ir_version": "x"}, "option-type"),
        (RELU, {"ir_version": 1 << 70}, "option-type"),
        (RELU, {"ir_version": True}, "option-type"),
        (RELU, {"opset": 2.5}, "option-type"),
        (RELU, {"opset_imports": [("", 21)]}, "option-type"),
        (RELU, {"opset_imports": {3: 21}}, "option-type"),
        (RELU, {"opset": 13, "opset_imports": {"": 14}}, "opset-contradiction"),
        (helper.make_model(GOOD["graph"]), {"ir_version": 10}, "versions-of-model"),
    ],
)
def test_versions_that_cannot_be_are_refused(part: object, versions: Mapping[str, object], code: str) -> None:
    with pytest.raises(InputError) as caught:
        codes(part, **versions)
    assert caught.value.code == code


def test_versions_may_be_integers_of_numpy() -> None:
    assert codes(RELU, ir_version=np.int64(10), opset=np.uint8(21)) == []
    assert codes(RELU, opset_imports={"": np.int32(21)}) == []


def test_messages_of_other_kinds_are_no_models() -> None:
    assert codes(helper.make_tensor_type_proto(1, [2])) == ["not-a-model"]


def test_names_that_are_no_text_are_a_finding() -> None:
    class NodeProto:
        """A node as another library may write it."""

        def SerializeToString(self) -> bytes:
            return b"\x0a\x01\xff"

    assert codes(NodeProto()) == ["invalid-utf8"]
