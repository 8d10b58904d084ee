"""Functions of single numbers, and ranges of them, by older ones; exact, with the signs of zeros."""

from collections.abc import Mapping

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import FLOATS, Change
from onnxc.compiler.frontend.versions.sizes import positions, positive
from onnxc.compiler.frontend.versions.steps import Steps

__all__ = ["bernoulli", "equal_11", "is_inf", "is_nan", "mod", "mod_28", "range_", "round_"]

UNSIGNED = (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
LARGEST: Mapping[int, float] = {
    TensorProto.FLOAT16: float(np.finfo(np.float16).max),
    TensorProto.FLOAT: float(np.finfo(np.float32).max),
    TensorProto.DOUBLE: float(np.finfo(np.float64).max),
}


def round_(change: Change) -> None:
    """The nearest integer, the even one of two: the floor of the absolute value or the next one, with its sign."""
    at, x = Steps(change), change.input(0)
    half, one, zero = (at.cast(at.constant(value, np.float32), change.element(0)) for value in (0.5, 1, 0))
    size = at("Abs", x)
    floor = at("Floor", size)
    rest, halved = at("Sub", size, floor), at("Mul", floor, half)
    is_odd, is_above = at("Less", at("Floor", halved), halved), at("Greater", rest, half)
    goes_up = at("Or", is_above, at("And", at("Not", at("Less", rest, half)), is_odd))
    whole = at("Where", goes_up, at("Add", floor, one), floor)
    signed = at("Where", at("Less", x, zero), at("Neg", whole), whole)
    # What has no fraction is itself, as -0.0 and the infinities, of which there is no rest.
    at.become("Where", at("Less", floor, size), signed, x)


def is_nan(change: Change) -> None:
    """Neither below 1 nor above 0."""
    at, x = Steps(change), change.input(0)
    at.become("Not", at("Or", at("Less", x, at.scalar(1)), at("Greater", x, at.scalar(0))))


def is_inf(change: Change) -> None:
    """Above the largest number, or below the smallest."""
    if change.element(0) not in LARGEST:
        change.fail("the largest number of its type is not known")
    at, x = Steps(change), change.input(0)
    largest = LARGEST[change.element(0)]
    sides = []
    if change.integer("detect_positive", 1):
        sides.append(at("Greater", x, at.scalar(largest)))
    if change.integer("detect_negative", 1):
        sides.append(at("Less", x, at.scalar(-largest)))
    if not sides:
        sides.append(at("Less", x, x))
    at.become("Or", sides[0], sides[-1])


def mod(change: Change) -> None:
    """What the quotient leaves, with the sign of the divisor unless `fmod`."""
    at, element = Steps(change), change.known_element(0)
    if element in FLOATS:
        change.fail("the rest of floats is none of their rounded quotient")
    wide = TensorProto.UINT64 if element in UNSIGNED else TensorProto.INT64
    a, b = (at.cast(name, wide) for name in change.node.input)
    rest = at("Sub", a, at("Mul", at("Div", a, b), b))
    if wide == TensorProto.INT64 and not change.integer("fmod"):
        zero = at.constant(0, np.int64)
        differs = at("Xor", at("Less", rest, zero), at("Less", b, zero))
        moved = at("And", differs, at("Cast", rest, to=TensorProto.BOOL))
        rest = at("Where", moved, at("Add", rest, b), rest)
    at.become("Cast", rest, to=element)


def mod_28(change: Change) -> None:
    """Of floats: what the quotient leaves has the sign of the dividend, and is moved to that of the divisor."""
    if change.element(0) not in (*FLOATS, TensorProto.BFLOAT16) or change.integer("fmod"):
        return
    at, divisor = Steps(change), change.input(1)
    zero, rest = at.scalar(0), at("Mod", *change.node.input, fmod=1)
    is_negative = at("Less", divisor, zero)
    differs = at("Xor", at("Less", rest, zero), is_negative)
    moved = at("Where", differs, at("Add", rest, divisor), rest)
    at.become("Where", at("Equal", rest, zero), at("Where", is_negative, at.scalar(-0.0), zero), moved)


def equal_11(change: Change) -> None:
    """Of floats: neither below nor above, and both numbers."""
    if change.element(0) not in FLOATS:
        return
    at = Steps(change)
    a, b = change.node.input
    differs = at("Or", at("Less", a, b), at("Greater", a, b))
    unordered = at("Or", at("IsNaN", a), at("IsNaN", b))
    at.become("Not", at("Or", differs, unordered))


def range_(change: Change) -> None:
    """start + i delta, where i are the positions of as many ones as fit."""
    at, element = Steps(change), change.known_element(0)
    start, limit, delta = (at("Reshape", name, at.integers()) for name in change.node.input)
    if element in FLOATS:
        first, last, step = (at("Cast", name, to=TensorProto.DOUBLE) for name in (start, limit, delta))
        quotient = at("Ceil", at("Div", at("Sub", last, first), step))
        count = at("Cast", quotient, to=TensorProto.INT64)
    else:
        count = _count(at, *(at("Cast", name, to=TensorProto.INT64) for name in (start, limit, delta)))
    steps = positions(at, at("Reshape", positive(at, count), at.integers(1)))
    wide = TensorProto.FLOAT if element == TensorProto.FLOAT16 else element
    terms = at("Mul", at("Cast", steps, to=wide), at("Cast", delta, to=wide))
    at.become("Cast", at("Add", terms, at("Cast", start, to=wide)), to=element)


def _count(at: Steps, start: str, limit: str, delta: str) -> str:
    """i64[]: how many integers there are, by the distance to the limit in the direction of delta."""
    zero, one = at.constant(0, np.int64), at.constant(1, np.int64)
    ascends = at("Less", zero, delta)
    distance = at("Where", ascends, at("Sub", limit, start), at("Sub", start, limit))
    whole = at("Add", at("Div", at("Sub", distance, one), at("Abs", delta)), one)
    return at("Where", at("Less", zero, distance), whole, zero)


def bernoulli(change: Change) -> None:
    """Whether a uniform number is below the probability."""
    at, x = Steps(change), change.input(0)
    wide = TensorProto.DOUBLE if change.element(0) == TensorProto.DOUBLE else TensorProto.FLOAT
    drawn = at("RandomUniformLike", x, dtype=wide)
    if (seed := change.find("seed")) is not None:
        change.ahead[-1].attribute.add().CopyFrom(seed)
    is_one = at("Less", drawn, at.cast(x, wide))
    at.become("Cast", is_one, to=change.integer("dtype") or change.known_element(0))
