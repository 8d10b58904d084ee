"""Results that have each column, and each row, of what they pick from twice, as only the call knows."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.doubled_columns import doubled_pick
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import DTYPES, F32
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.passes.lower.known_indices import known_indices
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, sample


def _held(ir: Builder, at: Value, x: Value, axis: int) -> Value:
    return ir.clamp(at, 0, ir.sub(ir.size(x.shape[axis]), 1))


def _picked(ir: Builder, x: Value, rows: Value, columns: Value) -> Value:
    return ir.gather(ir.gather(x, _held(ir, rows, x, 1), 1), _held(ir, columns, x, 2), 2)


def _module(dtype: str) -> Module:
    return known_indices(make([f"{dtype}[N, H, W]", "i64[R]", "i64[K]"], _picked))


def _lists(size: int) -> list[np.ndarray]:
    """Each twice; but for the last one; with another one at either end; backwards; none."""
    twice = np.arange(2 * size) // 2
    other = np.concatenate([twice[:-1], [0]]) if size else twice
    return [twice, twice[:-1], other, np.maximum(twice - 1, 0), twice[::-1].copy(), twice[:0]]


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "u8", "bool", "c64"])
def test_types(name: str) -> None:
    native = Native(_module(name))
    for height, width in [(1, 1), (3, 8), (2, 33), (5, 100)]:
        x = sample(DTYPES[name], 2, height, width)
        for rows in _lists(height)[:3]:
            native.check(x, rows, _lists(width)[0])


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_lists(target: Target) -> None:
    native = Native(_module("f32"), target)
    for height, width in [(1, 1), (2, 15), (3, 16), (2, 17)]:
        for rows in _lists(height):
            for columns in _lists(width):
                native.check(sample(F32, 2, height, width), rows, columns)


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0), (0, 0, 0)])
def test_nothing_to_pick_from(shape: tuple[int, int, int]) -> None:
    native = Native(_module("f32"))
    for rows, columns in [(np.arange(4) // 2, np.arange(6) // 2), (np.zeros(1, np.int64), np.zeros(1, np.int64))]:
        native.check(np.ones(shape, np.float32), rows, columns, reports=shape[0] > 0)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_rows_are_written_twice_by_whoever_has_both(threads: int) -> None:
    native = Native(_module("f32"), threads=threads)
    for height, width in [(101, 200), (3, 9001)]:
        x = np.random.default_rng(0).standard_normal((4, height, width)).astype(np.float32)
        for rows in _lists(height)[:3]:
            native.check(x, rows, np.arange(2 * width) // 2)


def test_what_is_computed_and_what_is_turned() -> None:
    def build(ir: Builder, x: Value, at: Value) -> list[Value]:
        sums, turned = ir.add(x, x), ir.transpose(x, (0, 2, 1))
        return [
            ir.gather(sums, _held(ir, at, sums, 2), 2),
            ir.gather(turned, _held(ir, at, turned, 2), 2),
            ir.gather(ir.slice(x, (0, 0, 1), (2, 20, 18)), ir.clamp(at, 0, 17), 2),
        ]

    native = Native(known_indices(make(["f32[2, 20, 20]", "i64[K]"], build)))
    native.check(sample(F32, 2, 20, 20), np.arange(40) // 2)
    native.check(sample(F32, 2, 20, 20), np.arange(35) // 2)


def test_only_lists_that_are_held_inside_of_the_last_axis_are_looked_at() -> None:
    def picks(*types: str, axis: int = 1, held: bool = True) -> bool:
        def build(ir: Builder, x: Value, at: Value) -> Value:
            return ir.gather(x, _held(ir, at, x, axis) if held else at, axis)

        (result,) = known_indices(make(types, build)).main.body.results
        return doubled_pick(result) is not None

    assert picks("f32[3, N]", "i64[K]")
    assert not picks("f32[3, N]", "i64[K]", held=False)
    assert not picks("f32[N, 3]", "i64[K]", axis=0)
    assert not picks("f32[3, N]", "i64[K, 2]")
