"""Programs as JSON: the way there and back, and what is no program."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from onnxc.runtime.encoding import DecodeError, decode_program, encode_program
from onnxc.runtime.program import (
    Binding,
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
            BindSizes(2, (1,)),
            Guard("s[0]", "floordiv(s[1], 2)", "at_least", "too short", "node 4"),
            If(2, (0,), (5,), INNER, INNER, (Binding(5, 0, 1),)),
            While(2, 2, (0,), (1,), (6, 7), (VECTOR,), LOOP, 1, ()),
            Release((4, 5)),
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
    ],
)
def test_what_is_no_program_is_refused(change: Callable[[dict[str, Json]], None]) -> None:
    value = as_json()
    change(value)
    with pytest.raises(DecodeError):
        decode_program(value, 64)


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


def test_more_slots_than_memory_are_refused() -> None:
    program = replace(PROGRAM, body=replace(PROGRAM.body, slots=10**12))
    with pytest.raises(DecodeError, match="slots"):
        decode_program(as_json(program), 64)


def test_deep_nesting_is_refused() -> None:
    body = INNER
    for _ in range(70):
        body = replace(INNER, steps=(If(0, (0,), (0,), body, INNER),))
    with pytest.raises(DecodeError, match="nested"):
        decode_program(as_json(replace(PROGRAM, body=body)), 64)
