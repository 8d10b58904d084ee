"""Inferred types against the values at run time: every value, within branches, loops and functions too."""

import re
from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto, helper

import onnxc
from benchmarks.inputs import make_inputs
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dim_text import parse_dim
from onnxc.compiler.ir.types import TensorType
from tests.models.builders import BUILDERS
from tests.models.writer import STYLES, Style
from tests.support.models import model_from_text
from tests.support.probes import declared, disagreements, inferred, values_seen

F32 = np.float32
HEAD = '<ir_version: 10, opset_import: ["": 21, "local": 1]>'


def model_of(body: str, functions: str = "") -> ModelProto:
    return model_from_text(f"{HEAD} m {body}\n{functions}")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", BUILDERS)
def test_every_size_of_an_exported_graph_is_told_by_those_of_its_inputs(name: str, style: Style) -> None:
    built = BUILDERS[name](style)
    types = inferred(built.model)
    for value in types.values:
        assert isinstance(value.type, TensorType)
        assert all(symbols_of(dim) <= types.bound for dim in value.type.known_shape), str(value)
    assert not disagreements(built.model, make_inputs(built.inputs, built.sizes["prime"]))


CHAIN = "(float[N, M] x) => (y) { s0 = Shape (x) " + " ".join(
    f"c{i} = Constant <value_ints = [{i % 3 + 1}, 2]> () "
    + (f"s{i + 1} = Mul (s{i}, c{i})" if i % 2 else f"d{i} = Add (s{i}, c{i}) s{i + 1} = Div (d{i}, c{i})")
    for i in range(40)
)

CASES: Mapping[str, tuple[str, str, Mapping[str, np.ndarray]]] = {
    "a carried value that grows": (
        """(float[N] x, int64 trips) => (y, scans) {
          true = Constant <value = bool {1}> ()
          y, scans = Loop (trips, true, x) <
            body = b (int64 i, bool go, v) => (go_on, w, e) {
              go_on = Identity (go) w = Concat <axis = 0> (v, x) e = ReduceSum <keepdims = 0> (w) } >
        }""",
        "",
        {"x": np.ones(3, F32), "trips": np.array(4)},
    ),
    "no iteration": (
        """(float[N, 2] x, int64 trips) => (y, scans) {
          true = Constant <value = bool {1}> ()
          y, scans = Loop (trips, true, x) <
            body = b (int64 i, bool go, v) => (go_on, w, e) {
              go_on = Identity (go) w = Neg (v) e = Transpose (w) } >
        }""",
        "",
        {"x": np.ones((3, 2), F32), "trips": np.array(0)},
    ),
    "a loop in a branch in a loop": (
        """(float[N, M] x, int64 trips) => (y) {
          true = Constant <value = bool {1}> ()
          y = Loop (trips, true, x) <
            body = b (int64 i, bool go, v) => (go_on, w) {
              go_on = Identity (go)
              two = Constant <value = int64 {2}> ()
              odd = Less (i, two)
              w = If (odd) <
                then_branch = t () => (a) {
                  a = Loop (i, true, v) < body = c (int64 j, bool g, u) => (h, r) { h = Identity (g) r = Abs (u) } > },
                else_branch = e () => (d) { k = NonZero (v) f = Cast <to = 1> (k) d = Concat <axis = 0> (f, f) }
              > } >
        }""",
        "",
        {"x": np.eye(3, 5, dtype=F32), "trips": np.array(2)},
    ),
    "a scan backwards": (
        """(float[B, S, D] x, float[B, D] h) => (last, all) {
          last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            scan_input_directions = [1],
            body = b (s, e) => (t, o) { t = Add (s, e) o = Concat <axis = 1> (t, e) } > (h, x)
        }""",
        "",
        {"x": np.ones((2, 7, 3), F32), "h": np.ones((2, 3), F32)},
    ),
    "branches of two ranks": (
        """(bool c, float[N, M] x) => (z) {
          y = If (c) < then_branch = t () => (a) { a = ReduceSum <keepdims = 0> (x) },
                       else_branch = e () => (b) { b = Transpose (x) } >
          z = Exp (y)
        }""",
        "",
        {"c": np.array(False), "x": np.ones((2, 3), F32)},
    ),
    "a function called twice": (
        """(float[N, 4] x, double[M] z) => (y, w) { y = local.f (x) w = local.f (z) }""",
        """<domain: "local", opset_import: ["": 21]> f (a) => (b) { t = Shape (a) u = ConstantOfShape (t)
           n = NonZero (u) s = Size (n) c = Mul (a, a) b = Concat <axis = 0> (c, c) }""",
        {"x": np.ones((3, 4), F32), "z": np.ones(5)},
    ),
    "forty operators on a shape": (
        CHAIN + " y = ConstantOfShape (s40) }",
        "",
        {"x": np.ones((3, 5), F32)},
    ),
    "sizes that only data tells": (
        """(float[N, M] x, int64[2] target) => (y, r, p, u, k) {
          n = NonZero (x) y = Transpose (n) r = Reshape (x, target)
          zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
          most = ReduceMax <keepdims = 0> (target) p = Range (zero, most, one)
          u = Unique (x) top = Constant <value_ints = [1]> () first = Gather (target, top)
          k, places = TopK (x, first)
        }""",
        "",
        {"x": np.eye(2, 6, dtype=F32), "target": np.array([4, 3])},
    ),
    "a sequence gone through": (
        """(float[N] x, float[M] z) => (y, c) {
          s = SequenceConstruct (x, z)
          t = SequenceMap <body = b (e) => (f) { f = Concat <axis = 0> (e, e) }> (s)
          one = Constant <value = int64 {1}> () y = SequenceAt (t, one)
          c = ConcatFromSequence <axis = 0> (t)
        }""",
        "",
        {"x": np.ones(2, F32), "z": np.ones(5, F32)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_types_are_those_of_the_values(case: str) -> None:
    body, functions, inputs = CASES[case]
    model = model_of(body, functions)
    assert not disagreements(model, inputs)
    assert sum(1 for _ in values_seen(model, inputs)) >= len(model.graph.node)


@pytest.mark.parametrize("case", CASES)
def test_names_of_sizes_are_identifiers_and_their_texts_are_sizes(case: str) -> None:
    body, functions, _ = CASES[case]
    for text in sizes_declared(declared(model_of(body, functions))):
        for symbol in symbols_of(parse_dim(text)):
            assert re.fullmatch(r"[A-Za-z_]\w*", symbol), text


@pytest.mark.parametrize("case", CASES)
def test_inference_of_an_annotated_model_changes_nothing(case: str) -> None:
    body, functions, _ = CASES[case]
    once = declared(model_of(body, functions))
    assert declared(once) == once


def sizes_declared(model: ModelProto) -> list[str]:
    infos = (*model.graph.value_info, *model.graph.output, *(i for f in model.functions for i in f.value_info))
    shapes = [info.type.tensor_type.shape for info in infos]
    return [dim.dim_param for shape in shapes for dim in shape.dim if dim.dim_param]


def test_arithmetic_on_sizes_of_any_length_is_told_by_the_sizes() -> None:
    (y,) = declared(model_of(CASES["forty operators on a shape"][0])).graph.output
    assert symbols_of(parse_dim(y.type.tensor_type.shape.dim[0].dim_param)) == {"N"}


def test_statistics_have_a_shape_where_what_they_are_of_has_none() -> None:
    model = declared(
        model_of("""(float[N] x, int64[R] r, float[C] m) => (y, mean, variance) { s = Reshape (x, r)
          y, mean, variance = BatchNormalization <training_mode = 1> (s, m, m, m, m) }""")
    )
    types = {info.name: info.type for info in model.graph.output}
    assert types["mean"] == types["variance"] == helper.make_tensor_type_proto(1, ["C"])


def test_a_branch_that_is_never_taken_has_types_too() -> None:
    model = declared(
        model_of("""(float[N] x) => (y) { c = Constant <value = bool {1}> ()
          y = If (c) < then_branch = t () => (a) { a = Neg (x) },
                       else_branch = e () => (b) { p = Concat <axis = 0> (x, x) b = Exp (p) } > }""")
    )
    (info,) = model.graph.node[1].attribute[1].g.value_info
    assert (info.name, info.type) == ("p", helper.make_tensor_type_proto(1, ["2*N"]))


def test_a_branch_that_could_not_be_taken_is_no_error() -> None:
    model = declared(
        model_of("""(float[2] x) => (y) { c = Constant <value = bool {1}> ()
          y = If (c) < then_branch = t () => (a) { a = Neg (x) },
                       else_branch = e () => (b) {
                         p = Exp (x) z = Constant <value_ints = [0]> () b = Squeeze (p, z) } > }""")
    )
    assert model.graph.output[0].type == helper.make_tensor_type_proto(1, [2])


def test_an_empty_sequence_has_the_elements_that_are_declared() -> None:
    text = """(float[N] x, bool c) => (w) {
      w = If (c) < then_branch = t () => (a) { a = SequenceConstruct (x) },
                   else_branch = e () => (seq(float[4]) b) { b = SequenceEmpty <dtype = 1> () } > }"""
    assert str(inferred(model_of(text)).find("b", "main/If_0.else_branch")) == "sequence(f32[4])"


def test_a_rank_that_a_condition_decides_has_a_reason() -> None:
    types = inferred(model_of(CASES["branches of two ranks"][0]))
    reasons = {value.name: value.reason for value in types.values if value.reason}
    assert list(reasons) == ["y", "z"]
    assert reasons["y"] == reasons["z"]
    assert "ai.onnx.If-21" in reasons["y"]
    assert str(types.find("z")) == "f32[...]"


def test_values_of_a_function_have_what_all_its_calls_agree_on() -> None:
    model = declared(model_of(*CASES["a function called twice"][:2]))
    infos = {info.name: info.type for info in model.functions[0].value_info}
    assert infos["t"] == helper.make_tensor_type_proto(7, [None])
    assert infos["u"] == helper.make_tensor_type_proto(1, None)
    assert infos["n"] == helper.make_tensor_type_proto(7, [None, None])
    assert "c" not in infos
    assert infos["s"] == helper.make_tensor_type_proto(7, [])
    once = declared(model_of("(float[N, 4] x) => (y) { y = local.f (x) }", CASES["a function called twice"][1]))
    infos = {info.name: info.type for info in once.functions[0].value_info}
    assert infos["t"] == helper.make_tensor_type_proto(7, [2])
    assert infos["c"] == helper.make_tensor_type_proto(1, ["N", 4])
    assert infos["b"] == helper.make_tensor_type_proto(1, ["2*N", 4])


def test_a_function_of_an_old_model_declares_nothing() -> None:
    model = model_of(*CASES["a function called twice"][:2])
    model.ir_version = 9
    assert not declared(model).functions[0].value_info


def test_the_name_that_the_model_gives_to_a_size_from_data_is_kept() -> None:
    model = declared(
        model_of("(float[N] x) => (float[found, 1] y) <int64[u0] i> { y, i = local.g (x) z = Neg (i) w = NonZero (z) }",
                 """<domain: "local", opset_import: ["": 21]> g (x) => (y, i) { n = NonZero (x) i = Squeeze (n)
                    y = Cast <to = 1> (n) }""")
    )  # fmt: skip
    infos = {info.name: info.type for info in model.graph.value_info}
    assert infos["z"] == infos["i"]


def test_sizes_without_a_name_get_one() -> None:
    model = model_of("(float[?, 3, ?] x) => (y) { y = Concat <axis = 0> (x, x) }")
    model.graph.input[0].name = model.graph.node[0].input[0] = model.graph.node[0].input[1] = "in:0"
    typed = declared(model)
    assert typed.graph.input[0].type == helper.make_tensor_type_proto(1, ["in_0_dim0", 3, "in_0_dim2"])
    assert typed.graph.output[0].type == helper.make_tensor_type_proto(1, ["2*in_0_dim0", 3, "in_0_dim2"])


def test_a_name_that_is_no_identifier_is_kept_and_quoted_in_expressions() -> None:
    model = model_of("(float[N, 3] x) => (y, z) { y = Neg (x) z = Concat <axis = 0> (x, x) }")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch-size"
    y, z = (info.type.tensor_type.shape.dim[0].dim_param for info in declared(model).graph.output)
    assert (y, z) == ("batch-size", "2*`batch-size`")


def test_declared_sizes_are_facts_where_only_data_decides() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[N] x, int64[k] s) => (float[a, b, c] y, float[d, e] z) <float[B, 4, 5] r, float[7, 2] f> {
       r = Reshape (x, s)  y = Transpose (r)
       two = Constant <value_ints = [-1, 2]> ()  f = Reshape (x, two)  z = Neg (f)
    }"""
    outputs = onnxc.infer(model_from_text(text)).graph.output
    sizes = [[dim.dim_value or dim.dim_param for dim in each.type.tensor_type.shape.dim] for each in outputs]
    # That of z follows from N, so that the 7 of f says nothing of it.
    assert sizes == [[5, 4, "c"], ["d", 2]]


def test_values_declared_by_one_name_behind_unknown_data_have_one_size() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[N] x, int64[k] s, int64[j] t, int64[2] u) => (y, z, w)
    <float[a, 1, 5] p, float[a, b, 1] q, float[N, b] r> {
       p = Reshape (x, s)  q = Reshape (x, t)  y = Add (p, q)
       r = Reshape (x, u)  z = MatMul (r, q)  w = Concat <axis = -1> (r, r)
    }"""
    outputs = declared(model_from_text(text)).graph.output
    sizes = [[dim.dim_value or dim.dim_param for dim in each.type.tensor_type.shape.dim] for each in outputs]
    assert sizes == [["a", "b", 5], ["a", "N", 1], ["N", "2*b"]]
