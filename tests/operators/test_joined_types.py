"""One type for what comes along several ways, and the size that stands for any."""

import pytest

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.joining.joined_types import joined_element, known_inside
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32, I64, STRING
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.printer import constants_of, print_module
from onnxc.compiler.ir.types import (
    ANY_SIZE,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    Type,
    type_symbols,
    without_symbols,
)
from onnxc.compiler.ir.verifier import verify_module
from tests.support.models import model_from_text

N = Size.symbol("N")


def f32(*shape: int | Size) -> TensorType:
    return TensorType(F32, shape)


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        (f32(N, 3), f32(N, 3), f32(N, 3)),
        (f32(N, 3), f32(2, 3), f32(ANY_SIZE, 3)),
        (f32(2), f32(2, 3), TensorType(F32, None)),
        (TensorType(F32, None), f32(2), TensorType(F32, None)),
        (f32(2), TensorType(I64, (2,)), None),
        (SequenceType(f32(1)), SequenceType(f32(2)), SequenceType(f32(ANY_SIZE))),
        (SequenceType(f32(1)), f32(1), None),
        (OptionalType(f32(1)), f32(2), OptionalType(f32(ANY_SIZE))),
        (f32(1), OptionalType(f32(1)), OptionalType(f32(1))),
        (MapType(I64, f32()), MapType(I64, f32()), MapType(I64, f32())),
        (MapType(I64, f32()), MapType(STRING, f32()), None),
    ],
)
def test_join(a: Type, b: Type, joined: Type | None) -> None:
    assert joined_element(a, b) == joined
    assert joined_element(b, a) == joined


def test_what_means_nothing_outside_becomes_any_size() -> None:
    inside = SequenceType(f32(N, Size.symbol("K") + 1, 3))
    assert known_inside(inside, {"N"}) == SequenceType(f32(N, ANY_SIZE, 3))
    assert known_inside(f32(N), set()) == f32(N)
    assert without_symbols(OptionalType(inside)) == OptionalType(SequenceType(f32(ANY_SIZE, ANY_SIZE, 3)))


def test_any_size_is_no_symbol() -> None:
    assert type_symbols(SequenceType(f32(N, ANY_SIZE))) == {"N"}


def test_modules_with_sequences_are_valid_and_print_exactly() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (seq(float[N, 3]) s, optional(float[N]) o, bool c) => (seq(float[M, K]) y, float[P] z) {
        two = Constant<value = int64 {2}>()
        yes = Constant<value = bool {1}>()
        y = Loop(two, yes, s) <body = b (int64 i, bool k, seq(float[A, B]) before) => (bool g, seq(float[C, D]) after) {
            g = Identity(k)
            x = SequenceAt(before, i)
            zero = Constant<value_ints = [1]>()
            wide = Concat<axis = 1>(x, x)
            after = SequenceInsert(before, wide)
        }>
        z = OptionalGetElement(o)
    }"""
    module = lower_model(check_model(read_model(model_from_text(text))))
    verify_module(module)
    printed = print_module(module)
    assert "sequence(f32[?any, ?any])" in printed
    again = parse_module(printed, constants_of(module))
    verify_module(again)
    assert print_module(again) == printed
