"""Programs as JSON: the way there and back, and what is no program."""

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from onnxc.runtime.encoding import DecodeError, decode_program, encode_program
from onnxc.runtime.program import (
    Binding,
    BindLate,
    BindMost,
    BindSizes,
    Body,
    Check,
    Constant,
    Guard,
    Host,
    If,
    Launch,
    Parameter,
    Program,
    Release,
    Symbol,
    TensorSpec,
    While,
    compile_sizes,
)

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | None"

VECTOR = TensorSpec("f32", ("s[0]",))
INNER = Body(3, (0,), (0,), (Binding(0, 0, 1),), (Check(0, 0, "s[0]"),), (), (Release((1,)),))
LOOP = Body(4, (0, 1, 2), (3, 1, 2), (), (), (Constant(3, 8, TensorSpec("bool", ())),), ())
PROGRAM = Program(
    "test",
    (Symbol("N", 0, 64), Symbol("?k", 0, None)),
    (Parameter("x", "f32", ("N",), "f32[N]"), Parameter("w", "f32", ("2",), "f32[2]", 0)),
    (Parameter("y", "f32", ("N",), "f32[N]"),),
    Body(
        8,
        (0, 1),
        (7,),
        (Binding(0, 0, 0),),
        (Check(1, 0, "2"),),
        (Constant(2, 8, TensorSpec("i64", ())),),
        (
            Launch("run", (0,), (3,), (VECTOR,), "min(4*s[0], 2*s[0] - 1) + bcast(s[0], s[1])"),
            Host("pad", (3,), (4,), {"low": [{"size": "s[1]"}, 0], "value": float("nan"), "mode": "edge",
                                     "dtype": {"dtype": "f32"}, "wrap": True, "scale": [1.5, float("-inf")]},
                 (Binding(4, 0, 1),), "node 3"),
            Host("constant", (), (4,), {"value": {"array": ["f32", [2], "0000803f00000040"]}}),
            BindSizes(4, (1,)),
            Guard("s[0]", "floordiv(s[1], 2)", "at_least", "too short", "node 4"),
            If(2, (0,), (5,), INNER, INNER, (Binding(5, 0, 1),)),
            While(2, 2, (0,), (1,), (6, 7), (VECTOR,), LOOP, 1, ()),
            Release((4, 5)),
            BindMost(6, 1, "s[0]", "8*s[0] + 8"),
            BindLate((6,), (1,), (3,), (TensorSpec("f32", ("s[1]",)),)),
        ),
    ),
)  # fmt: skip


def as_json(program: Program = PROGRAM) -> dict[str, Json]:
    value = json.loads(json.dumps(encode_program(program), allow_nan=False))
    assert isinstance(value, dict)
    return value


def step(program: dict[str, Json], index: int) -> dict[str, Json]:
    body = program["body"]
    assert isinstance(body, dict)
    steps = body["steps"]
    assert isinstance(steps, list)
    found = steps[index]
    assert isinstance(found, dict)
    return found


def test_every_step_comes_back() -> None:
    decoded = decode_program(as_json(), 64)
    # NaN is not equal to itself.
    assert repr(decoded) == repr(PROGRAM)


def test_the_same_program_gives_the_same_text() -> None:
    texts = {json.dumps(encode_program(program)) for program in (PROGRAM, decode_program(as_json(), 64))}
    assert len(texts) == 1


def test_fields_with_a_default_may_be_absent() -> None:
    value = as_json()
    del step(value, 1)["location"]
    decoded = decode_program(value, 64).body.steps[1]
    assert isinstance(decoded, Host)
    assert decoded.location == ""


def set_field(index: int | None, name: str, new: Json) -> Callable[[dict[str, Json]], None]:
    """A change of one field of a step, or of the program."""

    def change(program: dict[str, Json]) -> None:
        (program if index is None else step(program, index))[name] = new

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_field(None, "name", 1),
        set_field(None, "body", None),
        set_field(None, "extra", 1),
        set_field(None, "symbols", {}),
        set_field(None, "inputs", []),
        set_field(None, "outputs", []),
        set_field(0, "step", "lunch"),
        set_field(0, "step", None),
        set_field(0, "inputs", [True]),
        set_field(0, "inputs", [8]),
        set_field(0, "outputs", [-1]),
        set_field(0, "specs", []),
        set_field(0, "arena_bytes", 4),
        set_field(0, "arena_bytes", "s[2]"),
        set_field(0, "arena_bytes", "s"),
        set_field(0, "arena_bytes", ""),
        set_field(0, "arena_bytes", "1, 2"),
        set_field(0, "arena_bytes", "1), (2"),
        set_field(0, "arena_bytes", "1.5"),
        set_field(0, "arena_bytes", "s[0] ** 9"),
        set_field(0, "arena_bytes", "(lambda: 1)()"),
        set_field(0, "arena_bytes", "s.__class__"),
        set_field(0, "arena_bytes", "__import__('os')"),
        set_field(0, "arena_bytes", "print(1)"),
        set_field(0, "arena_bytes", "[1 for s in s]"),
        set_field(0, "arena_bytes", "(" * 3000 + "1" + ")" * 3000),
        set_field(0, "arena_bytes", "-" * 100_000 + "1"),
        set_field(0, "arena_bytes", "s[s[0]]"),
        set_field(0, "arena_bytes", "min(s)"),
        set_field(0, "arena_bytes", "min(s * 2)"),
        set_field(0, "arena_bytes", "max()"),
        set_field(0, "arena_bytes", "s[0](1)"),
        set_field(0, "arena_bytes", "min"),
        set_field(0, "inputs", [5]),
        set_field(1, "inputs", [7]),
        set_field(1, "attributes", {"a": {"size": "s[2]"}}),
        set_field(1, "attributes", {"a": [{"size": "1, 2"}]}),
        set_field(1, "bindings", [{"slot": 4, "axis": -1, "symbol": 1}]),
        set_field(1, "bindings", [{"slot": 7, "axis": 0, "symbol": 1}]),
        set_field(3, "slot", 2),
        set_field(1, "attributes", {"a": {"size": "print(1)"}}),
        set_field(1, "attributes", {"a": {"unknown": 1}}),
        set_field(1, "attributes", {"a": {}}),
        set_field(1, "attributes", {"a": {"dtype": "f31"}}),
        set_field(1, "attributes", {"a": {"array": ["f32", [3], "00"]}}),
        set_field(1, "attributes", []),
        set_field(1, "bindings", [{"slot": 4, "axis": 0, "symbol": 2}]),
        set_field(3, "symbols", [2]),
        set_field(4, "relation", "less"),
        set_field(4, "left", "import os"),
        set_field(5, "inputs", []),
        set_field(5, "outputs", []),
        set_field(6, "outputs", [6]),
        set_field(6, "captures", []),
        set_field(6, "trip_symbol", 2),
        set_field(7, "slots", [9]),
        set_field(8, "slot", 5),
        set_field(8, "symbol", 2),
        set_field(8, "most", "print(1)"),
        set_field(8, "room", "s[2]"),
        set_field(9, "slots", [4]),
        set_field(9, "symbols", []),
        set_field(9, "symbols", [-1]),
        set_field(9, "arrays", [5]),
        set_field(9, "arrays", []),
        set_field(9, "specs", [{"dtype": "f31", "shape": ["1"]}]),
    ],
)
def test_what_is_no_program_is_refused(change: Callable[[dict[str, Json]], None]) -> None:
    value = as_json()
    change(value)
    with pytest.raises(DecodeError):
        decode_program(value, 64)


@pytest.mark.parametrize(
    "changes",
    [
        {"bindings": (Binding(0, 1, 0),)},
        {"bindings": (Binding(0, -1, 0),)},
        {"bindings": (Binding(3, 0, 0),)},
        {"bindings": (Binding(2, 0, 0),)},
        {"bindings": (Binding(0, 0, 2),)},
        {"checks": (Check(1, 1, "2"),)},
        {"checks": (Check(3, 0, "2"),)},
        {"checks": (Check(1, 0, "s[2]"),)},
        {"parameters": (0, 8)},
        {"parameters": (0,)},
        {"results": (8,)},
        {"results": (4,)},
        {"results": (7, 7)},
        {"constants": ()},
        {"slots": 7},
        {"slots": -1},
        {"steps": ()},
    ],
)
def test_a_body_that_does_not_hold_together_is_refused(changes: dict[str, object]) -> None:
    body = replace(PROGRAM.body, **changes)  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match="does not fit the program"):
        decode_program(as_json(replace(PROGRAM, body=body)), 64)


@pytest.mark.parametrize(
    "parameter",
    [
        Parameter("x", "f32", ("N",), "f64[N]"),
        Parameter("x", "f32", ("N",), "optional(f32[N])"),
        Parameter("x", "f31", ("N",), "f31[N]"),
        Parameter("x", "f32", ("9" * 5000,), f"f32[{'9' * 5000}]"),
        Parameter("x", "", None, "f31[N]"),
        Parameter("x", "", ("N",), "sequence(f32[N])"),
        Parameter("x", "", None, "sequence(f32[N]"),
        Parameter("x", "", None, "map(i64, sequence())"),
        Parameter("x", "", None, "map(i65, f32[])"),
        Parameter("x", "", None, "sparse(optional(f32[N]))"),
        Parameter("x", "", ("M",), "sparse(f32[N])"),
        Parameter("x", "", None, "optional(" * 5000 + "f32[]" + ")" * 5000),
    ],
)
def test_an_input_of_no_type_is_refused(parameter: Parameter) -> None:
    program = replace(PROGRAM, inputs=(PROGRAM.inputs[0], parameter), body=replace(PROGRAM.body, checks=()))
    with pytest.raises(DecodeError):
        decode_program(as_json(program), 64)


@pytest.mark.parametrize(
    "parameter",
    [
        Parameter("x", "f32", None, "f32[...]"),
        Parameter("x", "", None, "optional(sequence(map(string, f32[N])))"),
        Parameter("x", "", ("N", "2"), "sparse(f32[N, 2])"),
        Parameter("x", "string", ("max(N, 2)",), "string[max(N, 2)]"),
    ],
)
def test_an_input_may_be_of_any_type(parameter: Parameter) -> None:
    program = replace(PROGRAM, inputs=(PROGRAM.inputs[0], parameter), body=replace(PROGRAM.body, checks=()))
    assert decode_program(as_json(program), 64).inputs[1] == parameter


def test_a_size_of_an_input_without_a_rank_is_refused() -> None:
    unranked = Parameter("w", "f32", None, "f32[...]")
    with pytest.raises(DecodeError, match="has no rank"):
        decode_program(as_json(replace(PROGRAM, inputs=(PROGRAM.inputs[0], unranked))), 64)


@pytest.mark.parametrize("value", [None, 1, "program", [], {}, {"name": "x"}])
def test_other_json_is_refused(value: Json) -> None:
    with pytest.raises(DecodeError):
        decode_program(value, 64)


@pytest.mark.parametrize(
    "constant",
    [
        Constant(2, 57, TensorSpec("i64", ())),
        Constant(2, -8, TensorSpec("i64", ())),
        Constant(2, 0, TensorSpec("i64", ("9",))),
        Constant(2, 57, TensorSpec("string", ())),
        Constant(2, 0, TensorSpec("i65", ())),
        Constant(2, 0, TensorSpec("i64", ("s[0]",))),
        Constant(2, 0, TensorSpec("i64", ("0", str(2**60)))),
        Constant(2, 0, TensorSpec("i64", ("1",) * 65)),
        Constant(8, 0, TensorSpec("i64", ())),
    ],
)
def test_a_constant_outside_of_the_weights_is_refused(constant: Constant) -> None:
    program = replace(PROGRAM, body=replace(PROGRAM.body, constants=(constant,)))
    with pytest.raises(DecodeError):
        decode_program(as_json(program), 64)


def test_a_default_outside_of_the_weights_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_program(as_json(), 15)


def test_a_size_is_parsed_although_threads_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, attempts = ast.parse, iter([True, True, False])

    def disturbed(source: str, mode: str) -> ast.AST:
        if next(attempts):
            raise SystemError("AST constructor recursion depth mismatch (before=42, after=35)")
        return parse(source, mode=mode)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert compile_sizes(["2*s[0]"])([3]) == (6,)


def test_sizes_that_are_numbers_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ast, "parse", lambda source, mode: pytest.fail(source))
    assert compile_sizes(["0", "12", str(2**62)])([7]) == (0, 12, 2**62)
    assert compile_sizes([])([7]) == ()


@pytest.mark.parametrize("text", ["٣", "²", "", " ", "1.5"])
def test_what_only_looks_like_a_number_is_no_size(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        compile_sizes(["1", text])([])


def test_more_slots_than_memory_are_refused() -> None:
    program = replace(PROGRAM, body=replace(PROGRAM.body, slots=10**12))
    with pytest.raises(DecodeError, match="slots"):
        decode_program(as_json(program), 64)


def test_more_slots_than_memory_in_many_bodies_are_refused() -> None:
    large = replace(INNER, slots=1 << 19)
    steps = (If(0, (0,), (3,), large, large),)
    with pytest.raises(DecodeError, match="slots"):
        decode_program(as_json(replace(PROGRAM, body=replace(PROGRAM.body, steps=steps, results=(0,)))), 64)


def test_deep_nesting_is_refused() -> None:
    body = INNER
    for _ in range(70):
        body = replace(INNER, steps=(If(0, (0,), (0,), body, INNER),))
    with pytest.raises(DecodeError, match="nested"):
        decode_program(as_json(replace(PROGRAM, body=body)), 64)
