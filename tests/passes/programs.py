"""Random small programs of ops that rules look for: chains of arithmetic, movement, reductions and products."""

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import BOOL, F16, F32, F64, I32, I64
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.ir.types import TensorType
from tests.passes.golden import N, built

NUMBERS = (0, 1, -1, 2, 0.5, -0.0, 3, 4, -2)
SHAPES: Sequence[tuple[Dim, ...]] = ((), (N,), (2, 3), (1, N), (N, 2, 3), (2, 1, 3), (6,), (N, 6))
DTYPES = (F32, I64, BOOL, F16, I32, F64)

Step = Callable[[Builder, list[Value], DrawFn], Value | None]


def _pick(values: list[Value], draw: DrawFn) -> Value:
    return values[draw(st.integers(max(0, len(values) - 4), len(values) - 1))]


def _number(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    number = draw(st.sampled_from(NUMBERS))
    names = ("and_", "or_", "xor", "equal") if x.dtype.is_bool else ("add", "sub", "mul", "div", "min", "max", "less")
    operation = getattr(build, draw(st.sampled_from(names)))
    scalar = bool(number) if x.dtype.is_bool else number if x.dtype.is_float else int(number)
    return operation(x, scalar) if draw(st.booleans()) else operation(scalar, x)


def _binary(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    alike = [value for value in values if value.type == x.type]
    y = alike[draw(st.integers(0, len(alike) - 1))]
    names = (
        ("and", "or", "xor", "equal") if x.dtype.is_bool else ("add", "sub", "mul", "div", "min", "max", "less", "rem")
    )
    return build.binary(draw(st.sampled_from(names)), x, y)


def _unary(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    if x.dtype.is_bool:
        return build.not_(x)
    return build.unary(draw(st.sampled_from(("neg", "abs", "floor", "round", "sign"))), x)


def _power(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    return None if x.dtype.is_bool else build.pow(x, draw(st.sampled_from((0, 1, 2))))


def _choose(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    conditions = [value for value in values if value.dtype.is_bool and value.shape == x.shape]
    alike = [value for value in values if value.type == x.type]
    if not conditions:
        return None
    return build.select(draw(st.sampled_from(conditions)), x, draw(st.sampled_from(alike)))


def _cast(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    return build.cast(_pick(values, draw), draw(st.sampled_from(DTYPES)))


def _reshape(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    count = product(x.shape)
    shapes = ((count,), (1, *x.shape), (*x.shape, 1), (2, 3), (3, 1, 2), (N, 2, 3), (6, N), (N, 1, 6))
    return build.reshape(x, draw(st.sampled_from([shape for shape in shapes if product(shape) == count])))


def _transpose(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    return build.transpose(x, draw(st.permutations(range(x.rank))))


def _broadcast(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    if x.rank > 3:
        return None
    place = draw(st.integers(0, x.rank))
    shape = list(x.shape)
    shape.insert(place, draw(st.sampled_from((2, N, 1))))
    return build.broadcast(x, [axis + (axis >= place) for axis in range(x.rank)], shape)


def _slice(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    axes = [axis for axis, size in enumerate(x.shape) if isinstance(size, int) and size > 1]
    if not axes:
        return None
    axis = draw(st.sampled_from(axes))
    size = x.shape[axis]
    assert isinstance(size, int)
    start = draw(st.integers(0, size - 1))
    step = draw(st.sampled_from((1, 1, 2, -1)))
    most = (size - 1 - start) // step + 1 if step > 0 else start + 1
    return build.slice_axis(x, axis, start, draw(st.integers(0, most)), step)


def _concatenate(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    alike = [value for value in values if value.type == x.type]
    return build.concatenate([x, draw(st.sampled_from(alike))], draw(st.integers(0, x.rank - 1))) if x.rank else None


def _pad(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    ends = st.lists(st.integers(0, 1), min_size=x.rank, max_size=x.rank)
    return build.pad(x, draw(ends), draw(ends), draw(st.sampled_from((0, 1))))


def _reduce(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    if not x.rank:
        return None
    kinds = ("and", "or") if x.dtype.is_bool else ("max", "min", "sum") if x.dtype.is_integer else ("max", "min")
    axes = draw(st.lists(st.integers(0, x.rank - 1), min_size=1, unique=True))
    return build.reduce(x, draw(st.sampled_from(kinds)), axes, keepdims=draw(st.booleans()))


def _gather(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    x = _pick(values, draw)
    if not x.rank:
        return None
    axis = draw(st.integers(0, x.rank - 1))
    size = x.shape[axis]
    if isinstance(size, int) and size:
        places = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=3))
        return build.gather(x, build.constant(np.array(places, np.int64)), axis)
    return build.gather(x, build.iota((size,), 0, I64), axis)


def _generate(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    shape = draw(st.sampled_from(SHAPES))
    dtype = draw(st.sampled_from(DTYPES))
    if shape and not dtype.is_bool and draw(st.booleans()):
        return build.iota(shape, draw(st.integers(0, len(shape) - 1)), dtype)
    return build.full(shape, draw(st.sampled_from(NUMBERS)), dtype)


def _dot(build: Builder, values: list[Value], draw: DrawFn) -> Value | None:
    """Products of small whole numbers in f64, which are exact in any order."""
    x = _pick(values, draw)
    if not x.rank or x.rank > 3:
        return None
    whole = build.cast(build.rem(build.cast(x, I64), 4), F64)
    letters = "abc"[: x.rank]
    moved = "".join(draw(st.permutations(letters)))
    other = build.transpose(whole, [letters.index(letter) for letter in moved])
    kept = "".join(sorted(draw(st.sets(st.sampled_from(letters)))))
    return build.dot(whole, other, f"{letters},{moved}->{kept}")


EXACT: Sequence[Step] = (
    _number,
    _number,
    _binary,
    _unary,
    _power,
    _choose,
    _cast,
    _reshape,
    _reshape,
    _transpose,
    _transpose,
    _broadcast,
    _broadcast,
    _slice,
    _concatenate,
    _pad,
    _reduce,
    _gather,
    _generate,
    _dot,
)


@composite
def programs(draw: DrawFn) -> Module:
    """A module whose results are exact in any order of computing."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2))
    types = tuple(TensorType(draw(st.sampled_from(DTYPES)), shape) for shape in shapes)

    def make(build: Builder, *parameters: Value) -> tuple[Value, ...]:
        values = list(parameters)
        for _ in range(draw(st.integers(1, 10))):
            made = draw(st.sampled_from(EXACT))(build, values, draw)
            if made is not None and made.rank <= 4:
                values.append(made)
        return tuple(values[-2:])

    return built(types, make)
