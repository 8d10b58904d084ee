"""Operators that read or write where data says, and that order elements."""

from collections.abc import Iterator, Sequence
from itertools import product

from benchmarks.operators.case import OperatorCase, case, operand
from benchmarks.operators.forms import in_forms

TYPES = ("float32", "float16", "uint8", "int64")


def cases() -> Iterator[OperatorCase]:
    yield from _gathers()
    yield from _scatters()
    yield from _orders()
    yield from _selections()


def _gathers() -> Iterator[OperatorCase]:
    shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...], int]] = (
        ((30522, 384), (1, 128), 0), ((128, 768), (64,), 1), ((1, 12, 128, 64), (), 2), ((1, 64, 56, 56), (32,), 1),
        ((1000, 16), (2000, 4), 0), ((8400, 84), (100,), 0), ((1, 84, 8400), (300,), 2), ((49, 49), (2401,), 0),
        ((32, 100, 3, 1), (20, 50), 0),
    )  # fmt: skip
    for (shape, picked, axis), dtype in product(shapes, TYPES):
        indices = operand("i", "int64", picked, "integers", shape[axis])
        gather = case(f"Gather<axis = {axis}>(x, i)", operand("x", dtype, shape), indices)
        yield from in_forms([gather], "transposed", "sliced", "before") if dtype == "float32" else [gather]
        yield case(
            f"Gather<axis = {axis}>(x, i)",
            operand("x", dtype, shape),
            operand("i", "int32", picked, "integers", shape[axis]),
        )
    along: Sequence[tuple[tuple[int, ...], tuple[int, ...], int]] = (
        ((128, 768), (128, 64), 1), ((1, 8400, 4), (1, 300, 4), 1), ((12, 128, 256), (12, 128, 128), 2),
        ((1, 80, 8400), (1, 80, 100), 2),
        ((512, 512), (512, 512), 0),
    )  # fmt: skip
    for (shape, picked, axis), dtype in product(along, TYPES):
        indices = operand("i", "int64", picked, "integers", shape[axis])
        gather = case(f"GatherElements<axis = {axis}>(x, i)", operand("x", dtype, shape), indices)
        yield from in_forms([gather], "symbolic", "transposed", "sliced") if dtype == "float32" else [gather]
    points: Sequence[tuple[tuple[int, ...], tuple[int, ...], int]] = (
        ((64, 64, 96), (500, 2), 0), ((64, 64), (5000, 2), 0), ((8, 64, 96), (8, 40, 1), 1), ((1000, 128), (300, 1), 0),
    )  # fmt: skip
    for (shape, picked, batch), dtype in product(points, TYPES):
        indices = operand("i", "int64", picked, "integers", 64)
        yield case(f"GatherND<batch_dims = {batch}>(x, i)", operand("x", dtype, shape), indices)


def _scatters() -> Iterator[OperatorCase]:
    along: Sequence[tuple[tuple[int, ...], tuple[int, ...], int]] = (
        ((128, 768), (128, 64), 1), ((1, 8400, 4), (1, 300, 4), 1), ((512, 512), (512, 512), 0), ((10000,), (5000,), 0),
    )  # fmt: skip
    for (shape, picked, axis), dtype, kind in product(along, TYPES, ("none", "add", "max")):
        if kind != "none" and dtype == "uint8":
            continue
        fill = "integers" if kind != "none" else "ordinals"
        operands = (
            operand("x", dtype, shape),
            operand("i", "int64", picked, fill, shape[axis]),
            operand("u", dtype, picked),
        )
        yield case(f'ScatterElements<axis = {axis}, reduction = "{kind}">(x, i, u)', *operands)
    points: Sequence[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = (
        ((1000, 128), (300, 1), (300, 128)), ((64, 64), (5000, 2), (5000,)), ((1, 64, 4096), (16, 2), (16, 4096)),
        ((200, 17, 50, 8), (200, 1), (200, 17, 50, 8)),
    )  # fmt: skip
    for (shape, picked, updates), dtype, kind in product(points, ("float32", "int64"), ("add", "max")):
        operands = (
            operand("x", dtype, shape),
            operand("i", "int64", picked, "integers", min(shape[: picked[-1]])),
            operand("u", dtype, updates),
        )
        yield case(f'ScatterND<reduction = "{kind}">(x, i, u)', *operands)
    for dtype in TYPES:
        operands = (
            operand("x", dtype, (1000, 128)),
            operand("i", "int64", (300, 1), "ordinals", 1000),
            operand("u", dtype, (300, 128)),
        )
        yield case("ScatterND(x, i, u)", *operands)


def _orders() -> Iterator[OperatorCase]:
    shapes: Sequence[tuple[tuple[int, ...], int, int]] = (
        ((8, 1000), 5, 1), ((1, 50257), 50, 1), ((1, 8400), 300, 1), ((128, 64), 8, 1), ((8400,), 8400, 0),
        ((1, 80, 8400), 100, 2),
        ((100000,), 100000, 0), ((64, 8, 100), 4, 1),
    )  # fmt: skip
    for (shape, k, axis), dtype in product(shapes, ("float32", "float64", "int64", "int32")):
        for largest in (1, 0) if dtype == "float32" else (1,):
            high = 1 << 30 if dtype.startswith("int") else 0
            x = operand("x", dtype, shape, "integers" if high else "normal", high)
            ordered = case(
                f"TopK<axis = {axis}, largest = {largest}>(x, k)",
                x,
                constants=f"int64[1] k = {{{k}}}",
                outputs="y, places",
            )
            yield from (
                in_forms([ordered], "symbolic", "transposed", "after") if dtype == "float32" and largest else [ordered]
            )
    for dtype, count in product(("float32", "int64"), (1000, 50000)):
        yield case("Unique<sorted = 1>(x)", operand("x", dtype, (count,), "integers", 500))
    for dtype, rows in product(("float32", "int64"), ((4099, 7), (1000, 2), (100, 100))):
        yield case("Unique<axis = 0>(x)", operand("x", dtype, rows, "integers", 100))
    for dtype, length in product(("float32", "float64", "int64"), (32, 48)):
        whole = operand("x", dtype, (1024, length), high=100000)
        yield case("TopK(x, k)", whole, constants=f"int64[1] k = {{{length}}}", outputs="y, places")

    # Lines that cross memory, and more than a few of short ones: the best of proposals, channels, whole columns.
    crossing: Sequence[tuple[tuple[int, ...], int, int]] = (
        ((8, 100, 64), 10, 1), ((8, 100, 64), 32, 1), ((20, 300, 5), 10, 1), ((4, 1000, 16), 20, 1),
        ((1000, 16), 4, 0), ((1000, 16), 1000, 0), ((512, 100), 16, 1), ((7, 7, 500), 250, 2),
        ((31, 5, 32), 16, 2), ((64, 3, 33), 64, 0), ((127, 128, 2), 5, 1), ((20, 300, 5), 20, 1), ((40, 3, 100), 10, 2),
    )  # fmt: skip
    for (shape, k, axis), dtype in product(crossing, ("float32", "float64", "int64")):
        high = 1 << 30 if dtype == "int64" else 0
        x = operand("x", dtype, shape, "integers" if high else "normal", high)
        constants = f"int64[1] k = {{{k}}}"
        yield case(f"TopK<axis = {axis}>(x, k)", x, constants=constants, outputs="y, places")


def _selections() -> Iterator[OperatorCase]:
    for dtype, shape in product(("float32", "bool", "int64"), ((128, 768), (8400,))):
        yield case("NonZero(x)", operand("x", dtype, shape, "integers", 2))
    for shape, axis in (((8400, 4), 0), ((128, 768), 1)):
        yield case(
            f"Compress<axis = {axis}>(x, c)", operand("x", "float32", shape), operand("c", "bool", (shape[axis],))
        )
    for dtype in ("float32", "int64"):
        values = f"int64 d = {{80}}, {'float' if dtype == 'float32' else dtype}[2] v = {{0, 1}}"
        yield case("OneHot<axis = -1>(x, d, v)", operand("x", "int64", (8400,), "integers", 80), constants=values)
        yield case("OneHot<axis = 1>(x, d, v)", operand("x", "int64", (1, 56, 56), "integers", 80), constants=values)
    boxes, scores = operand("b", "float32", (1, 1000, 4), "positive"), operand("s", "float32", (1, 4, 1000), "positive")
    constants = "int64[1] m = {50}, float[1] t = {0.5}, float[1] c = {0.6}"
    yield case("NonMaxSuppression(b, s, m, t, c)", boxes, scores, constants=constants)
