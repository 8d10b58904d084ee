"""What real models may do though it is odd, and what comes out of the check."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxc
from onnxc.compiler.frontend.check import check_model, collect_findings
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.errors import ModelError
from tests.frontend.model_texts import (
    ADD,
    CALL,
    IF,
    LOOP,
    RELU,
    Edit,
    checked,
    errors,
    first_attribute,
    first_node,
    model,
    warnings,
)

# What is merely odd

ODD: dict[str, tuple[set[str], str, Edit | None]] = {
    "names of any form": (set(), RELU, lambda m: setattr(first_node(m), "name", "/model/layer.0/ü (1):0")),
    "two nodes of one name": (
        {"duplicate-node-name"},
        RELU,
        lambda m: m.graph.node.extend(helper.make_node("Neg", ["x"], [out], name="n") for out in "ab"),
    ),
    "an output without a type": ({"missing-type"}, RELU, lambda m: m.graph.output[0].ClearField("type")),
    "an output without a shape": (
        {"missing-shape"},
        RELU,
        lambda m: m.graph.output[0].type.tensor_type.ClearField("shape"),
    ),
    "an input without a shape": (
        {"missing-shape"},
        RELU,
        lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"),
    ),
    "a negative size": (
        {"negative-size"},
        RELU,
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", -1),
    ),
    "value_info of values that do not exist": (
        {"value-info-without-value"},
        RELU,
        lambda m: m.graph.value_info.append(helper.make_tensor_value_info("gone", 1, [3])),
    ),
    "value_info that tells nothing": (set(), RELU, lambda m: m.graph.value_info.add(name="y")),
    "unused imports": (set(), RELU, lambda m: m.opset_import.add(domain="com.microsoft", version=1)),
    "an unused import of the future": (
        {"unsupported-opset-version"},
        RELU,
        lambda m: m.opset_import.add(domain="ai.onnx.ml", version=9),
    ),
    "one import twice": ({"duplicate-opset-import"}, RELU, lambda m: m.opset_import.add(domain="ai.onnx", version=21)),
    "one key of the metadata of a graph twice": (
        {"duplicate-part-metadata"},
        RELU,
        lambda m: [m.graph.metadata_props.add(key="a", value=str(i)) for i in range(2)],
    ),
    "metadata of nodes, in functions, of values and of initializers": (
        {"duplicate-part-metadata"},
        CALL,
        lambda m: [
            part.metadata_props.add(key="a", value=str(i))
            for part in (
                m.functions[0],
                m.functions[0].node[0],
                m.graph.input[0],
                m.graph.initializer.add(name="w", data_type=1, dims=[0]),
            )
            for i in range(2)
        ],
    ),
    "an operator after its end": (
        {"deprecated-operator"},
        "g (float[N] x, int64[N] i) => (float[N] y) { y = Scatter(x, i, x) }",
        None,
    ),
    "an operator that was deprecated later": (
        {"deprecated-operator"},
        "g (float[N, 4] x, float[2] s) => (float[N, 4] y) { y = GroupNormalization<num_groups = 2>(x, s, s) }",
        lambda m: setattr(m.opset_import[0], "version", 18),
    ),
    "the other name of the domain": (set(), RELU, lambda m: setattr(first_node(m), "domain", "ai.onnx")),
    "attributes for tools": (set(), RELU.replace("Relu(", "Relu<__source = 1>("), None),
    "attributes for tools of a call": (set(), CALL.replace("own.f(", "own.f<__source = 1>("), None),
    "an attribute that does not say its type, in the first version": (
        {"missing-shape"},
        "g (float[] x) => (float[N] y) { y = Concat<axis = 0>(x) }",
        lambda m: [m.ClearField("opset_import"), setattr(m, "ir_version", 1), first_attribute(m).ClearField("type")],
    ),
    "a zero that is not written": (
        set(),
        RELU.replace("Relu(", "Softmax<axis = 0>("),
        lambda m: first_attribute(m).ClearField("i"),
    ),
    "an output twice": ({"duplicate-output"}, RELU, lambda m: m.graph.output.append(m.graph.output[0])),
    "an input as output": (set(), "g (float[N] x) => (float[N] x) { y = Relu(x) }", None),
    "an initializer as output": (set(), ADD, lambda m: setattr(m.graph.output[0], "name", "w")),
    "an initializer that is an input": (
        set(),
        "g (float[N] x, float[M] w) => (float[N] y) { y = Add(x, w) }",
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], float_data=[1, 2]),
    ),
    "an inner name that an outer node defines later": (
        {"shadowed-name"},
        IF.replace("\n}", " a = Relu(x)\n}"),
        None,
    ),
    "one inner name in two branches": (
        set(),
        IF.replace("(float[N] b) { b", "(float[N] a) { a"),
        None,
    ),
    "an operator of another library in a function that nothing calls": (
        {"unknown-domain"},
        RELU + '<domain: "own", opset_import: ["com.other": 1]> f (a) => (b) { b = com.other.Rleu(a) }',
        None,
    ),
    "a function in another opset": (
        {"function-opset"},
        CALL.replace("Relu(a)", "Softmax(a)").replace('["": 21, "own": 1]> f', '["": 11]> f'),
        None,
    ),
    "the same said twice of a value": (
        {"duplicate-value-info"},
        RELU,
        lambda m: m.graph.value_info.extend([m.graph.output[0]] * 2),
    ),
    "an unknown denotation": (
        {"unknown-denotation"},
        RELU,
        lambda m: setattr(m.graph.input[0].type, "denotation", "SMELL"),
    ),
    "denotations of the standard": (
        set(),
        RELU,
        lambda m: [
            setattr(m.graph.input[0].type, "denotation", "IMAGE"),
            setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "denotation", "DATA_BATCH"),
        ],
    ),
    "an unknown denotation of an axis": (
        {"unknown-denotation"},
        RELU,
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "denotation", "DATA_SMELL"),
    ),
    "a quantization parameter of another tool": (
        {"quantization-key"},
        RELU,
        lambda m: m.graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.add(
            key="finn_datatype", value="INT2"
        ),
    ),
    "functions in a model older than they": (
        {"later-ir-version"},
        CALL,
        lambda m: setattr(m, "ir_version", 7),
    ),
    "defaults of functions in a model older than they": (
        {"later-ir-version"},
        CALL,
        lambda m: [
            setattr(m, "ir_version", 8),
            m.functions[0].attribute_proto.append(helper.make_attribute("alpha", 0.5)),
        ],
    ),
    "sparse initializers in a model older than they": (
        {"later-ir-version"},
        RELU,
        lambda m: [
            setattr(m, "ir_version", 5),
            m.graph.sparse_initializer.append(
                helper.make_sparse_tensor(
                    helper.make_tensor("s", 1, [1], [2.0]), helper.make_tensor("", 7, [1], [3]), [4]
                )
            ),
        ],
    ),
    "an input and an output described again": (
        set(),
        RELU,
        lambda m: m.graph.value_info.extend([m.graph.input[0], m.graph.output[0]]),
    ),
    "metadata in a model older than they": (
        {"later-ir-version"},
        RELU,
        lambda m: [setattr(m, "ir_version", 9), m.graph.node[0].metadata_props.add(key="a", value="b")],
    ),
    "a free size that is a sentence": (
        set(),
        RELU,
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_param", "batch size, -1 ` ("),
    ),
}


@pytest.mark.parametrize(("codes", "text", "edit"), ODD.values(), ids=ODD)
def test_a_model_that_is_merely_odd_is_accepted(codes: set[str], text: str, edit: Edit | None) -> None:
    official = model(text, edit)
    assert errors(official) == set()
    assert warnings(official) == codes
    assert {warning.code for warning in checked(official).warnings} == codes


def test_a_model_without_opsets_before_ir_version_3_is_of_opset_1() -> None:
    official = model(RELU, lambda m: m.ClearField("opset_import"))
    official.ir_version = 2
    (node,) = checked(official).graph.nodes
    assert (node.since, node.opset) == (1, 1)


def test_before_ir_version_4_the_initializers_of_a_subgraph_are_not_fed() -> None:
    def edit(m: onnx.ModelProto) -> None:
        m.ir_version = 3
        body = m.graph.node[0].attribute[0].g
        body.initializer.add(name="w", data_type=1, dims=[1], float_data=[2.0])
        body.input.append(helper.make_tensor_value_info("w", 1, [1]))

    (loop,) = checked(model(LOOP, edit)).graph.nodes
    (body,) = loop.subgraphs()
    assert [info.name for info in body.inputs] == ["i", "k", "s"]
    assert list(body.initializers) == ["w"]


# What comes out


def test_a_checked_model_knows_versions_attributes_and_places() -> None:
    text = "g (float[N, 4] x) => (float[N, 4] y) { y = Softmax <axis = 0> (x) }"
    official = model(text, lambda m: setattr(first_node(m), "name", "softmax"))
    result = checked(official)
    (node,) = result.graph.nodes
    assert (node.operator, node.domain, node.since, node.opset) == ("Softmax", "", 13, 21)
    assert (node.inputs, node.outputs, node.attributes) == (("x",), ("y",), {"axis": 0})
    assert str(node.location) == 'graph "main", node 0 "softmax" (ai.onnx.Softmax-13)'
    assert (result.name, result.ir_version, result.opsets) == ("g", 10, {"": 21, "own": 1})
    assert len(result.digest) == 64


def test_defaults_are_filled_in() -> None:
    (node,) = checked(model(RELU.replace("Relu", "LeakyRelu"))).graph.nodes
    assert node.attributes == {"alpha": float(np.float32(0.01))}


def test_every_kind_of_attribute_is_read() -> None:
    def edit(m: onnx.ModelProto) -> None:
        ml = m.graph.node.add(op_type="LabelEncoder", domain="ai.onnx.ml", input=["s"], output=["t"])
        ml.attribute.append(helper.make_attribute("keys_strings", ["a", "ü"]))
        ml.attribute.append(helper.make_attribute("values_floats", [1.5, -0.0]))
        ml.attribute.append(helper.make_attribute("default_float", 2.5))
        m.opset_import.add(domain="ai.onnx.ml", version=4)

    text = "g (string[N] s, float[N, M] x) => (float[M, N] y, float[N] t) { y = Transpose<perm = [1, 0]>(x) }"
    transpose, encoder = checked(model(text, edit)).graph.nodes
    assert transpose.attributes["perm"] == (1, 0)
    assert encoder.attributes["keys_strings"] == ("a", "ü")
    assert encoder.attributes["values_floats"] == (1.5, -0.0)
    assert encoder.attributes["default_string"] == "_Unused"


def test_trailing_inputs_that_are_left_out_are_dropped() -> None:
    text = "g (float[N] x, float lo) => (float[N] y) { y = Clip(x, lo) }"
    (node,) = checked(model(text, lambda m: first_node(m).input.append(""))).graph.nodes
    assert node.inputs == ("x", "lo")


def test_inputs_left_out_in_the_middle_stay_empty() -> None:
    text = "g (float[N] x, float hi) => (float[N] y) { y = Clip(x, hi) }"
    (node,) = checked(model(text, lambda m: first_node(m).input.insert(1, ""))).graph.nodes
    assert node.inputs == ("x", "", "hi")


def test_an_inner_name_that_an_outer_node_defines_later_is_replaced() -> None:
    text = IF.replace("a = Relu(x)", "z = Cast<to = 1>(c) a = Neg(z)").replace("\n}", " z = Relu(x)\n}")
    graph = checked(model(text)).graph
    then_branch, _ = graph.nodes[0].subgraphs()
    assert [(node.inputs, node.outputs) for node in then_branch.nodes] == [(("c",), ("z_1",)), (("z_1",), ("a",))]
    assert graph.nodes[1].outputs == ("z",)


def test_a_checked_model_has_a_text_form() -> None:
    result = checked(model(ADD.replace("y = Add(x, w)", "y = Softmax<axis = 0>(x)")))
    assert str(result) == (
        "model g (ir 10, ai.onnx 21, own 1)\n"
        "graph g(x: f32[N]) {\n"
        "  w = constant : f32[2]\n"
        "  y = ai.onnx.Softmax-13(x) {axis = 0}\n"
        "  return y: f32[N]\n"
        "}"
    )


DIMS: dict[str, tuple[list[object], str]] = {
    "numbers": ([2, 0], "f32[2, 0]"),
    "a scalar": ([], "f32[]"),
    "symbols": (["N", "N"], "f32[N, N]"),
    "nothing": ([None, None], "f32[x_dim0, x_dim1]"),
    "negative numbers": ([-1, 3], "f32[x_dim0, 3]"),
    "texts that mean nothing": (["?", "None", "", "-1"], "f32[x_dim0, x_dim1, x_dim2, x_dim3]"),
    "an expression of a symbol that an input has": (
        ["N", "2*N + 1", "(N // 2) * 2"],
        "f32[N, 2*N + 1, 2*floordiv(N, 2)]",
    ),
    "numbers as text, which are names": (["4", "4", "0"], "f32[`4`, `4`, `0`]"),
    "a text that only looks like an expression": (["batch-size"], "f32[`batch-size`]"),
    "a name as it would be made": (["x_dim1", None], "f32[x_dim1, x_dim1_]"),
}


@pytest.mark.parametrize(("dims", "text"), DIMS.values(), ids=DIMS)
def test_declared_sizes_become_symbolic_sizes(dims: list[object], text: str) -> None:
    info = helper.make_tensor_value_info("x", 1, dims)  # type: ignore[arg-type]
    (found,) = checked(model(RELU, lambda m: m.graph.input[0].CopyFrom(info))).graph.inputs
    assert isinstance(found.type, TensorType)
    assert str(found.type) == text


def test_a_size_whose_name_is_a_number_takes_any_size() -> None:
    infos = [helper.make_tensor_value_info(name, 1, ["1", 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    exe = onnxc.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "interpreter")
    assert np.asarray(exe(np.ones((5, 2), np.float32))).shape == (5, 2)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("seq(float[N])", "sequence(f32[N])"),
        ("optional(seq(int64[2]))", "optional(sequence(i64[2]))"),
        ("map(string, float[2])", "map(string, f32[2])"),
        ("bfloat16[N]", "bf16[N]"),
        ("uint4[3]", "u4[3]"),
    ],
)
def test_declared_types_become_types(declared: str, text: str) -> None:
    result = checked(model(f"g (float[N] x, {declared} s) => (float[N] y) {{ y = Relu(x) }}"))
    assert str(result.graph.inputs[1].type) == text


def test_entries_of_external_data_that_the_standard_does_not_have_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    weight = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", "offset": "0", "length": "8", "__class__": "x"}.items():
        weight.external_data.add(key=key, value=value)
    imports = [helper.make_opsetid("", 21)]
    made = helper.make_model(helper.make_graph([], "g", [], [], [weight]), ir_version=10, opset_imports=imports)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    (finding,) = collect_findings(read_model(tmp_path / "m.onnx"))
    assert (finding.severity, finding.code) == ("warning", "external-data-key")
    assert finding.message == """initializer "w": entries of its data that mean nothing are ignored: '__class__'"""


def test_external_data_is_found_beside_the_model(tmp_path: Path) -> None:
    weights = np.arange(6, dtype=np.float32)
    official = model(ADD.replace("<float[2] w = {1, 2}>", ""), None)
    official.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save_model(official, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    result = check_model(read_model(tmp_path / "m.onnx"))
    np.testing.assert_array_equal(result.graph.initializers["w"].array(), weights, strict=True)
    with pytest.raises(ModelError, match="pass the path") as caught:
        check_model(read_model((tmp_path / "m.onnx").read_bytes()))
    assert caught.value.code == "external-data-without-folder"
