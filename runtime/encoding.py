"""Programs as JSON and back.

A noun is an object of its fields in order, a step has its kind under "step" besides. Decoding trusts nothing: every
field must be there with its type, and the program must hold together (runtime/check_program.py).
"""

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import TypeVar, Union, get_args, get_origin, get_type_hints

from onnxc.runtime.check_program import DecodeError, check_program
from onnxc.runtime.program import (
    BindLate,
    BindMost,
    BindSizes,
    Guard,
    Host,
    If,
    JsonValue,
    Launch,
    Program,
    Release,
    Step,
    While,
)

__all__ = ["DecodeError", "decode_noun", "decode_program", "encode_noun", "encode_program"]

STEPS: Mapping[str, type] = {
    "launch": Launch, "host": Host, "bind_sizes": BindSizes, "bind_most": BindMost, "bind_late": BindLate,
    "guard": Guard, "if": If, "while": While, "release": Release,
}  # fmt: skip
_STEP_NAMES = {kind: name for name, kind in STEPS.items()}
_STEP_UNION: object = Step

# What is nested deeper than this is no program that a compiler wrote; Python's own limit is further off.
_DEPTH_LIMIT = 64


N = TypeVar("N")


def encode_program(program: Program) -> JsonValue:
    """The program as JSON values; the same for the same program."""
    return _encode(program)


def encode_noun(noun: object) -> JsonValue:
    """A dataclass of numbers, texts and tuples of them as JSON values."""
    return _encode(noun)


def decode_noun(kind: type[N], value: JsonValue, path: str) -> N:
    """The instance of `kind` that `encode_noun` wrote; DecodeError, which names `path`, for what is none."""
    noun = _decode_noun(kind, value, path, 0)
    assert isinstance(noun, kind), noun
    return noun


def decode_program(value: JsonValue, weights_bytes: int) -> Program:
    """The program that `encode_program` wrote, whose constants lie within that many bytes.

    Raises DecodeError.
    """
    try:
        program = _decoder(Program)(value, "program", 0)
    except RecursionError:
        raise DecodeError("the program is nested too deeply") from None
    assert isinstance(program, Program), program
    check_program(program, weights_bytes)
    return program


def _encode(value: object) -> JsonValue:
    if is_dataclass(value):
        encoded: dict[str, JsonValue] = {"step": _STEP_NAMES[type(value)]} if type(value) in _STEP_NAMES else {}
        return encoded | {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    assert isinstance(value, Sequence), value
    return [_encode(item) for item in value]


# A decoder takes a JSON value, the path to it, and the depth.
_Decoder = Callable[[JsonValue, str, int], object]


@cache
def _decoder(kind: object) -> _Decoder:
    """The decoder of values of a type; it is made before its parts are, since bodies hold steps that hold bodies."""
    origin = get_origin(kind)
    if kind is _STEP_UNION:
        return _decode_step
    if is_dataclass(kind) and isinstance(kind, type):
        return lambda value, path, depth: _decode_noun(kind, value, path, depth)
    if origin is tuple:
        return lambda value, path, depth: _decode_tuple(get_args(kind)[0], value, path, depth)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return _decode_attributes
    if origin in (Union, types.UnionType):
        (inner,) = (part for part in get_args(kind) if part is not type(None))
        return lambda value, path, depth: None if value is None else _decoder(inner)(value, path, depth)
    assert kind in (int, str), kind
    return lambda value, path, depth: _decode_scalar(kind, value, path)


def _decode_scalar(kind: object, value: JsonValue, path: str) -> object:
    if type(value) is not kind:
        raise DecodeError(f"{path} is {_shown(value)}, not of type {getattr(kind, '__name__', kind)}")
    return value


def _decode_tuple(item: object, value: JsonValue, path: str, depth: int) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise DecodeError(f"{path} is {_shown(value)}, not a list")
    decode = _decoder(item)
    return tuple(decode(part, f"{path}[{index}]", depth) for index, part in enumerate(value))


def _decode_step(value: JsonValue, path: str, depth: int) -> object:
    name = value.get("step") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(name, str) or name not in STEPS:
        raise DecodeError(f"{path} is {_shown(value)}, not a step")
    return _decode_noun(STEPS[name], {key: part for key, part in value.items() if key != "step"}, path, depth)


def _decode_noun(kind: type, value: JsonValue, path: str, depth: int) -> object:
    if not isinstance(value, Mapping):
        raise DecodeError(f"{path} is {_shown(value)}, not an object")
    if depth > _DEPTH_LIMIT:
        raise DecodeError(f"{path} is nested too deeply")
    decoders, required = _fields_of(kind)
    unknown, absent = sorted(value.keys() - decoders.keys()), sorted(required - value.keys())
    if unknown or absent:
        raise DecodeError(f"{path} has unknown fields {unknown} and lacks {absent}")
    return kind(**{name: decoders[name](part, f"{path}.{name}", depth + 1) for name, part in value.items()})


@cache
def _fields_of(kind: type) -> tuple[Mapping[str, _Decoder], frozenset[str]]:
    """The decoder of each field, and the names of those without a default."""
    hints = get_type_hints(kind)
    required = frozenset(field.name for field in fields(kind) if field.default is MISSING)
    return {field.name: _decoder(hints[field.name]) for field in fields(kind)}, required


def _decode_attributes(value: JsonValue, path: str, depth: int) -> object:
    if not isinstance(value, Mapping):
        raise DecodeError(f"{path} is {_shown(value)}, not an object")
    return {name: _decode_attribute(part) for name, part in value.items()}


def _decode_attribute(value: JsonValue) -> JsonValue:
    """JSON has no infinities and no NaN: {"float": "nan"} says them; all other forms are `compile_attributes`'s."""
    if isinstance(value, Mapping):
        text = value.get("float")
        return float(text) if text in ("nan", "inf", "-inf") else dict(value)
    return [_decode_attribute(item) for item in value] if isinstance(value, list) else value


def _shown(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
