"""Where native code stops: ops in steps, as few as the order of sizes and host steps allows."""

from collections.abc import Callable

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.split_steps import split_steps
from tests.planning.plans import is_native, make

N = Size.symbol("N")


def steps(types: list[str], build: Callable[..., Value | list[Value]]) -> list[list[str] | str]:
    """The names of the ops of each native step, and of each op alone."""
    block = make(types, build).main.body
    found = split_steps(block, is_native, frozenset())
    _check(block, found)
    return [[op.name for op in step] if isinstance(step, tuple) else step.name for step in found]


def _check(block: Block, found: tuple[tuple[Op, ...] | Op, ...]) -> None:
    """Every op runs once, after what it reads; generators as often as they are wanted."""
    exists: set[Value] = set(block.parameters)
    ran: list[Op] = []
    for step in found:
        for op in step if isinstance(step, tuple) else (step,):
            assert all(operand in exists or operand.op in block.ops for operand in op.operands)
            assert all(operand in exists for operand in op.operands if operand.op and operand.op.name != "constant")
            exists.update(op.results)
            ran += [op] if op.operands else []
    assert len(ran) == len(set(ran))
    assert set(ran) == {op for op in block.ops if op.operands}


def test_what_is_native_is_one_step() -> None:
    assert steps(["f32[N]"], lambda ir, x: ir.softmax(ir.exp(x), 0)) == [["exp", "softmax"]]


def test_nothing_is_no_step() -> None:
    assert steps(["f32[N]"], lambda ir, x: x) == []


def test_a_host_step_divides_what_depends_on_it() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        places = ir.non_zero(ir.abs(x))
        return [ir.cast(places, F32), ir.neg(x)]

    assert steps(["f32[N]"], build) == [["abs", "neg"], "non_zero", ["cast"]]


def test_two_host_steps_share_the_native_one_before_them() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        first, second = (ir.non_zero(kind(x)) for kind in (ir.abs, ir.neg))
        return [ir.cast(first, F32), ir.cast(second, F32)]

    assert steps(["f32[N]"], build) == [["abs", "neg"], "non_zero", "non_zero", ["cast", "cast"]]


def test_sizes_that_data_decides_are_known_before_what_has_them() -> None:
    def build(ir: Builder, x: Value, shape: Value) -> Value:
        (size,) = ir.read_sizes(shape)
        return ir.broadcast_to(x, (size, N))

    assert steps(["f32[N]", "i64[1]"], build) == ["bind_sizes", ["broadcast"]]


def test_a_guard_is_checked_before_native_code_runs() -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        ir.require_equal(N, Size.symbol("M"), "the sizes differ")
        return ir.exp(x)

    assert steps(["f32[N]", "f32[M]"], build) == ["guard", ["exp"]]


def test_a_generator_is_made_in_every_step_that_wants_it() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        counter = ir.iota((N,), 0, F32)
        places = ir.non_zero(ir.mul(x, counter))
        return [
            ir.cast(places, F32),
            ir.add(ir.reduce(ir.cast(places, F32), "sum", (1,), keepdims=False), 1.0),
            counter,
        ]

    found = steps(["f32[N]"], build)
    assert found[0] == ["iota", "mul"]
    assert found[1] == "non_zero"


def test_a_generator_that_is_a_result_is_made_somewhere() -> None:
    assert steps(["f32[N]"], lambda ir, x: ir.iota((N,), 0, F32)) == [["iota"]]


def test_a_constant_that_the_host_reads_needs_no_step() -> None:
    assert steps(["f32[N]"], lambda ir, x: ir.non_zero(ir.constant(np.array([1.0, 0.0], np.float32)))) == ["non_zero"]


def test_sizes_that_the_host_reads_are_a_step_of_their_own() -> None:
    assert steps(["f32[N]"], lambda ir, x: ir.non_zero(ir.sizes((N, 3)))) == ["sizes", "non_zero"]


def test_a_movement_of_a_constant_is_made_where_it_is_read() -> None:
    def build(ir: Builder, x: Value) -> Value:
        zeros = ir.full((N,), 0.0, F32)
        places = ir.cast(ir.non_zero(ir.abs(x)), F32)
        return ir.concatenate([ir.reduce(places, "sum", (0,)), zeros], 0)

    found = steps(["f32[N]"], build)
    assert "broadcast" not in found[0]
    assert "broadcast" in found[2]


def test_a_loop_waits_for_the_sizes_of_what_its_rounds_make_of_nothing() -> None:
    def build(ir: Builder, x: Value, shape: Value) -> Value:
        (count,) = ir.read_sizes(shape)
        inner = ir.nested()
        iteration = inner.parameter("i", TensorType(I64, ()))
        total = inner.reduce(inner.iota((count,), 0, F32), "sum", (0,), keepdims=False)
        block = inner.block([iteration], [inner.scalar(True, BOOL), total])
        stacked = TensorType(F32, (Size.symbol("trips"),))
        return ir.while_(ir.scalar(2, I64), ir.scalar(True, BOOL), [], [], block, [stacked], "trips")[0]

    assert steps(["f32[N]", "i64[1]"], build) == ["bind_sizes", "while"]


def test_an_op_is_looked_at_once_for_all_steps() -> None:
    def build(ir: Builder, x: Value) -> Value:
        for _ in range(40):
            x = ir.cast(ir.non_zero(x), F32)
        return x

    block = make(["f32[N]"], build).main.body
    asked: list[Op] = []

    def asked_once(op: Op) -> bool:
        asked.append(op)
        return is_native(op)

    found = split_steps(block, asked_once, frozenset())
    _check(block, found)
    assert len(found) == 80
    assert len(asked) == len(set(asked))


GROUPS = {"groups": ((0, 1),), "axis": 0}


def gathered(ir: Builder, x: Value) -> Value:
    return ir.op("all_gather", [x], GROUPS)[0]


def product(ir: Builder, x: Value, w: Value) -> Value:
    return ir.dot(x, w, "mk,kn->mn")


def test_a_product_that_depends_on_no_exchange_is_behind_its_begin() -> None:
    def build(ir: Builder, x: Value, w: Value) -> list[Value]:
        other = ir.exp(product(ir, ir.abs(x), w))
        return [ir.neg(gathered(ir, product(ir, x, w))), other]

    assert steps(["f32[N, 4]", "f32[4, 4]"], build) == [["dot"], "all_gather", ["abs", "dot", "exp"], ["neg"]]


def test_what_takes_no_time_is_no_step_of_its_own() -> None:
    def build(ir: Builder, x: Value, w: Value) -> list[Value]:
        return [ir.neg(gathered(ir, product(ir, x, w))), ir.exp(x)]

    assert steps(["f32[N, 4]", "f32[4, 4]"], build) == [["dot", "exp"], "all_gather", ["neg"]]


def test_of_several_exchanges_each_begins_as_soon_as_it_can() -> None:
    def build(ir: Builder, x: Value, w: Value) -> list[Value]:
        return [ir.neg(gathered(ir, product(ir, x, w))) for _ in range(3)]

    assert steps(["f32[N, 4]", "f32[4, 4]"], build) == [*[["dot"], "all_gather"] * 3, ["neg", "neg", "neg"]]


def test_what_reads_an_exchange_and_takes_no_time_keeps_no_product_from_what_is_there_before() -> None:
    """As caches that are gathered, and turned for outputs: they are read when the next thing is waited for anyway."""

    def build(ir: Builder, x: Value, w: Value, v: Value) -> list[Value]:
        state, caches = x, []
        for _ in range(2):
            caches.append(product(ir, state, v))
            state = product(ir, gathered(ir, product(ir, state, w)), w)
        return [state, *(ir.neg(gathered(ir, cache)) for cache in caches)]

    assert steps(["f32[N, 4]", "f32[4, 4]", "f32[4, 8]"], build) == [
        *(["dot"], "all_gather", ["dot"], "all_gather"),
        *(["dot", "dot"], "all_gather", ["dot"], "all_gather"),
        *(["dot", "neg"], ["neg"]),
    ]


def test_exchanges_may_follow_one_another() -> None:
    def build(ir: Builder, x: Value, w: Value) -> Value:
        return ir.neg(gathered(ir, gathered(ir, product(ir, x, w))))

    assert steps(["f32[N, 4]", "f32[4, 4]"], build) == [["dot"], "all_gather", "all_gather", ["neg"]]
