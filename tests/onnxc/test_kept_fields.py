"""What a model carries beside its computation is in the annotated model as it was."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import (
    GraphProto,
    ModelProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    external_data_helper,
    helper,
    numpy_helper,
)

import onnxc
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto as OurModelProto
from tests.support.models import model_from_text
from tests.support.probes import declared

UNKNOWN = b"\xf2\x3f\x05later"
"""Field 1022, of five bytes, which no message of the standard has yet."""

TEXT = """<ir_version: 13, opset_import: ["": 21, "local": 1]>
m (float[N, 4] x, bool c) => (float[N, 4] y, z) <float[4] w = {1, 2, 3, 4}, float[N, 4] p> {
   p = Mul (x, w)
   y = local.f <k = 2.0> (p)
   z = If (c) < then_branch = t () => (a) <float[N, 4] q> { q = Neg (y) a = Exp (q) },
                else_branch = e () => (b) { b = Identity (y) } >
}
<domain: "local", opset_import: ["": 21]>
f <k: float> (h) => (r) { v = Constant <value_float: float = @k> () u = Abs (h) r = Mul (u, v) }
"""


def annotated_messages(model: ModelProto) -> Iterator[object]:
    """Every message that has documentation or metadata."""
    yield model
    yield from model.functions
    for function in model.functions:
        yield from function.value_info
        yield from function.node
    yield from graph_messages(model.graph)


def graph_messages(graph: GraphProto) -> Iterator[object]:
    yield from (graph, *graph.initializer, *graph.input, *graph.output, *graph.value_info, *graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute
            if attribute.HasField("g"):
                yield from graph_messages(attribute.g)


def full_model() -> ModelProto:
    """A model with something in every field that inference has no use for."""
    model = model_from_text(TEXT)
    model.producer_name, model.producer_version, model.domain, model.model_version = "tests", "1", "org.example", 7
    model.functions[0].value_info.add(name="u")
    for number, message in enumerate(annotated_messages(model)):
        message.doc_string = f"documentation {number}"  # type: ignore[attr-defined]
        if "metadata_props" in message.DESCRIPTOR.fields_by_name:  # type: ignore[attr-defined]
            entry = message.metadata_props.add()  # type: ignore[attr-defined]
            entry.key, entry.value = "place", str(number)
    for info in (model.graph.input[0], model.graph.value_info[0], model.graph.output[0]):
        info.type.denotation = "IMAGE"
        info.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    annotation = model.graph.quantization_annotation.add(tensor_name="p")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    training = model.training_info.add()
    training.initialization.CopyFrom(
        model_from_text(
            '<ir_version: 8, opset_import: ["": 17]> i () => (float[4] n) <float[4] n = {0, 0, 0, 0}> {}'
        ).graph
    )
    training.initialization_binding.add(key="w", value="n")
    device = model.configuration.add(name="pair", num_devices=2)
    device.device.extend(["a", "b"])
    placed = model.graph.node[0].device_configurations.add(configuration_id="pair", pipeline_stage=1)
    sharding = placed.sharding_spec.add(tensor_name="x", device=[0, 1])
    sharding.sharded_dim.add(axis=0).simple_sharding.add(num_shards=2, dim_param="N")
    return model


def with_unknown_fields(model: ModelProto) -> ModelProto:
    """The model with a field that nobody knows in every kind of message that can be within it."""
    parts = (model.graph, model.graph.node[0], model.graph.initializer[0], model.graph.input[0].type)
    parts += (model.graph.value_info[0], model.graph.value_info[0].type.tensor_type.shape.dim[0], model.functions[0])
    for part in (*parts, model):
        part.MergeFromString(UNKNOWN)
    return model


def without_types(model: ModelProto) -> ModelProto:
    """The model less what inference may add: values that were not declared, and sizes."""
    rest = ModelProto()
    rest.CopyFrom(model)
    for graph in all_graphs(rest.graph):
        keep_known(graph.value_info)
        for info in graph.output:
            info.type.tensor_type.ClearField("shape")
            info.type.tensor_type.ClearField("elem_type")
            if not info.type.ByteSize() or not info.type.tensor_type.ByteSize():
                info.ClearField("type")
    for function in rest.functions:
        keep_known(function.value_info)
        for info in function.value_info:
            info.ClearField("type")
    return rest


def keep_known(infos: "list[ValueInfoProto]") -> None:
    """Leaves those that were there before: they have documentation."""
    for info in [info for info in infos if not info.doc_string]:
        infos.remove(info)


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_graphs(attribute.g)


def test_all_fields_are_kept() -> None:
    model = full_model()
    assert without_types(declared(model)) == without_types(model)


def test_what_is_added_are_types() -> None:
    before, after = full_model(), declared(full_model())
    assert [info.name for info in after.graph.value_info] == ["p"]
    assert after.graph.value_info[0] == before.graph.value_info[0]
    assert after.graph.input == before.graph.input
    assert after.graph.output[0] == before.graph.output[0]
    assert after.graph.output[1].type == helper.make_tensor_type_proto(1, ["N", 4])
    assert {info.name: info.type for info in after.functions[0].value_info} == {
        "v": helper.make_tensor_type_proto(1, []),
        "u": helper.make_tensor_type_proto(1, ["N", 4]),
        "r": helper.make_tensor_type_proto(1, ["N", 4]),
    }
    onnx.checker.check_model(after)


def test_fields_that_nobody_knows_are_kept() -> None:
    model = with_unknown_fields(full_model())
    assert model.SerializeToString().count(UNKNOWN) == declared(model).SerializeToString().count(UNKNOWN) == 8


def test_inlining_keeps_all_that_is_not_of_the_function() -> None:
    before = with_unknown_fields(full_model())
    before.functions[0].value_info[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    after = ModelProto.FromString(onnxc.inline(before).SerializeToString())
    onnx.checker.check_model(declared(after))
    assert after.SerializeToString().count(UNKNOWN) == before.SerializeToString().count(UNKNOWN) - 1
    # Here the second node is the call, which becomes three, and one value of theirs is declared.
    assert [node.op_type for node in after.graph.node] == ["Mul", "Constant", "Abs", "Mul", "If"]
    (declared_by_function,) = (info for info in after.graph.value_info if info.name == "f_1/u")
    assert declared_by_function.doc_string == before.functions[0].value_info[0].doc_string
    for node, inner in zip(after.graph.node[1:4], before.functions[0].node, strict=True):
        assert node.doc_string == inner.doc_string
        assert node.metadata_props == inner.metadata_props
    rest = ModelProto()
    rest.CopyFrom(after)
    del rest.graph.node[1:4]
    rest.graph.value_info.remove(declared_by_function)
    expected = ModelProto()
    expected.CopyFrom(before)
    del expected.functions[:]
    del expected.graph.node[1]
    del expected.opset_import[1]
    assert rest == expected


def test_annotating_an_annotated_model_changes_no_byte() -> None:
    once = onnxc.infer(with_unknown_fields(full_model())).SerializeToString()
    assert onnxc.infer(once).SerializeToString() == once


def test_documentation_that_is_not_utf_8_is_kept() -> None:
    model = OurModelProto.FromString(model_from_text(TEXT).SerializeToString())
    data = model.SerializeToString() + b"\x32\x02\xff\xfe"
    assert onnxc.infer(data).SerializeToString().count(b"\x32\x02\xff\xfe") == 1


def test_denotations_stay_where_a_size_is_added() -> None:
    model = full_model()
    (info,) = (info for info in model.graph.value_info if info.name == "p")
    info.type.tensor_type.shape.dim[1].ClearField("dim_value")
    info.type.tensor_type.shape.dim[1].denotation = "DATA_FEATURE"
    after = declared(model).graph.value_info[0].type
    assert after.denotation == "IMAGE"
    assert [dim.denotation for dim in after.tensor_type.shape.dim] == ["DATA_BATCH", "DATA_FEATURE"]
    assert [dim.dim_value or dim.dim_param for dim in after.tensor_type.shape.dim] == ["N", 4]


def test_declared_kinds_of_value_stay() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    m (optional(float[N]) x) => (y) { y = OptionalGetElement (x) }"""
    model = declared(model_from_text(text))
    assert model.graph.input == model_from_text(text).graph.input
    assert model.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert isinstance(model.graph.output[0].type, TypeProto)


@pytest.mark.parametrize("size", [8, 70_000])
def test_external_data_stay_external(size: int, tmp_path: Path) -> None:
    weights = np.arange(size, dtype=np.float32)
    model = model_from_text("""<ir_version: 8, opset_import: ["": 17]> m (float[N, W] x) => (y) { y = Mul (x, w) }""")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = size
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=0)
    onnx.save(model, tmp_path / "m.onnx")
    before = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    after = ModelProto.FromString(onnxc.infer(tmp_path / "m.onnx").SerializeToString())
    assert after.graph.initializer == before.graph.initializer
    assert after.graph.initializer[0].data_location == TensorProto.EXTERNAL
    (tmp_path / "typed.onnx").write_bytes(after.SerializeToString())
    (y,) = (
        onnxc.compile(tmp_path / "typed.onnx", target="interpreter").run({"x": np.ones((1, size), np.float32)}).values()
    )
    np.testing.assert_array_equal(y, weights[None])
