"""Reading the text of programs: free layout, and an error with its place for whatever is not a program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32, I64, STRING
from onnxc.compiler.ir.module import Attribute, Module, Op
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.printer import digest_of, print_module
from onnxc.compiler.ir.text_cursor import IrSyntaxError
from onnxc.compiler.ir.types import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from onnxc.runtime.errors import ModelError
from tests.ir.cases import STRUCTURAL


def program(body: str, header: str = "%x: f32[N, 2]", results: str = "%x") -> str:
    return f'module "m" {{\nfunction main({header}) -> ("y") {{\n{body}\nreturn {results}\n}}\n}}'


def only_op(body: str, header: str = "%x: f32[N, 2]") -> Op:
    (op,) = parse_module(program(body, header)).main.body.ops
    return op


def error(text: str) -> tuple[str, int, int]:
    """What is said about a text, and where."""
    with pytest.raises(IrSyntaxError) as caught:
        parse_module(text)
    assert caught.value.code == "ir-syntax"
    return str(caught.value), caught.value.line, caught.value.column


# What is read


def test_the_layout_of_lines_is_free() -> None:
    text = 'module"m"{function main(%x:f32[2])->("y"){%0=neg %x:f32[2] %1=neg\n%0\n:f32[2]return %1}}'
    again = parse_module(print_module(parse_module(text)))
    assert [op.name for op in again.main.body.ops] == ["neg", "neg"]


def test_comments_that_are_no_location_are_skipped() -> None:
    body = "// all of it\n%0 = neg %x : f32[N, 2] // 3 Neg\n// before\n%1 = neg %0 : f32[N, 2] // recognised"
    assert [op.location for op in parse_module(program(body)).main.body.ops] == [None, None]


@pytest.mark.parametrize(
    ("comment", "location"),
    [
        ("", None),
        ("// -", Location()),
        ("// 7", Location("main", 7)),
        ('// 7 "a//b" (ai.onnx.Neg-13) in "g"  ', Location("g", 7, "a//b", "ai.onnx.Neg-13")),
        ('// - ("odd (op)")', Location(operator="odd (op)")),
        ("//7", None),
        ("// 7 7", None),
    ],
)
def test_a_location_is_read(comment: str, location: Location | None) -> None:
    assert only_op(f"%0 = neg %x : f32[N, 2] {comment}").location == location


def test_a_location_belongs_to_the_op_of_its_line() -> None:
    body = 'guard {left = N, message = "m", relation = "equal", right = 2}\n// 5\n%0 = neg %x : f32[N, 2]'
    assert [op.location for op in parse_module(program(body)).main.body.ops] == [None, None]


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("f32[]", TensorType(F32, ())),
        ("f32[...]", TensorType(F32, None)),
        ("string[ N,2 * N ]", TensorType(STRING, (Size.symbol("N"), Size.symbol("N") * 2))),
        ("f32[`...`]", TensorType(F32, (Size.symbol("..."),))),
        ("sequence(optional(i64[1]))", SequenceType(OptionalType(TensorType(I64, (1,))))),
        ("sparse(f32[N, 3])", SparseTensorType(F32, (Size.symbol("N"), 3))),
        ("sequence(sparse(i64[...]))", SequenceType(SparseTensorType(I64, None))),
        ("map(i64, map(string, f32[]))", MapType(I64, MapType(STRING, TensorType(F32, ())))),
    ],
)
def test_types_are_read(text: str, type: Type) -> None:
    assert parse_module(program("", f"%x: {text}")).main.body.parameters[0].type == type


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("2 + 3 * 4", 14),
        ("-7", -7),
        ("7.0", 7.0),
        ("1e3", 1000.0),
        ("-inf", float("-inf")),
        ("0x3ff0000000000000", 1.0),
        ("true", True),
        ("i64", I64),
        ("`i64`", Size.symbol("i64")),
        ("N // 2 * 2", Size.symbol("N") // 2 * 2),
        (
            "min(N, `a, b]`)",
            Size.symbol("N") * 0
            + parse_module(program("", "%x: f32[min(N, `a, b]`)]")).main.body.parameters[0].shape[0],
        ),
        ('"a\\u00e9]"', "aé]"),
        ("[ ]", ()),
        ("[[1], 2.0, f32]", ((1,), 2.0, F32)),
    ],
)
def test_attributes_are_read(text: str, value: Attribute) -> None:
    read = only_op(f'host {{function = "f", value = {text}}}').attributes["value"]
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("f32[] 1.5", np.array(1.5, np.float32)),
        ("f32[2] [1, -0.0]", np.array([1, -0.0], np.float32)),
        ("u8[1, 2] [0, 255]", np.array([[0, 255]], np.uint8)),
        ("bool[0] []", np.array([], np.bool_)),
        ("c64[1] [(1.0, -inf)]", np.array([complex(1, float("-inf"))], np.complex64)),
        ('string[1] ["a"]', np.array(["a"], object)),
    ],
)
def test_arrays_are_read(text: str, array: np.ndarray) -> None:
    type = text.split("]", maxsplit=1)[0] + "]"
    read = only_op(f"%0 = constant {{value = {text}}} : {type}").array()
    assert (read.dtype, read.shape, read.tolist()) == (array.dtype, array.shape, array.tolist())


def test_large_arrays_come_from_those_given() -> None:
    array = np.arange(20.0)
    text = program(f"%0 = constant {{value = f64[20] #{digest_of(array)}}} : f64[20]")
    (op,) = parse_module(text, {digest_of(array): array}).main.body.ops
    assert op.array() is array


# What is refused

LINE = "%0 = neg %x : f32[N, 2]"


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("", "expected 'module'", 1, 1),
        ("module m {}", "expected a quoted text", 1, 8),
        ('module "m" {}', "the module has no function", 1, 14),
        (program("") + " x", "the text goes on", 6, 3),
        (program("%0 = neg %y : f32[N, 2]"), "%y is not defined in this block", 3, 10),
        (program("%0 = negate %x : f32[N, 2]"), "there is no primitive negate", 3, 6),
        (program("%0 = neg %x : f32[N, 3]"), "the type rule gives f32[N, 2], declared is f32[N, 3]", 3, 6),
        (program("%0 = add %x : f32[N, 2]"), "takes 2 operands, got 1", 3, 6),
        (program("%0 = neg %x : f33[N, 2]"), "f33 is no type", 3, 15),
        (program("%0 = neg %x : f32[N, ]"), "ends too early", 3, 22),
        (program("%0 = neg %x : f32[N, 2"), "expected ','", 4, 1),
        (program("%0, %1 = neg %x : f32[N, 2]"), "2 results and 1 types", 3, 10),
        (program(f"{LINE}\n{LINE}"), "%0 is defined twice", 4, 1),
        (program("%x = neg %x : f32[N, 2]"), "%x is defined twice", 3, 1),
        (program("neg %x {a = 1}"), "there is no attribute a", 3, 1),
        (program("%0 = transpose %x : f32[2, N]"), "attribute permutation is missing", 3, 6),
        (program("%0 = transpose %x {permutation = [1, 0.0]} : f32[2, N]"), "not of kind ints", 3, 6),
        (program("%0 = transpose %x {permutation = [1, 1]} : f32[2, N]"), "is no permutation", 3, 6),
        (program("", "%x: f32[2], %x: f32[2]"), "%x is defined twice", 2, 27),
        (program("", "%x: map(f33, f32[])"), "the keys have no element type", 2, 19),
        (program("", "%x: f32[N] = f32[2] [1.0]"), "1 elements do not fill the shape [2]", 2, 28),
        (program("", "%x: f32[N] = 1.0"), "expected an element type", 2, 28),
    ],
)
def test_an_error_tells_what_and_where(text: str, message: str, line: int, column: int) -> None:
    said, *place = error(text)
    assert message in said
    assert f"(line {line}, column {column})" in said
    assert place == [line, column]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "f32",
        "f32[2] [1.0]",
        "f32[-1] []",
        "f32[N] [1.0]",
        "f32[1] [x]",
        "f32[1] [0x123456789]",
        "f32[1000000000000] [1.0]",
        "f32[20] #0123456789abcdef",
        "f32[20] #0123",
        "u4[1] [16]",
        "i2[1] [-3]",
        "bool[1] [2]",
        "i64[1] [1.0]",
        "i64[] 9223372036854775808",
        "string[1] [a]",
        "c64[1] [1.0]",
        '"\\x"',
        "1 +",
        "(1",
        "`a",
        "9" * 5000,
        "9" * 5000 + ".0e5",
        "i64[] " + "9" * 5000,
        "[" * 5000,
        "(" * 5000,
        "-" * 5000 + "1",
        "[1, 2",
        "__import__('os')",
        "1.0.0",
        "0x",
    ],
)
def test_a_malformed_attribute_is_an_error(value: str) -> None:
    error(program(f"%0 = constant {{value = {value}}} : f32[2]"))


def test_a_given_array_must_be_the_one_named() -> None:
    array = np.arange(20.0)
    for text in (f"f64[4, 5] #{digest_of(array)}", f"f32[20] #{digest_of(array)}", "f64[20] #0123456789abcdef"):
        body = f"%0 = constant {{value = {text}}} : {text.split('#')[0]}"
        with pytest.raises(IrSyntaxError, match="is another"):
            parse_module(program(body), {text.split("#")[1]: array})


def test_nesting_is_bounded() -> None:
    assert "nested too deeply" in error(program("", "%x: " + "sequence(" * 5000))[0]
    opened = "%0 = constant {value = bool[] true} : bool[]\nif %0\n block() {\n"
    assert "nested too deeply" in error(program(opened * 300))[0]


def test_values_of_the_outer_block_are_not_seen_within() -> None:
    text = STRUCTURAL.replace("%5 = neg %state", "%5 = neg %x")
    assert "%x is not defined in this block" in error(text)[0]


def test_an_error_of_the_text_is_an_error_of_the_model() -> None:
    assert issubclass(IrSyntaxError, ModelError)


def parses(text: str) -> Module | None:
    """The module, or None where the text is refused as it should be."""
    try:
        return parse_module(text)
    except IrSyntaxError:
        return None


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_no_text_breaks_the_parser(text: str) -> None:
    for source in (text, program(text), program("%0 = neg %x " + text)):
        module = parses(source)
        assert module is None or print_module(parse_module(print_module(module))) == print_module(module)


signs = st.sampled_from(
    [*list('{}[]()%,:="`#-. \n/0x1Nf32'), "0", "f32[", "inf", "bool", "block", "return", "while", "[1]"]
)
edits = st.lists(
    st.tuples(st.integers(0, len(STRUCTURAL)), st.integers(0, 6), st.just("") | signs), min_size=1, max_size=4
)


@given(edits)
@settings(max_examples=400, deadline=None)
def test_no_edit_of_a_program_breaks_the_parser(edits: list[tuple[int, int, str]]) -> None:
    text = STRUCTURAL
    for place, length, insertion in edits:
        text = text[:place] + insertion + text[place + length :]
    module = parses(text)
    if module is not None:
        assert print_module(parse_module(print_module(module))) == print_module(module)
