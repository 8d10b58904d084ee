"""Declared types: those that inference writes into a model, in every form that a type can have."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, TypeProto, checker, helper
from onnx.numpy_helper import to_array

import onnxc
from onnxc.compiler.frontend.declare_types import write_type
from onnxc.compiler.frontend.operator import OPERATORS
from onnxc.compiler.frontend.operators import registered_lowering
from onnxc.compiler.frontend.proto.onnxc_pb2 import TypeProto as OurTypeProto
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32, I64, STRING
from onnxc.compiler.ir.types import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from onnxc.runtime.errors import ModelError, ModelWarning, UnsupportedError
from tests.support.arrays import assert_close
from tests.support.models import model_from_text

N = Size.symbol("N")


def infer(model: ModelProto) -> ModelProto:
    return ModelProto.FromString(onnxc.infer(model).SerializeToString())


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (TensorType(F32, (N, 3)), helper.make_tensor_type_proto(1, ["N", 3])),
        (TensorType(I64, ()), helper.make_tensor_type_proto(7, [])),
        (TensorType(F32, (2 * N + 1,)), helper.make_tensor_type_proto(1, ["2*N + 1"])),
        (TensorType(STRING, None), helper.make_tensor_type_proto(8, None)),
        (SparseTensorType(F32, (N, 3)), helper.make_sparse_tensor_type_proto(1, ["N", 3])),
        (SequenceType(TensorType(F32, (0,))), helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [0]))),
        (
            OptionalType(SequenceType(TensorType(F32, (1,)))),
            helper.make_optional_type_proto(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [1]))),
        ),
        (
            MapType(I64, TensorType(F32, ())),
            TypeProto(map_type=TypeProto.Map(key_type=7, value_type=helper.make_tensor_type_proto(1, []))),
        ),
    ],
)
def test_types_are_written_as_the_standard_writes_them(type: Type, expected: TypeProto) -> None:
    written = OurTypeProto()
    write_type(type, written)
    assert TypeProto.FromString(written.SerializeToString()) == expected


def test_what_is_declared_in_part_is_completed() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    m (float[N, 4] x) => (y) <float[4, rows] p> { p = Transpose (x) y = Relu (p) }"""
    model = infer(model_from_text(text))
    checker.check_model(model, full_check=True)
    (p,), (y,) = model.graph.value_info, model.graph.output
    for info in (p, y):
        assert info.type == helper.make_tensor_type_proto(TensorProto.FLOAT, [4, "N"])


def test_a_complete_output_stays_as_it_is() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    m (float[N, 4] x) => (float[rows, 4] y) { y = Relu (x) }"""
    assert infer(model_from_text(text)).graph.output[0].type == helper.make_tensor_type_proto(1, ["rows", 4])


def test_a_name_of_an_output_that_no_input_binds_gives_way_to_a_number() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    m (float[N, 4] x) => (float[N, columns] y, float[M] z) <float[3] c = {1, 2, 3}> { y = Relu (x) z = Relu (c) }"""
    y, z = infer(model_from_text(text)).graph.output
    assert y.type == helper.make_tensor_type_proto(1, ["N", 4])
    assert z.type == helper.make_tensor_type_proto(1, [3])


def test_values_of_branches_are_declared_in_their_graphs() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    m (bool c, float[N] x) => (y) {
      y = If (c) <
        then_branch = t () => (a) { p = Exp (x) a = Neg (p) },
        else_branch = e () => (b) { q = Abs (x) b = Cast <to = 1> (q) }
      >
    }"""
    model = infer(model_from_text(text))
    for attribute, name in zip(model.graph.node[0].attribute, ("p", "q"), strict=True):
        (info,) = attribute.g.value_info
        assert (info.name, info.type) == (name, helper.make_tensor_type_proto(1, ["N"]))


def test_a_name_of_two_values_is_declared_in_the_graph_of_each() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    m (bool c, float[N] x) => (y) {
      y = If (c) <
        then_branch = t () => (a) { p = Exp (x) a = Neg (p) },
        else_branch = e () => (b) { p = Shape (x) b = Identity (x) }
      >
    }"""
    model = infer(model_from_text(text))
    (then,), (otherwise,) = (attribute.g.value_info for attribute in model.graph.node[0].attribute)
    assert (then.name, then.type) == ("p", helper.make_tensor_type_proto(1, ["N"]))
    assert (otherwise.name, otherwise.type) == ("p", helper.make_tensor_type_proto(7, [1]))


@pytest.mark.parametrize("declared", ["float[N, 5]", "float[N]", "float[3, 4, N]"])
def test_what_inference_finds_takes_the_place_of_a_wrong_shape(declared: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    m (float[N, 4] x) => ({declared} y) {{ y = Relu (x) }}"""
    (finding,) = onnxc.check(model_from_text(text))
    assert (finding.severity, finding.code) == ("warning", "declared-type")
    (y,) = infer(model_from_text(text)).graph.output
    assert y.type == helper.make_tensor_type_proto(1, ["N", 4])


def test_a_wrong_element_type_is_a_model_error() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    m (float[N, 4] x) => (int64[N, 4] y) { y = Relu (x) }"""
    with pytest.raises(onnxc.ModelError, match=r"output Y is tensor\(int64\)") as caught:
        onnxc.infer(model_from_text(text))
    assert "declare what it gives" in str(caught.value)


def test_a_wrong_element_type_of_what_is_computed_is_told_with_advice() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    m (float[N] x) => (float[N] y) { h = Cast <to = 10> (x)  y = Relu (h) }"""
    with pytest.raises(onnxc.ModelError, match=r"y is declared f32\[N\] and is f16\[N\]") as caught:
        onnxc.compile(model_from_text(text))
    assert "put a Cast to the declared type behind it" in str(caught.value)


# As a converter to f16 leaves a model whose branches cast to f32 for operators that it keeps in f32.
HALF_CONVERTED = """<ir_version: 8, opset_import: ["": 17]> m (float[1, 4] x, bool c) => (float16[1, 4] y) {
  y = If (c) <then_branch = t () => (float16[1, 4] a) <float16[4] w = {1, 2, 3, 4}, float16[1, 4] h> {
      h = Cast <to = 1> (x)  a = Mul (h, w) },
    else_branch = e () => (float16[1, 4] b) { b = Cast <to = 10> (x) }> }"""


def test_advice_for_a_wrong_element_type_works_when_it_is_followed() -> None:
    model = model_from_text(HALF_CONVERTED)
    with pytest.raises(onnxc.ModelError, match=r"h is declared f16\[1, 4\] and is f32") as caught:
        onnxc.compile(model, "interpreter")
    assert "| put a Cast to the declared type behind it" in str(caught.value)
    branch = model.graph.node[0].attribute[0].g
    branch.node[0].output[0] = "given"
    branch.node.insert(1, helper.make_node("Cast", ["given"], ["h"], to=TensorProto.FLOAT16))
    exe = onnxc.compile(model, "interpreter")
    x, w = np.array([[1, 2, 3, 4]], np.float32), to_array(branch.initializer[0])
    assert np.array_equal(np.asarray(exe.run({"x": x, "c": np.array(True)})["y"]), x.astype(np.float16) * w)


def test_check_warns_of_what_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    relu = ("", "Relu", 14)
    assert registered_lowering(relu) is not None
    monkeypatch.delitem(OPERATORS, relu)
    text = """<ir_version: 8, opset_import: ["": 17]> m (float[N] x) => (float[N] y) { y = Relu (x) }"""
    with pytest.raises(onnxc.UnsupportedError):
        onnxc.infer(model_from_text(text))
    (finding,) = onnxc.check(model_from_text(text))
    assert (finding.severity, finding.code) == ("warning", "unsupported-node")
    assert "ai.onnx.Relu-14" in finding.values[0]


RESHAPED = """<ir_version: 10, opset_import: ["": 21]>
m (float[] a, int64[] s, float[] b, int64[] t, float[] c, int64[] u) => (float[P, Q] y)
<float[7, 5] v, float[5, 11] w, float[11] z>
{ v = Reshape(a, s) w = Reshape(b, t) z = Reshape(c, u) y = Gemm(v, w, z) }"""


def test_declared_ranks_lead_on_behind_shapes_that_only_data_tells() -> None:
    model = infer(model_from_text(RESHAPED))
    assert model.graph.output[0].type == helper.make_tensor_type_proto(1, [7, 11])
    x = np.arange(35, dtype=np.float32)
    w, z = np.linspace(-1, 1, 55, dtype=np.float32), np.arange(11, dtype=np.float32)
    feed = {"a": x, "s": [7, 5], "b": w, "t": [5, 11], "c": z, "u": [11]}
    found = onnxc.compile(model_from_text(RESHAPED)).run({name: np.asarray(each) for name, each in feed.items()})["y"]
    assert_close(found, x.reshape(7, 5) @ w.reshape(5, 11) + z, terms=6)


PICKED = """<ir_version: 10, opset_import: ["": 21]>
m (int32[] a, int64[] b, int64[] p, int64[] q) => (int32[P, Q] y)
<int32[7, 5] v> { t = Gather(a, b) u = Gather(t, p) v = Gather(u, q) y = Transpose(v) }"""


def test_where_too_many_ranks_would_have_to_be_tried_the_declared_ones_lead_on() -> None:
    with pytest.warns(ModelWarning, match="not yet supported, 1 node"):
        model = infer(model_from_text(PICKED))
    assert model.graph.output[0].type == helper.make_tensor_type_proto(6, [5, 7])
    assert {finding.severity for finding in onnxc.check(model_from_text(PICKED))} == {"warning"}
    with pytest.raises(UnsupportedError, match="unsupported-node"):
        onnxc.compile(model_from_text(PICKED))


def test_what_is_wrong_behind_a_declared_rank_is_an_error_of_its_own() -> None:
    model = model_from_text(
        """<ir_version: 10, opset_import: ["": 21]> m (float[N] a, int64[K] s, float[4, 5] w) => (float[P, Q] y)
        <float[2, 3] x> { x = Reshape(a, s) y = MatMul(x, w) }"""
    )
    with pytest.raises(ModelError, match="inner-dimensions"):
        onnxc.infer(model)
    assert [finding.code for finding in onnxc.check(model)][-1] == "inner-dimensions"
