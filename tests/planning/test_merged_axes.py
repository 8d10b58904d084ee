"""Axes gone through as one: which movements, picks and repetitions leave the elements one after another."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.loops.merged_axes import merged_axes
from tests.codegen_cpu.support import make

N, M = Size.symbol("N"), Size.symbol("M")


def _rows(ir: Builder) -> Value:
    return ir.constant(np.array([2, 0], np.int64))


# What is built from x: f32[N, M, 6] and how many of its last axes are one.
CASES: dict[str, tuple[Callable[[Builder, Value], Value], int]] = {
    "all of it": (lambda ir, x: x, 3),
    "computed": (lambda ir, x: ir.add(ir.exp(x), x), 3),
    "a number repeated": (lambda ir, x: ir.add(x, 1.0), 3),
    "repeated along new axes": (lambda ir, x: ir.broadcast(x, (1, 2, 3), (4, N, M, 6)), 3),
    "of one element along the last axis": (
        lambda ir, x: ir.broadcast(ir.slice(x, (0, 0, 0), (1, 1, 1)), (0, 1, 2), (N, M, 1)), 1
    ),
    "repeated along the last axis": (lambda ir, x: ir.broadcast(x, (0, 1, 2), (N, M, 6, 3)), 1),
    "transposed": (lambda ir, x: ir.transpose(x, (0, 2, 1)), 1),
    "transposed before": (lambda ir, x: ir.transpose(x, (1, 0, 2)), 1),
    "sliced before": (lambda ir, x: ir.slice(x, (0, 1, 0), (N, 2, 6)), 2),
    "sliced first": (lambda ir, x: ir.slice(x, (2, 0, 0), (1, M, 6)), 3),
    "sliced last": (lambda ir, x: ir.slice(x, (0, 0, 1), (N, M, 4)), 1),
    "every other row": (lambda ir, x: ir.slice(x, (0, 0, 0), (N, 2, 6), (1, 2, 1)), 1),
    "picked first": (lambda ir, x: ir.gather(x, _rows(ir), 0), 2),
    "picked in the middle": (lambda ir, x: ir.gather(x, _rows(ir), 1), 1),
    "picked last": (lambda ir, x: ir.gather(x, _rows(ir), 2), 1),
    "picked twice": (lambda ir, x: ir.gather(ir.gather(x, _rows(ir), 0), _rows(ir), 0), 2),
    "picked by pairs": (lambda ir, x: ir.gather_nd(x, ir.constant(np.array([[[0], [1]]], np.int64))), 2),
    "picked between two transposes": (
        lambda ir, x: ir.transpose(ir.gather(ir.transpose(x, (0, 2, 1)), _rows(ir), 1), (0, 2, 1)), 1
    ),
    "with an axis of one between": (lambda ir, x: ir.reshape(x, (N, M, 1, 6)), 4),
    "picked, and the axis of one left out": (
        lambda ir, x: ir.reshape(ir.gather(x, ir.constant(np.array([[2], [0]], np.int64)), 0), (2, M, 6)), 2
    ),
    "of what had an axis of one between": (
        lambda ir, x: ir.reshape(ir.reshape(x, (N, M, 1, 6)), (N, M, 6)), 3
    ),
    "turned behind a new axis of one": (
        lambda ir, x: ir.transpose(ir.reshape(x, (1, N, M, 6)), (0, 2, 1, 3)), 1
    ),
    "turned at the end behind a new axis of one": (
        lambda ir, x: ir.transpose(ir.reshape(x, (N, 1, M, 6)), (0, 1, 3, 2)), 1
    ),
    "turned around an axis of one": (lambda ir, x: ir.transpose(ir.reshape(x, (N, 1, M, 6)), (1, 0, 2, 3)), 4),
    "with an axis of one behind": (lambda ir, x: ir.reshape(x, (N, M, 6, 1)), 1),
    "joined and split again": (lambda ir, x: ir.reshape(x, (N, M, 2, 3)), 1),
    "padded": (lambda ir, x: ir.pad(x, (0, 1, 0), (0, 0, 0), 0.0), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_how_many_of_the_last_axes_are_one(name: str) -> None:
    build, count = CASES[name]
    (result,) = make(["f32[N, M, 6]"], build).main.body.results
    assert merged_axes([result], 0) == count
    assert merged_axes([result], result.rank - 2) == min(count, 2)


@pytest.mark.parametrize(("ones", "count"), [(0, 2), (1, 2), (2, 2)])
def test_axes_of_one_behind_those_of_an_input_are_no_end(ones: int, count: int) -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.gather(ir.reshape(x, (N, M, 6)), _rows(ir), 0)

    (result,) = make([f"f32[N, M, 6{', 1' * ones}]"], build).main.body.results
    assert merged_axes([result], 0) == count
