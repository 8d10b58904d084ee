"""Programs as JSON and back.

A noun is an object of its fields in order, a step has its kind under "step" besides. Decoding trusts nothing: every
field must be there with its type, every size must be one, every number of a slot, symbol or place must exist.
"""

import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Union, get_args, get_origin, get_type_hints

from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.program import (
    Binding,
    BindSizes,
    Body,
    Guard,
    Host,
    If,
    JsonValue,
    Launch,
    Program,
    Release,
    Step,
    TensorSpec,
    While,
    compile_attributes,
    compile_sizes,
)
from onnxc.runtime.signature import default_shape
from onnxc.runtime.texts import LENGTH_BYTES

__all__ = ["DecodeError", "decode_program", "encode_program"]

RELATIONS = ("equal", "broadcast", "at_least")
STEPS: Mapping[str, type] = {
    "launch": Launch, "host": Host, "bind_sizes": BindSizes, "guard": Guard, "if": If, "while": While,
    "release": Release,
}  # fmt: skip
_STEP_NAMES = {kind: name for name, kind in STEPS.items()}
_STEP_UNION: object = Step

# What is nested deeper than this is no program that a compiler wrote; Python's own limit is further off.
_DEPTH_LIMIT = 64

# More slots, elements or axes are in no program, and would exhaust memory or NumPy.
_SLOTS_LIMIT, _ELEMENTS_LIMIT, _RANK_LIMIT = 1 << 20, 1 << 56, 64


class DecodeError(ValueError):
    """JSON that is no program; the text says where and why."""


def encode_program(program: Program) -> JsonValue:
    """The program as JSON values; the same for the same program."""
    return _encode(program)


def decode_program(value: JsonValue, weights_bytes: int) -> Program:
    """The program that `encode_program` wrote, whose constants lie within that many bytes.

    Raises DecodeError.
    """
    try:
        program = _decoder(Program)(value, "program", 0)
    except RecursionError:
        raise DecodeError("the program is nested too deeply") from None
    assert isinstance(program, Program), program
    _Checker(program, weights_bytes).check()
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
        number = value.get("float")
        return float(number) if number in ("nan", "inf", "-inf") else dict(value)
    return [_decode_attribute(item) for item in value] if isinstance(value, list) else value


def _shown(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


class _Checker:
    """Whether what a program names exists; DecodeError for the first thing that does not."""

    def __init__(self, program: Program, weights_bytes: int) -> None:
        self.program, self.weights_bytes = program, weights_bytes
        self.texts: dict[str, None] = {}

    def check(self) -> None:
        program = self.program
        for parameter in (*program.inputs, *program.outputs):
            self.expect(not parameter.dtype or parameter.dtype in DTYPES, f"element type {parameter.dtype!r}")
            shape = default_shape(parameter)
            if parameter.default is not None and shape is not None:
                self.place(parameter.default, parameter.dtype, shape)
        self.expect(len(program.body.parameters) == len(program.inputs), "the number of inputs")
        self.expect(len(program.body.results) == len(program.outputs), "the number of outputs")
        self.body(program.body)
        for text in self.texts:
            self.size(text)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise DecodeError(f"{what} does not fit the program")

    def place(self, offset: int, dtype: str, shape: Sequence[int]) -> None:
        """An array in the weights; the sizes beside a 0 must not be beyond NumPy either."""
        itemsize = DTYPES[dtype].itemsize if dtype in DTYPES else 0
        nbytes = LENGTH_BYTES if dtype == "string" else math.prod(shape) * itemsize
        possible = dtype in DTYPES and len(shape) <= _RANK_LIMIT
        possible = possible and math.prod(size or 1 for size in shape) <= _ELEMENTS_LIMIT
        fits = possible and 0 <= offset <= self.weights_bytes - nbytes
        self.expect(fits, f"a constant {dtype}{list(shape)} at byte {offset} of {self.weights_bytes}")

    def body(self, body: Body) -> None:
        self.expect(0 <= body.slots <= _SLOTS_LIMIT, f"{body.slots} slots")
        self.slots(body, (*body.parameters, *body.results))
        for constant in body.constants:
            self.slots(body, (constant.slot,))
            self.spec(constant.spec)
            self.expect(all(text.isdecimal() for text in constant.spec.shape), f"shape {constant.spec.shape}")
            self.place(constant.offset, constant.spec.dtype, tuple(map(int, constant.spec.shape)))
        self.bindings(body, body.bindings)
        for check in body.checks:
            self.slots(body, (check.slot,))
            self.texts[check.size] = None
        for step in body.steps:
            self.step(body, step)

    def step(self, body: Body, step: Step) -> None:
        match step:
            case Launch():
                self.slots(body, (*step.inputs, *step.outputs))
                self.expect(len(step.specs) == len(step.outputs), "the number of specs")
                for spec in step.specs:
                    self.spec(spec)
                self.texts[step.arena_bytes] = None
            case Host():
                self.slots(body, (*step.inputs, *step.outputs))
                self.bindings(body, step.bindings)
                try:
                    compile_attributes(step.attributes)
                except (ValueError, TypeError, AssertionError, SyntaxError, MemoryError) as problem:
                    raise DecodeError(f"the attributes of {step.function} are malformed: {problem}") from problem
            case BindSizes():
                self.slots(body, (step.slot,))
                self.symbols(step.symbols)
            case Guard():
                self.texts |= {step.left: None, step.right: None}
                self.expect(step.relation in RELATIONS, f"relation {step.relation!r}")
            case If():
                self.slots(body, (step.condition, *step.inputs, *step.outputs))
                self.bindings(body, step.bindings)
                for inner in (step.then, step.otherwise):
                    self.expect(len(inner.parameters) == len(step.inputs), "the number of inputs of a branch")
                    self.expect(len(inner.results) == len(step.outputs), "the number of outputs of a branch")
                    self.body(inner)
            case While():
                self.loop(body, step)
            case Release():
                self.slots(body, step.slots)

    def loop(self, body: Body, step: While) -> None:
        self.slots(body, (step.limit, step.condition, *step.carried, *step.captures, *step.outputs))
        self.bindings(body, step.bindings)
        self.symbols((step.trip_symbol,))
        for spec in step.scans:
            self.spec(spec)
        carried, scans = len(step.carried), len(step.scans)
        self.expect(len(step.outputs) == carried + scans, "the number of outputs of a loop")
        self.expect(len(step.body.parameters) == 1 + carried + len(step.captures), "the number of inputs of a loop")
        self.expect(len(step.body.results) == 1 + carried + scans, "the number of results of a loop")
        self.body(step.body)

    def slots(self, body: Body, slots: Iterable[int]) -> None:
        for slot in slots:
            self.expect(0 <= slot < body.slots, f"slot {slot}")

    def symbols(self, symbols: Iterable[int]) -> None:
        for symbol in symbols:
            self.expect(0 <= symbol < len(self.program.symbols), f"symbol {symbol}")

    def bindings(self, body: Body, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            self.slots(body, (binding.slot,))
            self.symbols((binding.symbol,))

    def spec(self, spec: TensorSpec) -> None:
        self.expect(spec.dtype in DTYPES, f"element type {spec.dtype!r}")
        self.texts |= dict.fromkeys(spec.shape)

    def size(self, text: str) -> None:
        """A text must be one size by itself: `1, 2` and `1), (2` are sizes only in company."""
        try:
            numbers = compile_sizes([text])([1] * len(self.program.symbols))
            whole = len(numbers) == 1 and type(numbers[0]) is int
        except (ValueError, TypeError, IndexError, SyntaxError, MemoryError, RecursionError):
            whole = False
        self.expect(whole, f"size {_shown(text)}")
