"""Models as text: each form is read back as the same message, and what is malformed is told with its position."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, parser, printer

import onnxc
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto as OurModelProto
from onnxc.compiler.frontend.text_forms.forms import TEXT_FORMS, parse_text
from onnxc.runtime.errors import InputError, ModelError, OnnxcError
from tests.conformance.cases import all_cases
from tests.onnxc.test_kept_fields import full_model

TEXT = """<ir_version: 8, opset_import: ["" : 18]> # a comment
g (float[N, ?, 2] x, seq(map(int64, float[])) s, "odd name") => (y)
<int4[3] q = {33, 1}, bool[1] b = {1}, float[1] p> {
   [n] y, "" = my.own.Op :over <a = 1, b: float = 2, c = [1.5, -inf, nan], d: ints = [], e = "a\\"b",
                                t = float[2] {0, 1}> (x,,s)
   = If (x) <then_branch = u () => () { z = Neg (x) }>
}
<domain: "my", opset_import: ["" : 18], overload: "o">
f <k, m: int = 3> (float[2] h, i) => (r) { r = Add <v = @k> (h, i) }
"""

FULL = {form: onnxc.to_text(full_model(), form) for form in TEXT_FORMS}

CASES = [case for case in all_cases() if case.kind != "real"][::60]


def same(ours: object, theirs: ModelProto) -> bool:
    """Whether two messages are the same; an empty domain of a node is as good as none."""
    pair = [ModelProto.FromString(model.SerializeToString()) for model in (ours, theirs)]  # type: ignore[attr-defined]
    for model in pair:
        for holder in (model.graph, *model.functions):
            drop_empty_domains(holder.node)
    return pair[0].SerializeToString(deterministic=True) == pair[1].SerializeToString(deterministic=True)


def drop_empty_domains(nodes: object) -> None:
    for node in nodes:  # type: ignore[attr-defined]
        if not node.domain:
            node.ClearField("domain")
        for attribute in node.attribute:
            drop_empty_domains(attribute.g.node)


def failure(text: str, form: str = "onnxtxt") -> str:
    with pytest.raises(ModelError) as caught:
        onnxc.from_text(text, form)
    return str(caught.value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_official_cases_survive_every_form(case: object) -> None:
    model, _ = case.load()  # type: ignore[attr-defined]
    for form in TEXT_FORMS:
        read = onnxc.from_text(onnxc.to_text(model, form), form)
        assert read.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_standard_prints_is_read_as_the_standard_reads_it(case: object) -> None:
    model, _ = case.load()  # type: ignore[attr-defined]
    text = printer.to_text(model)
    assert same(onnxc.from_text(text), parser.parse_model(text))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_standard_reads_what_we_print(case: object) -> None:
    model, _ = case.load()  # type: ignore[attr-defined]
    assert len(parser.parse_model(onnxc.to_text(model)).graph.node) == len(model.graph.node)


@pytest.mark.parametrize("form", TEXT_FORMS)
def test_fields_that_few_models_have_survive(form: str) -> None:
    model = full_model()
    read = onnxc.from_text(onnxc.to_text(model, form), form)
    assert read.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)


def test_the_grammar_is_read_as_the_standard_reads_it() -> None:
    assert same(onnxc.from_text(TEXT), parser.parse_model(TEXT))


def test_lists_of_tensors_and_sparse_constants_survive() -> None:
    model = OurModelProto(ir_version=8)
    node = model.graph.node.add(op_type="X-y", domain="a-b.c")
    node.attribute.add(name="no-name", type="TENSORS").tensors.add(data_type=1, float_data=[1.5])
    node.attribute.add(name="s", type="SPARSE_TENSOR").sparse_tensor.dims.append(3)
    node.attribute.add(name="g", type="GRAPH").g.name = "float"
    node.attribute.add(name="untyped", i=3)
    node.attribute.add(name="t", type="TYPE_PROTO").tp.denotation = "IMAGE"
    node.attribute.add(name="bytes", type="STRINGS", strings=[b"\xff", b'"\\'])
    assert onnxc.from_text(onnxc.to_text(model)) == model


@pytest.mark.parametrize("payload", [0x7FC00001, 0xFFC00000, 0x80000000, 0x7F800000, 0x00000001])
def test_every_bit_of_raw_floats_survives(payload: int) -> None:
    tensor = TensorProto(name="w", data_type=1, dims=[1], raw_data=payload.to_bytes(4, "little"))
    model = helper.make_model(helper.make_graph([], "g", [], [], [tensor]), ir_version=8)
    assert onnxc.from_text(onnxc.to_text(model)).SerializeToString() == model.SerializeToString()


NAN = bytes.fromhex("150100c0ff")
"""A negative NaN with a payload in the wire format, as the field f of an attribute."""


def with_nan_in_fields() -> OurModelProto:
    """A model with such a NaN in an attribute, in a typed field, and in a message that no syntax knows."""
    model = OurModelProto(ir_version=10)
    model.graph.node.add(op_type="Elu").attribute.add(name="alpha", type=1).MergeFromString(NAN)
    model.graph.initializer.add(name="w", data_type=1, dims=[1]).MergeFromString(bytes.fromhex("22040100c0ff"))
    model.training_info.add().algorithm.node.add().attribute.add(name="a", type=1).MergeFromString(NAN)
    return model


@pytest.mark.parametrize("form", ["onnxtxt", "textproto"])
def test_every_bit_of_a_nan_in_a_field_survives(form: str) -> None:
    model = with_nan_in_fields()
    back = onnxc.from_text(onnxc.to_text(model, form), form)
    assert back.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)


def test_bits_of_a_nan_that_json_cannot_say_are_told_with_their_place() -> None:
    with pytest.raises(ModelError, match=r"NaN .* graph.node\[0\].attribute\[0\].f = nan\(0xfff800002"):
        onnxc.to_text(with_nan_in_fields(), "json")


@pytest.mark.parametrize("bits", ["0x7ff0000000000000", "0xfff80000", "fff8000020000000", ""])
def test_bits_that_are_no_nan_are_an_error_with_their_line(bits: str) -> None:
    text = '<ir_version: 10> g () => () {}\n#| graph.node[0] = {op_type: "Elu" attribute { name: "a" }}\n'
    text += f"#| graph.node[0].attribute[0].f = nan({bits})"
    with pytest.raises(ModelError, match=r"text-syntax.*line 3"):
        onnxc.from_text(text)


@pytest.mark.parametrize("form", TEXT_FORMS)
@pytest.mark.parametrize("keys", [[], ["location"], ["location", "offset"]])
def test_a_constant_of_rank_0_that_lies_in_a_file_survives(form: str, keys: list[str]) -> None:
    tensor = TensorProto(data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key in keys:
        tensor.external_data.add(key=key, value="1")
    node = helper.make_node("Constant", [], ["y"], value=tensor)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    model = helper.make_model(helper.make_graph([node], "g", [], [y]))
    assert same(onnxc.from_text(onnxc.to_text(model, form), form), model)


def test_a_doc_string_that_looks_like_a_comment_of_ours_is_text() -> None:
    model = OurModelProto(doc_string='\n#| graph.name = "other"\n')
    model.graph.name = "g"
    assert onnxc.from_text(onnxc.to_text(model)).graph.name == "g"


@pytest.mark.parametrize("form", TEXT_FORMS.values(), ids=lambda form: form.name)
def test_every_place_that_takes_a_path_takes_text(form: object, tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) {y = Neg (x)}'
    for suffix in form.suffixes:  # type: ignore[attr-defined]
        path = tmp_path / f"model{suffix.upper()}"
        path.write_text(onnxc.to_text(onnxc.from_text(text), form.name))  # type: ignore[attr-defined]
        assert onnxc.check(path) == ()
        with path.open("rb") as file:
            exe = onnxc.compile(file, target="interpreter")
        np.testing.assert_array_equal(exe(np.float32([1, 2])), np.float32([-1, -2]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g (float[2 x) => () {}", "error[text-syntax]: line 1, column 12: expected ',', got 'x'"),
        ("g () => () {\n y = Add (a, b\n}", "line 3, column 1: expected ')', got '}'"),
        ("<ir_version: 1e3> g () => () {}", "line 1, column 14: expected an integer, got '1'"),
        ("<ir_version: 99999999999999999999> g () => () {}", "line 1, column 14: the integer has more than 64 bits"),
        ("g () => () <float[2] w = {1, 1e39}> {}", "line 1, column 26: an element does not fit float"),
        ("g () => () <int8[2] w = {1, 2.5}> {}", "line 1, column 25: an element does not fit int8"),
        ("g () => () <float[N] w = {1}> {}", "line 1, column 13: the sizes of a tensor are integers"),
        ("g () => () { y = A <a = [1, 2.5]> () }", "the list has elements of types float and int"),
        ("g () => () { y = A <a: int = 2.5> () }", "the attribute is of type int, and its value of type float"),
        ("g () => () { y = A <a = []> () }", "an empty list needs the type of a list before it"),
        ("g () => () { " + "= A <b = g () => () { " * 40, "error[nesting-too-deep]: line 1, column 705"),
        ("g (" + "seq(" * 40, "error[nesting-too-deep]: line 1, column 136"),
        ("g () => () {}\n#| graph.nodes = none", "line 2, column 4: graph.nodes takes no none"),
        ("g () => () {}\n#| graph.node[1] = {}", "line 2, column 4: graph.node[1] takes no {}"),
        ('g () => () {}\n#| ir_version = "x"', 'line 2, column 4: ir_version takes no "x"'),
        ("", "line 1, column 1: expected a name, got the end of the text"),
    ],
)
def test_onnx_text_that_is_malformed(text: str, message: str) -> None:
    assert message in failure(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"graph": {\n "foo": 1}}', "error[json-syntax]: line 2, column 2: GraphProto has no field foo"),
        ('{"graph": {"name": 1}}', "line 1, column 20: name is a quoted text"),
        ('{"irVersion": 1.5}', "line 1, column 15: ir_version is an integer"),
        ('{"ir_version": 1, "irVersion": 1}', "line 1, column 19: the field irVersion is here twice"),
        ('{"irVersion": 9999999999999999999}', "line 1, column 15: ir_version does not take this value"),
        ('{"graph": {"initializer": [{"rawData": "*"}]}}', "line 1, column 40: the text is not base64"),
        ("[", "line 1, column 1: expected '{', got '['"),
        ("{} x", "line 1, column 4: expected the end of the text, got 'x'"),
        ('{"graph": {"node": [{"attribute": [{"g": ' * 40, "error[json-syntax]: line 1, column 43"),
        ('{"graph": ' + '{"node": [{"attribute": [{"g": ' * 40, "error[nesting-too-deep]"),
    ],
)
def test_json_that_is_malformed(text: str, message: str) -> None:
    assert message in failure(text, "json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph {\n foo: 1 }", "error[textproto-syntax]: line 2, column 2: Message type"),
        ("graph { name: 'x", "line 1, column 15"),
        ("graph { node { attribute { g { " * 40, "error[nesting-too-deep]: line 1"),
    ],
)
def test_textproto_that_is_malformed(text: str, message: str) -> None:
    assert message in failure(text, "textproto")


@settings(max_examples=60, deadline=None)
@given(form=st.sampled_from(sorted(TEXT_FORMS)), start=st.integers(0), end=st.integers(0, 9), put=st.text(max_size=4))
def test_a_text_with_a_hole_is_a_model_or_an_error_with_its_line(form: str, start: int, end: int, put: str) -> None:
    text = FULL[form]
    start %= len(text)
    damaged = (text[:start] + put + text[start + end :]).encode(errors="surrogatepass")
    told = "line "
    try:
        parse_text(damaged, TEXT_FORMS[form])
    except OnnxcError as problem:
        told = f"{problem} line " if problem.code == "invalid-utf8" else str(problem)
    assert "line " in told


@pytest.mark.parametrize(("text", "escape"), [(r"\\\d", r"\d"), (r"\x41\2034\400", r"\4"), (r"'\'\?", r"\?")])
def test_an_escape_that_is_none_is_an_error_of_a_textproto(text: str, escape: str) -> None:
    with pytest.raises(ModelError, match=r"textproto-syntax.*line 2, column \d+: ") as caught:
        parse_text(f'ir_version: 8 # "\\d\nproducer_name: "{text}"'.encode(), TEXT_FORMS["textproto"])
    assert f": {escape} is no escape" in str(caught.value)


def test_free_text_that_is_not_utf8_cannot_be_said() -> None:
    model = OurModelProto.FromString(b"\x32\x02\xff\xfe\x3a\x00")
    for form in TEXT_FORMS:
        with pytest.raises(ModelError, match=r"unwritable-text"):
            onnxc.to_text(model, form)


def test_bytes_of_a_text_that_are_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(b'{"docString": "\xff"}')
    assert [finding.code for finding in onnxc.check(path)] == ["invalid-utf8"]


def test_an_unknown_form_is_the_callers_error() -> None:
    with pytest.raises(InputError, match=r"unknown-text-form"):
        onnxc.to_text(full_model(), "yaml")


def test_what_reads_texts_is_imported_for_texts_alone(tmp_path: Path) -> None:
    binary, text = tmp_path / "m.onnx", tmp_path / "m.json"
    binary.write_bytes(full_model().SerializeToString())
    text.write_text(FULL["json"])
    program = (
        "import sys\nfrom onnxc.compiler.frontend.read import read_model\n"
        "for path in sys.argv[1:]:\n    read_model(path)\n"
        "    print(*sorted(name.split('.')[-1] for name in sys.modules if name.endswith(('_form', 'json_format'))))"
    )
    command = [sys.executable, "-c", program, str(binary), str(text)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split() for line in lines] == [[], ["json_form", "json_format"]]
