"""Fourier transforms as products with matrices of roots of one, in f64 until the last cast; and mel weights."""

from collections.abc import Sequence
from math import log, pi

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.sizes import (
    Size,
    along,
    as_float,
    lacking,
    positions,
    size_of,
    sum_of,
    value_of,
    vector,
)
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.runtime.records import record

__all__ = ["dft", "mel_weight_matrix", "stft"]

F64 = TensorProto.DOUBLE
MELS_PER_NEPER, CORNER_HERTZ = 2595 / log(10), 700.0
"""mel(f) = 2595 log10(1 + f / 700)"""


@record
class _Roots:
    """f64[length, bins]: cosines and sines of the products of the positions along both axes, in turns / length."""

    cosines: str
    sines: str


def _roots(at: Steps, rows: Size, bins: Size, length: Size) -> _Roots:
    products = at("Mul", along(at, positions(at, rows), 0, 2), positions(at, bins))
    turns = at("Cast", at("Mod", products, value_of(at, length)), to=F64)
    angles = at("Mul", turns, at("Div", at.constant(2 * pi, np.float64), as_float(at, length, F64)))
    return _Roots(at("Cos", angles), at("Sin", angles))


def dft(change: Change) -> None:
    """The transform along an axis, which is turned to the last one but for that of the parts."""
    at, x, rank = Steps(change), change.input(0), change.rank(0)
    axis, parts = change.axis(change.integer("axis", 1)), size_of(at, x, -1)
    is_inverse, is_onesided = bool(change.integer("inverse")), bool(change.integer("onesided"))
    if not isinstance(parts, int):
        change.fail("whether its signal is complex is not known")
    own = size_of(at, x, axis)
    length = _length(at, own, is_half=is_inverse and is_onesided)
    taken = _half(at, length) if is_inverse and is_onesided else length
    wide = at("Cast", x, to=F64)
    if taken != own:
        wide = _fitted(at, wide, axis, rank, own, taken)
    order = [*(each for each in range(rank - 1) if each != axis), axis, rank - 1]
    turned = at("Transpose", wide, perm=order)
    signal = [at("Gather", turned, at.constant(part, np.int64), axis=rank - 1) for part in range(parts)]
    if is_inverse and is_onesided:
        result = [_real_signal(at, signal, taken, length)]
    else:
        result = _spectrum(at, signal, length, is_inverse=is_inverse, is_onesided=is_onesided)
    joined = at("Concat", *(at.over("Unsqueeze", part, [rank - 1]) for part in result), axis=rank - 1)
    back = at("Transpose", joined, perm=[order.index(each) for each in range(rank)])
    at.become("Cast", back, to=change.known_element(0))


def _length(at: Steps, own: Size, *, is_half: bool) -> Size:
    """How long the signal is to be: as the node says, or as it is; behind half a spectrum, of an even length."""
    if at.change.input(1):
        return _known_or_vector(at, 1)
    if not is_half:
        return own
    if isinstance(own, int):
        return 2 * (own - 1)
    return at("Mul", at("Sub", own, at.integers(1)), at.integers(2))


def _known_or_vector(at: Steps, position: int) -> Size:
    """An input that is a number, as a size."""
    if at.change.input(position) in at.change.values.constants:
        return int(at.change.scalar(position) or 0)
    return at("Reshape", at.cast(at.change.input(position), TensorProto.INT64), at.integers(1))


def _half(at: Steps, length: Size) -> Size:
    """How many bins a spectrum of a real signal has that are not conjugates of others."""
    if isinstance(length, int):
        return length // 2 + 1
    return at("Add", at("Div", length, at.integers(2)), at.integers(1))


def _fitted(at: Steps, x: str, axis: int, rank: int, own: Size, wanted: Size) -> str:
    """The first elements along an axis, with zeros behind them where there are not so many."""
    cut = at("Slice", x, at.integers(0), value_of(at, wanted), at.integers(axis))
    pads: list[Size] = [0] * (2 * rank)
    pads[rank + axis] = lacking(at, own, wanted)
    return at("Pad", cut, vector(at, pads))


def _spectrum(at: Steps, signal: Sequence[str], length: Size, *, is_inverse: bool, is_onesided: bool) -> list[str]:
    """The real and imaginary parts of the transform along the last axis of the real and imaginary parts."""
    roots = _roots(at, length, _half(at, length) if is_onesided else length, length)
    with_cosines = [at("MatMul", part, roots.cosines) for part in signal]
    with_sines = [at("MatMul", part, roots.sines) for part in signal]
    signs = ("Sub", "Add") if is_inverse else ("Add", "Sub")
    if len(signal) == 1:
        parts = [with_cosines[0], with_sines[0] if is_inverse else at("Sub", at.constant(0, np.float64), with_sines[0])]
    else:
        parts = [at(signs[0], with_cosines[0], with_sines[1]), at(signs[1], with_cosines[1], with_sines[0])]
    return [at("Div", part, as_float(at, length, F64)) for part in parts] if is_inverse else parts


def _real_signal(at: Steps, spectrum: Sequence[str], bins: Size, length: Size) -> str:
    """The signal of half a spectrum, whose bins count twice but for the first, and the last of an even length."""
    if len(spectrum) == 1:
        at.change.fail("it makes a signal of a spectrum without imaginary parts")
    roots = _roots(at, bins, length, length)
    order = positions(at, bins)
    twice = at("Mul", order, at.integers(2))
    is_once = at("Or", at("Equal", order, at.integers(0)), at("Equal", twice, value_of(at, length)))
    weights = at("Where", is_once, at.constant(1, np.float64), at.constant(2, np.float64))
    real, imaginary = (at("Mul", part, weights) for part in spectrum)
    total = at("Sub", at("MatMul", real, roots.cosines), at("MatMul", imaginary, roots.sines))
    return at("Div", total, as_float(at, length, F64))


def stft(change: Change) -> None:
    """The transforms of frames, each a step behind the one before."""
    at, x, window = Steps(change), change.input(0), change.input(2)
    rank = change.rank(0)
    parts = size_of(at, x, -1) if rank == 3 else 1
    if not isinstance(parts, int):
        change.fail("whether its signal is complex is not known")
    own, step = size_of(at, x, 1), _known_or_vector(at, 1)
    if change.input(3):
        length = _known_or_vector(at, 3)
    else:
        length = size_of(at, window, 0) if window else own
    wide = at("Cast", x, to=F64)
    wide = wide if rank == 3 else at.over("Unsqueeze", wide, [2])
    taken = at("Gather", wide, _frames(at, own, length, step), axis=1)
    frames = [at("Gather", taken, at.constant(part, np.int64), axis=3) for part in range(parts)]
    if window:
        factors = at("Cast", window, to=F64)
        frames = [at("Mul", part, factors) for part in frames]
    spectrum = _spectrum(at, frames, length, is_inverse=False, is_onesided=bool(change.integer("onesided", 1)))
    joined = at("Concat", *(at.over("Unsqueeze", part, [3]) for part in spectrum), axis=3)
    at.become("Cast", joined, to=change.known_element(0))


def _frames(at: Steps, own: Size, length: Size, step: Size) -> str:
    """i64[frames, length]: the elements of each frame."""
    if isinstance(own, int) and isinstance(length, int) and isinstance(step, int):
        count: Size = (own - length) // step + 1
    else:
        room = at("Sub", value_of(at, own), value_of(at, length))
        count = at("Add", at("Div", room, value_of(at, step)), at.integers(1))
    starts = at("Mul", positions(at, count), value_of(at, step))
    return at("Add", along(at, starts, 0, 2), positions(at, length))


def mel_weight_matrix(change: Change) -> None:
    """Triangles between corners that are whole bins, evenly spaced in mel."""
    at = Steps(change)
    count, length = (_known_or_vector(at, position) for position in (0, 1))
    corners = _corners(at, count, length)
    starts = [at("Add", positions(at, count), at.integers(k)) for k in (0, 1, 2)]
    left, centre, right = (at("Gather", corners, start, axis=0) for start in starts)
    bins = along(at, at("Cast", positions(at, _half(at, length)), to=F64), 0, 2)
    before, after = at("Sub", bins, left), at("Sub", right, bins)
    rises = at("And", at("Not", at("Less", bins, left)), at("Not", at("Less", centre, bins)))
    rises = at("And", rises, at("Less", left, centre))
    falls = at("And", at("Not", at("Less", bins, centre)), at("Less", bins, right))
    is_centre = at("Not", at("Or", at("Less", bins, centre), at("Less", centre, bins)))
    peak = at("Cast", at("And", is_centre, at("Not", at("Less", left, centre))), to=F64)
    rising, falling = at("Div", before, at("Sub", centre, left)), at("Div", after, at("Sub", right, centre))
    weights = at("Where", falls, falling, at("Where", rises, rising, peak))
    at.become("Cast", weights, to=change.integer("output_datatype", TensorProto.FLOAT))


def _corners(at: Steps, count: Size, length: Size) -> str:
    """f64[count + 2]: bins."""

    def f64(value: float) -> str:
        return at.constant(value, np.float64)

    edges = (at("Cast", at.change.input(position), to=F64) for position in (3, 4))
    low, high = (
        at("Mul", at("Log", at("Add", at("Div", edge, f64(CORNER_HERTZ)), f64(1))), f64(MELS_PER_NEPER))
        for edge in edges
    )
    steps = at("Cast", positions(at, sum_of(at, count, 2)), to=F64)
    step = at("Div", at("Sub", high, low), as_float(at, sum_of(at, count, 2), F64))
    mels = at("Add", at("Mul", steps, step), low)
    hertz = at("Mul", at("Sub", at("Exp", at("Div", mels, f64(MELS_PER_NEPER))), f64(1)), f64(CORNER_HERTZ))
    scaled = at("Mul", hertz, as_float(at, sum_of(at, length, 1), F64))
    return at("Floor", at("Div", scaled, at("Cast", at.change.input(2), to=F64)))
