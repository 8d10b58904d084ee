"""Derivatives of control flow."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.capture import close_blocks
from onnxc.compiler.ir.differentiation.derivative import NotDifferentiable
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, F64, I64
from onnxc.compiler.ir.module import Value, walk
from onnxc.compiler.ir.types import TensorType
from tests.ir.finite_differences import Make, N, assert_gradients, gradients_at, program

RANDOM = np.random.default_rng(13)

Body = Callable[[Builder, Value, Sequence[Value]], tuple[Sequence[Value], Sequence[Value]]]
"""(builder, iteration, carried) -> (carried, scanned)"""


def choose(
    build: Builder, condition: Value, then: Callable[[Builder], Value], other: Callable[[Builder], Value]
) -> Value:
    blocks = []
    for make in (then, other):
        inner = build.nested()
        blocks.append(inner.block((), [make(inner)]))
    captures, closed = close_blocks(blocks)
    return build.if_(condition, captures, closed, [blocks[0].results[0].type])[0]


def repeat(
    build: Builder, limit: Value, initial: Sequence[Value], make: Body, kept: Value | None = None
) -> tuple[Value, ...]:
    """The loop; `make` may end it by giving a bool as the first of what it carries, with `kept` at the start."""
    inner = build.nested()
    iteration = inner.parameter("iteration", TensorType(I64, ()))
    parameters = [inner.parameter(f"c{place}", value.type) for place, value in enumerate(initial)]
    carried, scanned = make(inner, iteration, parameters)
    true = inner.scalar(True, BOOL)
    going = true if kept is None else inner.less(inner.reduce(inner.abs(carried[0]), "sum", range(carried[0].rank)), 50)
    captures, (closed,) = close_blocks([inner.block((iteration, *parameters), (going, *carried, *scanned))])
    symbol = build.symbols.fresh("trips")
    stacks = [TensorType(value.dtype, (Size.symbol(symbol), *value.shape)) for value in scanned]
    types = [*(value.type for value in initial), *stacks]
    return build.while_(limit, build.scalar(True, BOOL), initial, captures, closed, types, symbol)


def by_sign(build: Builder, x: Value, y: Value) -> Value:
    total = build.reduce(x, "sum", (0,))
    then = lambda b: b.mul(b.exp(x), y)  # noqa: E731
    return choose(build, build.less(0, total), then, lambda b: b.mul(x, x))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("order", [1, 2])
def test_a_branch_flows_back_to_what_it_captures(sign: int, order: int) -> None:
    x = np.abs(RANDOM.normal(0, 1, 3)) * sign
    assert_gradients(by_sign, x, RANDOM.normal(0, 1, 3), order=order, tolerance=1e-5)
    if order == 1:
        assert_gradients(by_sign, x, RANDOM.normal(0, 1, 3), shapes=[(N,), (N,)])


def test_what_a_branch_takes_twice_gets_both() -> None:
    x = np.array([1.5, 2.0])
    assert_gradients(
        lambda b, x: choose(b, b.less(0, b.reduce(x, "sum", (0,))), lambda i: i.mul(x, b.exp(x)), lambda i: x), x
    )


def test_branches_within_branches() -> None:
    def make(build: Builder, x: Value) -> Value:
        positive = build.less(0, build.reduce(x, "sum", (0,)))
        large = build.less(5, build.reduce(x, "max", (0,)))
        return choose(
            build, positive, lambda b: choose(b, large, lambda i: i.exp(x), lambda i: i.mul(x, 3)), lambda b: x
        )

    for x in ([1.0, 2.0], [1.0, 6.0], [-1.0, 0.5]):
        assert_gradients(make, np.array(x), tolerance=1e-5)


def test_a_branch_with_a_size_of_its_own() -> None:
    def make(build: Builder, x: Value) -> Value:
        def then(b: Builder) -> Value:
            places = b.non_zero(b.less(0, x))
            return b.reduce(b.square(b.gather_nd(x, b.transpose(places, (1, 0)))), "sum", (0,))

        return choose(build, build.less(0, build.reduce(x, "sum", (0,))), then, lambda b: b.reduce(x, "prod", (0,)))

    assert_gradients(make, np.array([1.0, -0.5, 2]))
    assert_gradients(make, np.array([1.0, -5, 2]))


def powers(trips: int, kept: bool = False) -> Make:
    def make(build: Builder, x: Value, y: Value) -> Value:
        def body(b: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
            (state,) = carried
            scaled = b.mul(b.add(state, b.cast(iteration, F64)), y)
            return [b.add(scaled, b.unary("sin", state))], [b.mul(scaled, x)]

        last, stacked = repeat(build, build.constant(np.array(trips)), [x], body, x if kept else None)
        return build.add(last, build.reduce(build.exp(build.mul(stacked, 0.1)), "sum", (0,)))

    return make


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_loop_flows_back_through_what_it_carries_captures_and_stacks(trips: int) -> None:
    x, y = RANDOM.uniform(0.3, 1, 3), RANDOM.uniform(0.3, 1, 3)
    assert_gradients(powers(trips), x, y, tolerance=1e-5)
    assert_gradients(powers(trips), x, y, shapes=[(N,), (N,)], tolerance=1e-5)


def test_a_loop_that_data_ends() -> None:
    x, y = np.array([1.0, 2]), np.array([2.0, 1.5])
    assert_gradients(powers(100, kept=True), x, y, tolerance=1e-4)


def test_the_second_derivative_of_a_loop() -> None:
    assert_gradients(powers(3), np.array([0.7]), np.array([0.5]), order=2, tolerance=1e-4)


def test_a_loop_within_a_loop_and_a_branch_within_that() -> None:
    def make(build: Builder, x: Value) -> Value:
        def inner(b: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
            (state,) = carried
            odd = b.equal(b.rem(iteration, 2), 1)
            return [choose(b, odd, lambda i: i.mul(state, x), lambda i: i.add(state, i.square(x)))], []

        def outer(b: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
            return list(repeat(b, b.add(iteration, 1), carried, inner)), []

        return repeat(build, build.constant(np.array(3)), [x], outer)[0]

    assert_gradients(make, np.array([0.9, -0.6]), tolerance=1e-5)


def test_a_loop_carries_integers_beside_floats() -> None:
    def make(build: Builder, x: Value) -> Value:
        def body(b: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
            state, count = carried
            return [b.mul(b.gather(x, count, 0), state), b.rem(b.add(count, 2), 3)], []

        return repeat(build, build.constant(np.array(4)), [build.scalar(1.0, F64), build.scalar(0, I64)], body)[0]

    assert_gradients(make, np.array([2.0, 3, 5]))


def test_what_flows_to_parts_of_a_capture_is_added_once_after_the_loop() -> None:
    def make(build: Builder, x: Value) -> Value:
        def body(b: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
            first = b.gather(x, b.rem(b.mul(iteration, 2), 3), 1)
            pair = b.gather(x, b.constant(np.array([[1, 0]])), 1)
            return [b.mul(b.add(carried[0], first), b.reduce(pair, "sum", (1, 2)))], []

        return repeat(build, build.constant(np.array(4)), [build.full((2,), 1, F64)], body)[0]

    assert_gradients(make, RANDOM.uniform(0.5, 1, (2, 3)), tolerance=1e-5)
    ops = [op.name for loop in program(make, [(2, 3)]).main.body.ops for block in loop.blocks for op in walk(block)]
    assert "gather" in ops
    assert "scatter_nd" not in ops


def test_a_loop_that_does_not_depend_on_x_has_gradient_zero() -> None:
    def make(build: Builder, x: Value) -> Value:
        one = build.full((2,), 1, F64)
        (last,) = repeat(build, build.constant(np.array(2)), [one], lambda b, i, c: ([b.mul(c[0], 3)], []))
        return build.add(last, build.mul(x, 2))

    (g,) = gradients_at(make, np.array([4.0, 5]))
    np.testing.assert_array_equal(g, [2, 2])


def test_a_loop_that_changes_the_shape_of_what_it_carries_has_no_derivative() -> None:
    def make(build: Builder, x: Value) -> Value:
        inner = build.nested()
        width = inner.fresh_symbol("width")
        iteration = inner.parameter("iteration", TensorType(I64, ()))
        state = inner.parameter("state", TensorType(F64, (width,)))
        longer = inner.pad(state, [0], [1])
        body = inner.block((iteration, state), (inner.scalar(True, BOOL), longer))
        type = TensorType(F64, (build.fresh_symbol("loop"),))
        limit, true = build.constant(np.array(2)), build.scalar(True, BOOL)
        (last,) = build.while_(limit, true, [x], [], body, [type], build.symbols.fresh("trips"))
        return build.reduce(last, "sum", (0,))

    with pytest.raises(NotDifferentiable, match=r"f64\[3\] that it carries changes shape"):
        program(make, [(3,)])
