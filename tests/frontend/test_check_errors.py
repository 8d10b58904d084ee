"""The rules of the ONNX IR, each shown by a model that breaks it."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxc
from onnxc.compiler.frontend.check import check_model, collect_findings
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, ModelProto
from onnxc.runtime.errors import ModelError, UnsupportedError
from tests.frontend.model_texts import (
    ADD,
    CALL,
    IF,
    LEAKY,
    LOOP,
    RELU,
    Edit,
    checked,
    findings,
    first_attribute,
    first_node,
    model,
    setting,
)


def _bomb(m: onnx.ModelProto) -> None:
    """Thirty functions, each of which calls the next twice."""
    for level in range(30):
        body = [helper.make_node(f"f{level + 1}", ["a"], [name], domain="own") for name in ("p", "q")]
        if level == 29:
            body = [helper.make_node("Relu", ["a"], [name]) for name in ("p", "q")]
        body.append(helper.make_node("Add", ["p", "q"], ["b"]))
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
        m.functions.append(helper.make_function("own", f"f{level}", ["a"], ["b"], body, imports))


def _call_chain(m: onnx.ModelProto) -> None:
    """A hundred functions, each of which calls the next."""
    for level in range(100):
        called = helper.make_node(f"f{level + 1}", ["a"], ["b"], domain="own")
        body = [called if level < 99 else helper.make_node("Relu", ["a"], ["b"])]
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
        m.functions.append(helper.make_function("own", f"f{level}", ["a"], ["b"], body, imports))


def _deep_type(m: onnx.ModelProto) -> None:
    proto = m.graph.input[0].type
    for _ in range(20):
        wrapped = onnx.TypeProto()
        wrapped.sequence_type.elem_type.CopyFrom(proto)
        proto = wrapped
    m.graph.input[0].type.CopyFrom(proto)


INVALID: dict[str, tuple[str, str, Edit | None]] = {
    # The model
    "no IR version": ("missing-ir-version", RELU, lambda m: m.ClearField("ir_version")),
    "IR version 0": ("missing-ir-version", RELU, setting("ir_version", 0)),
    "an IR version of the future": ("unsupported-ir-version", RELU, setting("ir_version", 15)),
    "no graph": ("missing-graph", RELU, lambda m: m.ClearField("graph")),
    "no opset": ("missing-opset-import", RELU, lambda m: m.ClearField("opset_import")),
    "no opset of the domain that is used": (
        "missing-opset-import",
        "g (float[N,3] x) => (float[N,3] y) { y = ai.onnx.ml.Scaler(x) }",
        None,
    ),
    "an opset of the future": ("unsupported-opset-version", RELU, lambda m: setattr(m.opset_import[0], "version", 29)),
    "one domain in two versions": (
        "duplicate-opset-import",
        RELU,
        lambda m: m.opset_import.add(domain="ai.onnx", version=20),
    ),
    # Names
    "an undefined name": ("undefined-name", "g (float[N] x) => (float[N] y) { y = Add(x, z) }", None),
    "an undefined output": ("undefined-name", "g (float[N] x) => (float[N] z) { y = Relu(x) }", None),
    "an undefined name in a subgraph": ("undefined-name", IF.replace("Relu(x)", "Relu(z)"), None),
    "a name of another branch": ("undefined-name", IF.replace("Neg(x)", "Neg(a)"), None),
    "an inner name used outside": ("undefined-name", IF.replace("\n}", " z = Relu(a)\n}"), None),
    "nodes out of order": (
        "not-topologically-sorted",
        "g (float[N] x) => (float[N] y) { y = Relu(t) t = Neg(x) }",
        None,
    ),
    "a subgraph that looks ahead": (
        "not-topologically-sorted",
        IF.replace("Relu(x)", "Relu(z)").replace("\n}", " z = Relu(x)\n}"),
        None,
    ),
    "a node that feeds itself": ("cycle", "g (float[N] x) => (float[N] y) { y = Add(x, y) }", None),
    "a cycle of two": ("cycle", "g (float[N] x) => (float[N] y) { a = Add(x, b) b = Relu(a) y = Neg(b) }", None),
    "a cycle through a subgraph": ("cycle", IF.replace("Relu(x)", "Relu(y)"), None),
    "a name defined by two nodes": (
        "duplicate-name",
        "g (float[N] x) => (float[N] y) { y = Relu(x) y = Neg(x) }",
        None,
    ),
    "a node that defines a name twice": (
        "duplicate-name",
        RELU.replace("y = Relu(x)", "y, y = Split<num_outputs = 2>(x)"),
        None,
    ),
    "a node that redefines an input": ("duplicate-name", "g (float[N] x) => (float[N] x) { x = Relu(x) }", None),
    "a node that redefines an initializer": ("duplicate-name", ADD.replace("{ y =", "{ w = Neg(x) y ="), None),
    "two inputs of one name": ("duplicate-name", "g (float[N] x, float[N] x) => (float[N] y) { y = Relu(x) }", None),
    "two initializers of one name": (
        "duplicate-name",
        ADD,
        lambda m: m.graph.initializer.append(m.graph.initializer[0]),
    ),
    "an input without a name": ("empty-name", ADD, lambda m: m.graph.input.add().type.CopyFrom(m.graph.input[0].type)),
    "an output without a name": ("empty-name", RELU, lambda m: m.graph.output.add()),
    "an initializer without a name": (
        "empty-name",
        ADD,
        lambda m: m.graph.initializer.add(data_type=1, dims=[1], float_data=[1.0]),
    ),
    # Declared types
    "an input without a type": ("missing-type", RELU, lambda m: m.graph.input[0].ClearField("type")),
    "an input without an element type": (
        "incomplete-type",
        RELU,
        lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type"),
    ),
    "a sequence of nothing": (
        "incomplete-type",
        "g (seq(float[N]) s, float[N] x) => (float[N] y) { y = Relu(x) }",
        lambda m: m.graph.input[0].type.sequence_type.ClearField("elem_type"),
    ),
    "an unknown element type": (
        "element-type-unknown",
        RELU,
        lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 77),
    ),
    "a type nested too deeply": (
        "nesting-too-deep",
        "g (float[N] s, float x) => (float y) { y = Relu(x) }",
        _deep_type,
    ),
    # Initializers
    "an initializer of another type than its input": (
        "initializer-type",
        "g (float[N] x, double[2] w) => (float[N] y) { y = Relu(x) }",
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], float_data=[1, 2]),
    ),
    "an initializer of another shape than its input": (
        "initializer-shape",
        "g (float[N] x, float[3] w) => (float[N] y) { y = Relu(x) }",
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], float_data=[1, 2]),
    ),
    "an initializer of another rank than its input": (
        "initializer-shape",
        "g (float[N] x, float[M, 2] w) => (float[N] y) { y = Relu(x) }",
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], float_data=[1, 2]),
    ),
    "an initializer with too few elements": (
        "tensor-data-length",
        ADD,
        lambda m: m.graph.initializer[0].dims.append(2),
    ),
    "a sparse initializer out of range": (
        "sparse-index-range",
        RELU,
        lambda m: m.graph.sparse_initializer.add(
            values=numpy_helper.from_array(np.ones(1, np.float32), "s"),
            indices=numpy_helper.from_array(np.array([9])),
            dims=[3],
        ),
    ),
    "external data of a model without a folder": (
        "external-data-without-folder",
        RELU,
        lambda m: m.graph.initializer.add(
            name="w",
            data_type=1,
            dims=[1],
            data_location=1,
            external_data=[onnx.StringStringEntryProto(key="location", value="w.bin")],
        ),
    ),
    # Attributes
    "an unknown attribute": ("unknown-attribute", RELU.replace("Relu(", "Relu<beta = 1>("), None),
    "a missing attribute": ("missing-attribute", "g (float[N] x) => (float[M] y) { y = Concat(x, x) }", None),
    "a missing branch": ("missing-attribute", IF, lambda m: first_node(m).attribute.pop()),
    "a float where an int belongs": ("attribute-type", RELU.replace("Relu(", "Softmax<axis = 1.5>("), None),
    "an int where ints belong": ("attribute-type", RELU.replace("Relu(", "Transpose<perm = 0>("), None),
    "an attribute twice": (
        "duplicate-attribute",
        RELU.replace("Relu(", "Softmax<axis = 0>("),
        lambda m: first_node(m).attribute.append(first_attribute(m)),
    ),
    "an attribute without a name": (
        "attribute-without-name",
        RELU,
        lambda m: first_node(m).attribute.add(type=onnx.AttributeProto.INT, i=1),
    ),
    "an attribute of no type": (
        "attribute-without-type",
        RELU.replace("Relu(", "Softmax<axis = 0>("),
        lambda m: first_attribute(m).CopyFrom(onnx.AttributeProto(name="axis")),
    ),
    "an attribute of an unknown type": (
        "attribute-without-type",
        RELU.replace("Relu(", "Softmax<axis = 0>("),
        lambda m: first_node(m).attribute[0].MergeFromString(b"\xa0\x01\x63"),
    ),
    "a value of another type": (
        "attribute-type",
        RELU.replace("Relu(", "Softmax<axis = 0>("),
        lambda m: first_attribute(m).CopyFrom(onnx.AttributeProto(name="axis", type=onnx.AttributeProto.INT, f=1.0)),
    ),
    "two values": (
        "attribute-ambiguous",
        RELU.replace("Relu(", "Softmax<axis = 0>("),
        lambda m: setattr(first_attribute(m), "f", 1.0),
    ),
    "a tensor attribute without a tensor": (
        "attribute-without-value",
        "g () => (float[1] y) { y = Constant<value = float[1] {1}>() }",
        lambda m: first_attribute(m).ClearField("t"),
    ),
    "a malformed tensor": (
        "tensor-data-length",
        "g () => (float[1] y) { y = Constant<value = float[1] {1}>() }",
        lambda m: first_attribute(m).t.dims.append(3),
    ),
    "a malformed sparse tensor": (
        "sparse-indices",
        "g () => (float[1] y) { y = Constant<value = float[1] {1}>() }",
        lambda m: (
            first_node(m)
            .attribute[0]
            .CopyFrom(
                helper.make_attribute("sparse_value", onnx.SparseTensorProto(values=first_attribute(m).t, dims=[3]))
            )
        ),
    ),
    "a text that is not UTF-8": (
        "invalid-utf8",
        RELU.replace("Relu(x)", 'BitShift<direction = "LEFT">(x, x)').replace("float", "uint8"),
        lambda m: setattr(first_attribute(m), "s", b"\xff"),
    ),
    "an incomplete type": (
        "incomplete-type",
        "g () => (optional(float[N]) y) { y = Optional<type = float[N]>() }",
        lambda m: first_attribute(m).tp.tensor_type.ClearField("elem_type"),
    ),
    "a reference outside functions": (
        "attribute-reference-outside-function",
        RELU.replace("Relu(x)", "Softmax<axis: int = @a>(x)"),
        None,
    ),
    # Operators
    "an unknown operator": ("unknown-operator", RELU.replace("Relu", "Rleu"), None),
    "an operator that is only known in small letters": ("unknown-operator", RELU.replace("Relu", "relu"), None),
    "a node without an operator": ("missing-operator", RELU, lambda m: first_node(m).ClearField("op_type")),
    "an unknown domain": ("unknown-domain", RELU.replace("Relu", "com.other.Relu"), None),
    "an operator of a later opset": ("operator-not-in-opset", RELU.replace("Relu", "Swish"), None),
    "an overload of an operator": ("unknown-operator", RELU, lambda m: setattr(first_node(m), "overload", "fast")),
    "too few inputs": ("input-count", RELU.replace("Relu(x)", "Add(x)"), None),
    "too many inputs": ("input-count", RELU.replace("Relu(x)", "Relu(x, x)"), None),
    "no inputs to a variadic one": ("input-count", RELU.replace("Relu(x)", "Sum()"), None),
    "too many outputs": ("output-count", RELU.replace("y = R", "y, z = R"), None),
    "no outputs": ("output-count", RELU.replace("}", "}"), lambda m: m.graph.node.add(op_type="Relu", input=["x"])),
    "a required input left out": (
        "missing-input",
        RELU.replace("Relu(x)", "Add(x, x)"),
        lambda m: first_node(m).input.__setitem__(0, ""),
    ),
    "a required output left out": (
        "missing-output",
        "g (float[N] x) => (bool[N] y) { z, y = Dropout(x) }",
        lambda m: first_node(m).output.__setitem__(0, ""),
    ),
    "an operand of a type that is not taken": ("type-constraint", RELU.replace("Relu(x)", "Not(x)"), None),
    "a sequence where a tensor belongs": (
        "type-constraint",
        "g (seq(float[N]) x) => (float[N] y) { y = Relu(x) }",
        None,
    ),
    "operands of two types": (
        "type-mismatch",
        "g (float[N] x, double[N] z) => (float[N] y) { y = Add(x, z) }",
        None,
    ),
    "a result of another type than its operand": ("type-mismatch", RELU.replace("(float[N] y)", "(double[N] y)"), None),
    "an initializer of another type than its operand": (
        "type-mismatch",
        ADD.replace("float[2] w", "double[2] w"),
        None,
    ),
    "a value of another type in a subgraph": ("type-mismatch", IF.replace("(float[N] a)", "(double[N] a)"), None),
    # Subgraphs
    "a branch that takes something": (
        "subgraph-arity",
        IF.replace("t ()", "t (float q)"),
        None,
    ),
    "a branch that returns too much": (
        "subgraph-arity",
        IF.replace("(float[N] a)", "(float[N] a, float[N] x2)").replace("Relu(x)", "Relu(x) x2 = Neg(x)"),
        None,
    ),
    "a loop body without a condition": (
        "subgraph-arity",
        LOOP.replace("=> (bool k2, float[N] t)", "=> (float[N] t)"),
        None,
    ),
    "a loop body that takes too little": (
        "subgraph-arity",
        LOOP.replace(", float[N] s)", ")").replace("(s)", "(x)"),
        None,
    ),
    # Functions
    "two functions of one identity": ("duplicate-function", CALL, lambda m: m.functions.append(m.functions[0])),
    "a function without a name": ("empty-name", CALL, lambda m: m.functions.add(domain="own")),
    "a function that calls itself": ("recursive-function", CALL.replace("Relu(a)", "own.f(a)"), None),
    "functions that call each other": (
        "recursive-function",
        CALL.replace("Relu(a)", "own.h(a)")
        + '<domain: "own", opset_import: ["own": 1, "": 21]> h (a) => (b) { b = own.f(a) }',
        None,
    ),
    "a function that calls itself in a subgraph": (
        "recursive-function",
        CALL.replace(
            "b = Relu(a)",
            "k = Cast<to = 9>(a) b = If (k) <then_branch = t () => (c) { c = own.f(a) }, "
            "else_branch = e () => (d) { d = Neg(a) }>",
        ),
        None,
    ),
    "too many inputs of a call": ("input-count", CALL.replace("own.f(x)", "own.f(x, x)"), None),
    "too many outputs of a call": ("output-count", CALL.replace("y = own", "y, z = own"), None),
    "an unknown attribute of a call": ("unknown-attribute", CALL.replace("own.f(x)", "own.f<beta = 1>(x)"), None),
    "an attribute of a call of another type": ("attribute-type", LEAKY.replace("float = 0.5", "int = 1"), None),
    "an undefined output of a function": ("undefined-name", CALL.replace("=> (b)", "=> (q)"), None),
    "an undefined name in a function": ("undefined-name", CALL.replace("Relu(a)", "Relu(x)"), None),
    "a reference to an unknown parameter": ("unknown-attribute-reference", LEAKY.replace("@alpha", "@beta"), None),
    "a value and a reference": (
        "attribute-value-and-reference",
        LEAKY,
        lambda m: setattr(m.functions[0].node[0].attribute[0], "f", 1.0),
    ),
    "a parameter twice": ("duplicate-attribute", LEAKY, lambda m: m.functions[0].attribute.append("alpha")),
    "a default without a value": (
        "attribute-without-value",
        CALL,
        lambda m: m.functions[0].attribute_proto.add(name="beta"),
    ),
    "no opset in a function": ("missing-opset-import", CALL, lambda m: m.functions[0].ClearField("opset_import")),
    "an opset of a function without the operator": (
        "operator-not-in-opset",
        CALL.replace("Relu(a)", "Gelu(a)").replace('["": 21, "own": 1]> f', '["": 13]> f'),
        None,
    ),
    "a missing overload of a function": ("unknown-domain", CALL, lambda m: setattr(first_node(m), "overload", "fast")),
    "functions that grow without bounds": ("expansion-too-large", RELU.replace("Relu", "own.f0"), _bomb),
    "calls nested too deeply": ("nesting-too-deep", RELU.replace("Relu", "own.f0"), _call_chain),
    # What only shows in an expansion
    "an input that a call leaves out": ("missing-input", CALL.replace("own.f(x)", "own.f()"), None),
    "an attribute that a call leaves out": (
        "missing-attribute",
        LEAKY.replace("LeakyRelu <alpha: float = @alpha> (a)", "Cast <to: int = @alpha> (a)")
        .replace("<alpha: float = 0.5>", "")
        .replace("(float[N] y)", "(y)"),
        None,
    ),
    "an output that is an input that a call leaves out": (
        "missing-input",
        CALL.replace("own.f(x)", "own.f()").replace(
            "=> (b) { b = Relu(a) }", "=> (a) { c = Constant<value_int = 1>() }"
        ),
        None,
    ),
}


@pytest.mark.parametrize(("code", "text", "edit"), INVALID.values(), ids=INVALID)
def test_a_model_that_breaks_a_rule_is_refused_for_that(code: str, text: str, edit: Edit | None) -> None:
    with pytest.raises(ModelError) as caught:
        checked(model(text, edit))
    assert {finding.code for finding in caught.value.diagnostics} == {code}  # type: ignore[attr-defined]
    assert all(finding.severity == "error" for finding in caught.value.diagnostics)  # type: ignore[attr-defined]


def test_graphs_nested_too_deeply_are_refused() -> None:
    """More levels than protobuf would parse, so built in place."""
    proto = ModelProto(ir_version=10)
    proto.opset_import.add(version=21)
    proto.graph.input.add(name="c").type.tensor_type.elem_type = 9
    graph = proto.graph
    for _ in range(500):
        graph.output.add(name="y")
        node = graph.node.add(op_type="If", input=["c"], output=["y"])
        graph = node.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g
        otherwise = node.attribute.add(name="else_branch", type=AttributeProto.GRAPH).g
        otherwise.output.add(name="z")
        otherwise.node.add(op_type="Identity", input=["c"], output=["z"])
    with pytest.raises(ModelError) as caught:
        check_model(proto)
    assert "nesting-too-deep" in {finding.code for finding in caught.value.diagnostics}  # type: ignore[attr-defined]


def test_an_opaque_input_is_legal_and_cannot_be_fed() -> None:
    def opaque(m: ModelProto) -> None:
        m.graph.input[0].type.opaque_type.MergeFrom(onnx.TypeProto.Opaque(name="o"))

    made = model("g (float[N] s, float x) => (float y) { y = Relu(x) }", opaque)
    assert [(finding.severity, finding.code) for finding in onnxc.check(made)] == [("warning", "unsupported-type")]
    with pytest.raises(UnsupportedError, match="input s has a type that cannot be fed"):
        onnxc.compile(made)


def test_all_errors_are_told_at_once() -> None:
    text = "g (float[N] x) => (float[N] y) { a = Rleu(x) b = Softmax<axis = 1.5>(a) y = Add(b, z) }"
    with pytest.raises(ModelError) as caught:
        checked(model(text))
    assert [finding.code for finding in caught.value.diagnostics] == [  # type: ignore[attr-defined]
        "undefined-name",
        "unknown-operator",
        "attribute-type",
    ]
    assert all(text in str(caught.value) for text in ('"z"', "ai.onnx.Rleu", "axis"))


def test_many_cycles_are_found_in_proportion() -> None:
    """A search per cycle would take minutes."""
    proto = ModelProto(ir_version=10)
    proto.opset_import.add(version=21)
    proto.graph.name = "g"
    for i in range(20_000):
        proto.graph.node.add(op_type="Neg", input=[f"a{i}"], output=[f"b{i}"])
        proto.graph.node.add(op_type="Neg", input=[f"b{i}"], output=[f"a{i}"])
    found = collect_findings(proto)
    assert {finding.code for finding in found} == {"cycle"}
    assert found[-1].message == "19900 more findings of this kind are not listed"


def test_a_finding_names_the_place_the_values_and_the_rule() -> None:
    text = IF.replace("Relu(x)", "Add(x, w)").replace("float[N] x)", "float[N] x, double[2] w)", 1)
    official = model(text, lambda m: setattr(m.graph.node[0].attribute[0].g.node[0], "name", "inner"))
    (finding,) = findings(official, "error")
    assert str(finding) == (
        "error[type-mismatch]: input B is tensor(double), and T is tensor(float) already\n"
        '  --> graph "main/If_0.then_branch", node 0 "inner" (ai.onnx.Add-14)\n'
        '   | A "x" : tensor(float)\n'
        '   | B "w" : tensor(double)\n'
        "  rule: ONNX Add, type T"
    )


def test_control_characters_in_names_are_shown_and_not_obeyed() -> None:
    hostile = "\x1b[2J\r\n\x9b31m\x7f"
    (finding,) = findings(model(RELU, lambda m: first_node(m).input.__setitem__(0, hostile)), "error")
    assert str(finding).split("\n")[0] == (
        r'error[undefined-name]: "\x1b[2J\x0d\x0a\x9b31m\x7f" is used and never defined'
    )
    assert hostile in finding.message


def test_a_rule_broken_a_thousand_times_is_listed_a_hundred_times() -> None:
    nodes = "".join(f"a{i} = Rleu(x) " for i in range(1000))
    found = findings(model(f"g (float[N] x) => (float[N] x) {{ {nodes} }}"), "error")
    assert len(found) == 101
    assert found[-1].message == "900 more findings of this kind are not listed"
