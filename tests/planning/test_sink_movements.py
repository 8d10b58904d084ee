"""Movements at the leaves: the same values, every access a strided view, every op made once for each way of moving."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Value
from onnxc.compiler.ir.printer import print_block
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.domain import affine_domain
from onnxc.compiler.planning.schedules import Schedule, Threads
from onnxc.compiler.planning.sink_movements import sink_movements
from tests.planning.plans import make


def kernel_of(module: Module) -> Kernel:
    return Kernel("pointwise", module.main.body, tuple(module.main.symbols), Schedule(workers=Threads(1, 1)))


def transposed(ir: Builder, x: Value, y: Value) -> Value:
    return ir.transpose(ir.mul(ir.neg(x), y), (1, 0))


def both_ways(ir: Builder, x: Value, y: Value) -> Value:
    negative = ir.neg(x)
    return ir.add(ir.slice(negative, (0, 0), (3, 3)), ir.transpose(ir.slice(negative, (0, 1), (3, 3)), (1, 0)))


def repeated_number(ir: Builder, x: Value, y: Value) -> Value:
    return ir.transpose(ir.mul(ir.exp(x), 2.5), (1, 0))


def merged(ir: Builder, x: Value, y: Value) -> Value:
    return ir.reshape(ir.exp(ir.reshape(x, (2, 6))), (12,))


def padded(ir: Builder, x: Value, y: Value) -> Value:
    return ir.transpose(ir.pad(ir.neg(x), (1, 0), (0, 2), 0.5), (1, 0))


def units_behind(ir: Builder, x: Value, y: Value) -> Value:
    return ir.reshape(ir.mul(ir.exp(ir.reshape(x, (3, 4, 1, 1))), 2.0), (1, 3, 4, 1))


PROGRAMS = (transposed, both_ways, repeated_number, merged, padded, units_behind)


@pytest.mark.parametrize("build", PROGRAMS)
def test_values_are_the_same(build: Callable[..., Value]) -> None:
    before = make(["f32[3, 4]", "f32[3, 4]"], build)
    block = sink_movements(kernel_of(before)).block
    after = Module("m", (Function("main", block, before.main.result_names, before.main.symbols),))
    x, y = (np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32) for seed in (0, 1))
    (expected,), (actual,) = (interpret(module, {"x0": x, "x1": y}) for module in (before, after))
    assert np.asarray(actual).dtype == np.asarray(expected).dtype
    # What is written under another shape has the same elements in the same order.
    np.testing.assert_array_equal(np.ravel(np.asarray(actual)), np.ravel(np.asarray(expected)))


def test_what_is_written_may_have_another_shape_than_what_is_computed() -> None:
    block = sink_movements(kernel_of(make(["f32[3, 4]"] * 2, merged))).block
    assert block.results[0].shape == (2, 6)


@pytest.mark.parametrize(
    ("shape", "written"),
    [
        ("3, 1", (3,)),
        ("N, 1, 4, 1, 1", (Size.symbol("N"), 1, 4)),
        ("1, 1", (1, 1)),
        ("1", (1,)),
        ("0, 1", (0,)),
        ("", ()),
    ],
)
def test_axes_of_one_element_behind_the_last_of_others_are_left_out(shape: str, written: tuple[Dim, ...]) -> None:
    block = sink_movements(kernel_of(make([f"f32[{shape}]"], lambda ir, x: ir.exp(x)))).block
    assert block.results[0].shape == written


@pytest.mark.parametrize("build", [transposed, both_ways, repeated_number])
def test_what_was_computed_before_it_was_moved_has_a_strided_domain(build: Callable[..., Value]) -> None:
    kernel = kernel_of(make(["f32[3, 4]" if build is both_ways else "f32[N, 4]"] * 2, build))
    assert affine_domain(kernel.block) is None
    assert affine_domain(sink_movements(kernel).block) is not None


def test_ops_behind_their_movements() -> None:
    block = sink_movements(kernel_of(make(["f32[N, 4]"] * 2, transposed))).block
    assert print_block(block).splitlines()[1:-1] == [
        "  %0 = transpose %x0 {permutation = [1, 0]} : f32[4, N]",
        "  %1 = neg %0 : f32[4, N]",
        "  %2 = transpose %x1 {permutation = [1, 0]} : f32[4, N]",
        "  %3 = mul %1, %2 : f32[4, N]",
        "  return %3",
    ]


def test_an_op_that_is_read_twice_in_one_way_stays_one() -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        shared = ir.exp(x)
        return ir.transpose(ir.add(ir.mul(shared, y), shared), (1, 0))

    block = sink_movements(kernel_of(make(["f32[3, 4]"] * 2, build))).block
    assert [op.name for op in block.ops].count("exp") == 1
