"""Axes that all ops of a block go through alike are one: the same elements in the same order, of fewer axes."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Block, Function, Module, Parameter, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.loops.collapse_axes import collapse_axes
from tests.planning.plans import make

N, M = Size.symbol("N"), Size.symbol("M")
SIZES, NAMES = {"N": 3, "M": 2}, ("x0", "x1", "x2")


def _softmax(ir: Builder, x: Value, axis: int) -> Value:
    largest = ir.reduce(x, "max", (axis,), keepdims=True)
    powers = ir.exp(ir.sub(x, largest))
    return ir.div(powers, ir.reduce(powers, "sum", (axis,), keepdims=True))


def _means_of_groups(ir: Builder, x: Value) -> Value:
    """x: f32[N, 6, M]; the second axis in groups of two, folded with the last."""
    groups = ir.reshape(x, (N, 3, 2, M))
    return ir.reshape(ir.sub(groups, ir.reduce(groups, "sum", (2, 3), keepdims=True)), x.shape)


# The types of the parameters, what is built of them, and the shapes of the parameters and of the result then.
CASES: dict[str, tuple[Sequence[str], Callable[..., Value], Sequence[tuple[Dim, ...]]]] = {
    "rows of several axes": (
        ["f32[N, 4, M, 7]"], lambda ir, x: ir.arg_reduce(ir.mul(x, ir.exp(x)), "max", 3), [(4 * N * M, 7), (4 * N * M,)]
    ),
    "along the first axis": (["f32[N, 4, M]"], lambda ir, x: ir.scan_axis(x, "sum", 0), [(N, 4 * M), (N, 4 * M)]),
    "along one in the middle": (
        ["f32[N, 2, M, 5, 3]"], lambda ir, x: ir.scan_axis(x, "sum", 2), [(2 * N, M, 15), (2 * N, M, 15)]
    ),
    "of one element, where nothing follows": (
        ["f32[N, 4, 1, 1]"], lambda ir, x: ir.reduce(x, "sum", (1,)), [(N, 4), (N,)]
    ),
    "several folded, side by side": (["f32[N, M, 5]"], lambda ir, x: ir.reduce(x, "max", (1, 2)), [(N, 5 * M), (N,)]),
    "several folded, apart": (["f32[N, M, 5]"], lambda ir, x: ir.reduce(x, "max", (0, 2)), [(N, M, 5), (M,)]),
    "all folded": (["f32[N, M, 5]"], lambda ir, x: ir.reduce(x, "sum", (0, 1, 2)), [(5 * N * M,), ()]),
    "rows that are written": (
        ["f32[N, 4, M, 1, 7]"], lambda ir, x: _softmax(ir, x, 4), [(4 * N * M, 7), (4 * N * M, 7)]
    ),
    "a number for each of an axis": (
        ["f32[N, 4, M, 7]", "f32[4]"],
        lambda ir, x, y: ir.reduce(ir.mul(x, ir.broadcast(y, (1,), x.shape)), "sum", (3,)),
        [(N, 4, M, 7), (4,), (N, 4, M)],
    ),
    "a row for all others": (
        ["f32[N, 4, M, 7]", "f32[7]"],
        lambda ir, x, y: ir.reduce(ir.mul(x, ir.broadcast(y, (3,), x.shape)), "sum", (3,)),
        [(4 * N * M, 7), (7,), (4 * N * M,)],
    ),
    "repeated along axes of one element": (
        ["f32[N, 4, M, 7]", "f32[N, 1, 1, 7]"],
        lambda ir, x, y: ir.reduce(ir.mul(x, ir.broadcast(y, (0, 1, 2, 3), x.shape)), "sum", (3,)),
        [(N, 4 * M, 7), (N, 7), (N, 4 * M)],
    ),
    "repeated along an axis, perhaps": (
        ["f32[2, 3, 4, 7]", "f32[2, N, 4, 7]"],
        lambda ir, x, y: ir.reduce(ir.mul(x, ir.broadcast(y, (0, 1, 2, 3), (2, 3, 4, 7))), "sum", (1, 2, 3)),
        [(2, 3, 28), (2, N, 28), (2,)],
    ),
    "repeated and turned": (
        ["f32[N, 4, 5, M]", "f32[5, 4]"],
        lambda ir, x, y: ir.reduce(ir.mul(x, ir.broadcast(y, (2, 1), x.shape)), "sum", (3,)),
        [(N, 4, 5, M), (5, 4), (N, 4, 5)],
    ),
    "turned as a whole": (
        ["f32[N, 4, M, 7]"],
        lambda ir, x: ir.reduce(ir.transpose(x, (2, 3, 0, 1)), "max", (2, 3)),
        [(4 * N, 7 * M), (7 * M,)],
    ),
    "turned apart": (
        ["f32[N, 4, M, 7]"],
        lambda ir, x: ir.reduce(ir.transpose(x, (0, 3, 2, 1)), "max", (3,)),
        [(N, 4, M, 7), (N, 7, M)],
    ),
    "turned axes of one element": (
        ["f32[N, 1, M, 7]"], lambda ir, x: ir.reduce(ir.transpose(x, (1, 0, 2, 3)), "max", (3,)), [(N * M, 7), (N * M,)]
    ),
    "read in two orders": (
        ["f32[4, 4, 5]"],
        lambda ir, x: ir.reduce(ir.add(x, ir.transpose(x, (1, 0, 2))), "max", (2,)),
        [(4, 4, 5), (4, 4)],
    ),
    "two folds, of which one is by an axis": (
        ["f32[N, 4, M]", "f32[N, 4, M]", "f32[4]"],
        lambda ir, x, y, z: ir.add(
            ir.reduce(x, "sum", (1, 2)), ir.reduce(ir.mul(y, ir.broadcast(z, (1,), y.shape)), "sum", (1, 2))
        ),
        [(N, 4, M), (N, 4, M), (4,), (N,)],
    ),
    "split axes, of memory that is in one piece": (["f32[N, 6, M]"], _means_of_groups, [(6 * N * M,), (6 * N * M,)]),
    "joined axes": (
        ["f32[N, 4, M, 7]"],
        lambda ir, x: ir.reduce(ir.reshape(x, (N, 4 * M, 7)), "sum", (2,)),
        [(4 * N * M, 7), (4 * N * M,)],
    ),
    "joined across a row": (
        ["f32[N, 4, M, 7]"],
        lambda ir, x: ir.reduce(ir.reshape(x, (N, 4, 7 * M)), "sum", (1,)),
        [(N, 4, 7 * M), (N, 7 * M)],
    ),
    "part of an axis, before one of one element": (
        ["f32[N, 9, 1]"], lambda ir, x: ir.arg_reduce(ir.slice(x, (0, 2, 0), (N, 5, 1)), "max", 1), [(N, 9), (N,)]
    ),
    "part of the first axis": (
        ["f32[5, 4, M, 7]"],
        lambda ir, x: ir.reduce(ir.slice(x, (1, 0, 0, 0), (3, 4, M, 7)), "max", (3,)),
        [(20 * M, 7), (12 * M,)],
    ),
    "part of one in the middle": (
        ["f32[N, 4, M, 7]"],
        lambda ir, x: ir.reduce(ir.slice(x, (0, 1, 0, 0), (N, 2, M, 7)), "max", (3,)),
        [(N, 4 * M, 7), (N, 2 * M)],
    ),
    "every other row": (
        ["f32[6, 4, 3, 7]"],
        lambda ir, x: ir.reduce(ir.slice(x, (1, 0, 0, 0), (3, 4, 3, 7), (2, 1, 1, 1)), "max", (3,)),
        [(6, 12, 7), (3, 12)],
    ),
    "backwards": (
        ["f32[N, 4, M, 7]"], lambda ir, x: ir.reduce(ir.reverse(x, 2), "sum", (3,)), [(4 * N, M, 7), (4 * N, M)]
    ),
    "one of an axis": (
        ["f32[4, 5, M, 7]"],
        lambda ir, x: ir.reduce(ir.slice(x, (1, 2, 0, 0), (1, 3, M, 7)), "max", (3,)),
        [(4, 5 * M, 7), (3 * M,)],
    ),
    "no elements": (["f32[N, 0, 4, 7]"], lambda ir, x: ir.reduce(x, "sum", (3,)), [(0, 7), (0,)]),
    "a fold of one element": (["f32[N, 4, 1]"], lambda ir, x: ir.reduce(x, "sum", (2,)), [(N, 4, 1), (N, 4)]),
    "what is not known here": (
        ["f32[N, 4, 7]"], lambda ir, x: ir.reduce(ir.pad(x, (0, 0, 1), (0, 0, 0)), "sum", (2,)), [(N, 4, 7), (N, 4)]
    ),
    "a scalar": (
        ["f32[]", "f32[N, 4, 7]"],
        lambda ir, x, y: ir.reduce(ir.mul(y, x), "sum", (2,)),
        [(), (4 * N, 7), (4 * N,)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_axes_that_are_gone_through_alike_are_one(case: str) -> None:
    types, build, shapes = CASES[case]
    before = make(types, build)
    block = collapse_axes(before.main.body)
    assert [value.shape for value in (*block.parameters, *block.results)] == list(shapes)
    # By an operand that nothing reads the interpreter knows the sizes.
    named = Parameter("sizes", TensorType(F32, (N, M))).value
    body = Block((named, *block.parameters), block.ops, block.results)
    after = Module("m", (Function("main", body, before.main.result_names, before.main.symbols),))
    rng = np.random.default_rng(0)
    feeds = [_drawn(value.shape, rng) for value in before.main.body.parameters]
    (expected,) = interpret(before, dict(zip(NAMES, feeds, strict=False)))
    moved = [x.reshape(_sizes(value.shape)) for x, value in zip(feeds, block.parameters, strict=True)]
    (actual,) = interpret(after, {"sizes": _drawn((N, M), rng), **dict(zip(NAMES, moved, strict=False))})
    assert np.asarray(actual).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(np.ravel(np.asarray(actual)), np.ravel(np.asarray(expected)), rtol=1e-5)


def _sizes(shape: Sequence[Dim]) -> list[int]:
    return [evaluate(size, SIZES) for size in shape]


def _drawn(shape: Sequence[Dim], rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(_sizes(shape)).astype(np.float32)
