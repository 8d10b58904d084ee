"""Folds along axes, places of extrema, running sums."""

from collections.abc import Iterator, Sequence
from itertools import product

from benchmarks.operators.case import OperatorCase, case, operand
from benchmarks.operators.forms import in_forms

KINDS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
# Shapes with the axes that models fold: of tokens, channels of either layout, pixels, batches, all.
FOLDED: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = (
    ((128, 768), (1,)), ((128, 768), (0,)), ((1, 64, 56, 56), (2, 3)), ((1, 64, 56, 56), (1,)),
    ((1, 56, 56, 64), (1, 2)), ((1, 56, 56, 64), (3,)), ((4, 128, 384), (1,)), ((1, 12, 128, 128), (3,)),
    ((512, 1024), (0, 1)), ((8400, 4), (1,)), ((8, 16, 32, 64), (1, 3)), ((16, 8192), (1,)),
    ((1, 2048, 7, 7), (2, 3)), ((100000,), (0,)),
)  # fmt: skip
FORMS = ("symbolic", "sliced", "split", "transposed", "after", "before")


def cases() -> Iterator[OperatorCase]:
    for kind, (shape, axes) in product(KINDS, FOLDED):
        yield _fold(kind, "float32", shape, axes)
    narrow = ("float16", "float64", "int32", "int64", "int8", "uint8")
    for kind, dtype, (shape, axes) in product(("ReduceSum", "ReduceMean", "ReduceMax"), narrow, FOLDED[:6]):
        yield _fold(kind, dtype, shape, axes)
    for kind, (shape, axes) in product(("ReduceSum", "ReduceMean", "ReduceMax"), FOLDED[:8]):
        yield from in_forms([_fold(kind, "float32", shape, axes)], *FORMS)
    # Short rows of a length that only a call tells, among several axes.
    for kind, columns in product(("ReduceSum", "ReduceMax", "ReduceLogSumExp"), (1, 5, 8, 28)):
        yield from in_forms([_fold(kind, "float32", (8, 32, 14, columns), (3,))], "open", "after")
    yield from _extrema()
    yield from _scans()


def _fold(kind: str, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> OperatorCase:
    fill = "positive" if "Log" in kind or "Prod" in kind else ""
    listed = ", ".join(map(str, axes))
    x = operand("x", dtype, shape, fill if dtype.startswith("float") else "")
    return case(f"{kind}<keepdims = 0>(x, axes)", x, constants=f"int64[{len(axes)}] axes = {{{listed}}}")


def _extrema() -> Iterator[OperatorCase]:
    shapes: Sequence[tuple[tuple[int, ...], int]] = (
        ((128, 768), 1), ((128, 768), 0), ((1, 21, 128, 128), 1), ((8400, 80), 1), ((1, 80, 8400), 1), ((1, 50257), 1),
        ((1, 128, 128, 21), 3), ((1, 77, 1024), 1), ((100003,), 0), ((13, 2000, 1), 1),
    )  # fmt: skip
    for kind, (shape, axis), dtype in product(("ArgMax", "ArgMin"), shapes, ("float32", "int32", "uint8", "float64")):
        yield case(f"{kind}<axis = {axis}, keepdims = 0>(x)", operand("x", dtype, shape))
    for shape, axis in shapes:
        last = case(f"ArgMax<axis = {axis}, keepdims = 0, select_last_index = 1>(x)", operand("x", "float32", shape))
        yield last
        first = case(f"ArgMax<axis = {axis}, keepdims = 0>(x)", operand("x", "float32", shape))
        yield from in_forms([first], "symbolic", "transposed", "sliced", "after")
    for columns in (1, 7, 28):
        short = case("ArgMax<axis = 3, keepdims = 0>(x)", operand("x", "float32", (8, 32, 14, columns)))
        yield from in_forms([short], "open", "after")


def _scans() -> Iterator[OperatorCase]:
    shapes: Sequence[tuple[tuple[int, ...], int]] = (
        ((128, 768), 1), ((128, 768), 0), ((1, 16, 128, 64), 2), ((1, 16, 128, 64), 1), ((100000,), 0),
        ((8, 512, 512), 2),
        ((1, 32000), 1), ((8400, 4), 1),
    )  # fmt: skip
    for (shape, axis), dtype in product(shapes, ("float32", "float64", "int32", "int64")):
        scan = case("CumSum(x, axis)", operand("x", dtype, shape), constants=f"int64 axis = {{{axis}}}")
        yield from in_forms([scan], "symbolic", "transposed") if dtype == "float32" else [scan]
    for options in ("exclusive = 1", "reverse = 1", "exclusive = 1, reverse = 1"):
        yield case(f"CumSum<{options}>(x, axis)", operand("x", "float32", (128, 768)), constants="int64 axis = {1}")
