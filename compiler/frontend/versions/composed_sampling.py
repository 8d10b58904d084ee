"""GridSample and AffineGrid: positions in tensors, and what is read between them, by gathers and weights."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.sizes import Size, along, as_float, positions, size_of, sizes_of
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.runtime.records import record

__all__ = ["affine_grid", "grid_sample"]

OFFSETS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
"""Which elements are read, from the floor of a coordinate on."""
MODES = {"bilinear": "linear", "bicubic": "cubic"}
CUBIC_COEFFICIENT = -0.75


@record
class _Tap:
    """One element that is read along an axis: its index, its weight and whether it lies within; empty for all."""

    index: str
    weight: str
    inside: str


@record
class _Axis:
    """Coordinates along an axis, its size as a float, and where it begins and ends: at centers, or at edges."""

    at: Steps
    element: int
    coordinate: str
    length: str
    low: str
    high: str

    def constant(self, value: float) -> str:
        return self.at.constant(value, np.float32 if self.element == TensorProto.FLOAT else np.float64)

    def last(self) -> str:
        return self.at("Sub", self.length, self.constant(1))

    def clamped(self, x: str) -> str:
        """Between the first and the last element."""
        return self.at("Min", self.at("Max", x, self.constant(0)), self.last())

    def index(self, x: str) -> str:
        """i64: the element at or next to a coordinate without fraction; the first for one that is no number."""
        is_behind = self.at("Less", self.constant(0), x)
        nearest = self.at("Where", is_behind, self.at("Min", x, self.last()), self.constant(0))
        return self.at("Cast", nearest, to=TensorProto.INT64)

    def reflected(self, x: str) -> str:
        """Mirrored at the borders until it lies between them."""
        at, span = self.at, self.at("Sub", self.high, self.low)
        below = at("Less", x, self.low)
        excess = at("Where", below, at("Sub", self.low, x), at("Sub", x, self.high))
        turns = at("Floor", at("Div", excess, span))
        rest = at("Sub", excess, at("Mul", turns, span))
        half = at("Div", turns, self.constant(2))
        is_odd = at("Less", at("Floor", half), half)
        mirrored = at("Where", at("Xor", is_odd, below), at("Add", self.low, rest), at("Sub", self.high, rest))
        outside = at("Or", below, at("Less", self.high, x))
        moved = at("Where", outside, mirrored, x)
        return at("Where", at("Less", self.constant(0), span), moved, self.low)


def grid_sample(change: Change) -> None:
    """The sum over the elements near each position: what the tensor holds there, times its weights."""
    at, x, grid = Steps(change), change.input(0), change.input(1)
    rank, mode = change.rank(0), change.text("mode")
    mode, sizes = MODES.get(mode, mode), sizes_of(at, x)[2:]
    is_wide = TensorProto.DOUBLE in (change.element(0), change.element(1))
    element = TensorProto.DOUBLE if is_wide else TensorProto.FLOAT
    grid = at.cast(grid, element)
    grid = at("Where", at("IsNaN", grid), at.constant(-1, np.float64 if is_wide else np.float32), grid)
    taps = []
    for axis, size in enumerate(sizes):
        position = at("Gather", grid, at.constant(len(sizes) - 1 - axis, np.int64), axis=rank - 1)
        taps.append(_taps(_axis(at, position, size, element), mode))
    data = x if mode == "nearest" else at.cast(x, element)
    data = at("Transpose", data, perm=[0, *range(2, rank), 1])
    total = ""
    for corner in product(*taps):
        read = _read(at, data, corner, rank - 1, change.element(0) if mode == "nearest" else element)
        total = at("Add", total, read) if total else read
    if mode != "nearest":
        total = at("Cast", total, to=change.known_element(0))
    at.become("Transpose", total, perm=[0, rank - 1, *range(1, rank - 1)])


def _axis(at: Steps, position: str, size: Size, element: int) -> _Axis:
    """Positions in elements instead of from -1 to 1."""

    def constant(value: float) -> str:
        return at.constant(value, np.float32 if element == TensorProto.FLOAT else np.float64)

    length, from_start = as_float(at, size, element), at("Add", position, constant(1))
    if at.change.integer("align_corners"):
        last = at("Sub", length, constant(1))
        return _Axis(at, element, at("Mul", at("Div", from_start, constant(2)), last), length, constant(0), last)
    coordinate = at("Div", at("Sub", at("Mul", from_start, length), constant(1)), constant(2))
    return _Axis(at, element, coordinate, length, constant(-0.5), at("Sub", length, constant(0.5)))


def _taps(axis: _Axis, mode: str) -> list[_Tap]:
    """What is read along an axis."""
    at, padding = axis.at, axis.at.change.text("padding_mode")
    coordinate = at("Round", axis.coordinate) if mode == "nearest" else axis.coordinate
    # The elements that a cubic reads are clamped one by one instead.
    if padding == "border" and mode != "cubic":
        coordinate = axis.clamped(coordinate)
    elif padding == "reflection":
        coordinate = axis.reflected(coordinate)
    base = at("Floor", coordinate)
    rest = at("Sub", coordinate, base)
    taps = []
    for offset in OFFSETS[mode]:
        element = at("Add", base, axis.constant(offset)) if offset else base
        element = axis.reflected(element) if padding == "reflection" else element
        inside = ""
        if padding == "zeros":
            outside = at("Or", at("Less", element, axis.constant(0)), at("Not", at("Less", element, axis.length)))
            inside = at("Not", outside)
        taps.append(_Tap(axis.index(element), _weight(axis, rest, offset, mode), inside))
    return taps


def _weight(axis: _Axis, rest: str, offset: int, mode: str) -> str:
    """How much an element counts that lies `offset` from the floor of a coordinate, of which `rest` is left."""
    at, constant, a = axis.at, axis.constant, CUBIC_COEFFICIENT
    if mode == "nearest":
        return ""
    distance = rest if offset == 0 else at("Abs", at("Sub", rest, constant(offset)))
    if mode == "linear":
        return at("Sub", constant(1), distance)
    inner = offset in (0, 1)
    factors = (a + 2, -(a + 3), 0.0, 1.0) if inner else (a, -5 * a, 8 * a, -4 * a)
    total = constant(factors[0])
    for factor in factors[1:]:
        total = at("Add", at("Mul", total, distance), constant(factor))
    return total


def _read(at: Steps, data: str, corner: Sequence[_Tap], last: int, element: int) -> str:
    """What the tensor [N, *S, C] holds at a corner, weighed."""
    indices = at("Concat", *(at.over("Unsqueeze", tap.index, [last]) for tap in corner), axis=last)
    read = at("GatherND", data, indices, batch_dims=1)
    for tap in corner:
        if tap.inside:
            zero = at.cast(at.constant(0, np.float32), element)
            read = at("Where", at.over("Unsqueeze", tap.inside, [last]), read, zero)
    for tap in corner:
        if tap.weight:
            read = at("Mul", read, at.over("Unsqueeze", tap.weight, [last]))
    return read


def affine_grid(change: Change) -> None:
    """theta: T[N, r, r + 1], size: i64[r + 2]  ->  T[N, *S, r], each axis of pixels by a column of theta, in f64."""
    at = Steps(change)
    rank = size_of(at, change.input(0), 1)
    if not isinstance(rank, int):
        change.fail("whether its grid is one of planes is not known")
    theta = at("Cast", change.input(0), to=TensorProto.DOUBLE)
    total = _column(at, theta, rank, rank)
    for k in range(rank):
        axis = rank - 1 - k
        moved = along(at, _centers(at, at("Gather", change.input(1), at.integers(2 + axis), axis=0)), axis, rank + 1)
        total = at("Add", total, at("Mul", _column(at, theta, k, rank), moved))
    at.become("Cast", total, to=change.known_element(0))


def _column(at: Steps, theta: str, k: int, rank: int) -> str:
    """theta[N, 1..., r, k] without its last axis"""
    column = at("Gather", theta, at.constant(k, np.int64), axis=2)
    return at.over("Unsqueeze", column, [*range(1, rank + 1)])


def _centers(at: Steps, size: Size) -> str:
    """f64[size]: the coordinates along an axis, from -1 to 1 over the centers of the pixels or over all of them."""

    def f64(value: float) -> str:
        return at.constant(value, np.float64)

    index, count = at("Cast", positions(at, size), to=TensorProto.DOUBLE), as_float(at, size, TensorProto.DOUBLE)
    if not at.change.integer("align_corners"):
        return at("Sub", at("Div", at("Add", at("Mul", index, f64(2)), f64(1)), count), f64(1))
    spread = at("Sub", at("Mul", index, at("Div", f64(2), at("Sub", count, f64(1)))), f64(1))
    return at("Where", at("Less", f64(1), count), spread, f64(0))
