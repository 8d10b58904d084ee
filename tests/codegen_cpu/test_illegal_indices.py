"""Indices out of range: the call is an InputError that names the node, the index as it was given and the axis."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.indexed import HELD
from onnxc.runtime.errors import InputError
from onnxc.runtime.load import make_executable
from tests.codegen_cpu.support import Native, make, sample

N = Size.symbol("N")


def _error(build: Callable[[Builder, Value, Value], Value], x: np.ndarray, indices: np.ndarray) -> str:
    """The error of a call; the op that picks is node 7, the ones after it are node 8."""

    def located(ir: Builder, data: Value, i: Value) -> Value:
        with ir.at(Location(index=7, name="table", operator="ai.onnx.Gather-13")):
            picked = build(ir, data, i)
        with ir.at(Location(index=8, name="after", operator="ai.onnx.Mul-14")):
            return ir.mul(picked, 2.0)

    types = [f"f32[N{', 4' * (x.ndim - 1)}]", f"i64[{', '.join(f'K{axis}' for axis in range(indices.ndim))}]"]
    executable = make_executable(Native(make(types, located)).artifact)
    with pytest.raises(InputError) as caught:
        executable.run({"x0": x, "x1": indices})
    assert caught.value.code == "index-out-of-range"
    # Once it is told, the executable works again.
    legal = executable.run({"x0": x, "x1": np.zeros_like(indices)})["y0"]
    assert isinstance(legal, np.ndarray)
    return str(caught.value)


@pytest.mark.parametrize("index", [5, 77, 2**40, -1])
@pytest.mark.parametrize("count", [1, 16, 40])
def test_gather(index: int, count: int) -> None:
    indices = np.zeros(count, np.int64)
    indices[-1] = index
    message = _error(lambda ir, x, i: ir.gather(x, i, 0), sample(F32, 5), indices)
    assert f"index {index} is outside of an axis of size 5" in message
    assert 'node 7 "table"' in message


def test_an_index_counted_from_the_end_is_shown_as_it_was_given() -> None:
    indices = np.array([0, -1, -6], np.int64)
    message = _error(lambda ir, x, i: ir.gather(x, ir.wrap_negative(i, N), 0), sample(F32, 5, 4), indices)
    assert "index -6 is outside of an axis of size 5" in message


def test_what_a_mask_leaves_out_of_a_fold() -> None:
    def sums(ir: Builder, x: Value, i: Value) -> Value:
        picked = ir.gather(x, i, 0)
        counts = ir.broadcast(ir.slice(i, (0, 0), (i.shape[0], 1), (1, 1)), (0, 1), picked.shape[:2])
        mask = ir.broadcast(ir.less(ir.iota(picked.shape[:2], 1, I64), counts), (0, 1), picked.shape)
        return ir.reduce(ir.select(mask, picked, 0.0), "sum", (1,))

    message = _error(sums, sample(F32, 5, 4), np.array([[2, 0, 9]], np.int64))
    assert "index 9 is outside of an axis of size 5" in message


def test_rows_of_a_table() -> None:
    message = _error(lambda ir, x, i: ir.gather(x, i, 0), sample(F32, 5, 4), np.array([4, 9], np.int64))
    assert "index 9 is outside of an axis of size 5" in message


def test_one_index_for_a_row_of_elements_along_an_axis() -> None:
    def rows(ir: Builder, x: Value, i: Value) -> Value:
        return ir.gather_along(x, ir.broadcast(i, (0,), (i.shape[0], 4)), 0)

    message = _error(rows, sample(F32, 5, 4), np.array([4, 0, 9], np.int64))
    assert "index 9 is outside of an axis of size 5" in message


def test_gather_along_an_axis() -> None:
    indices = np.array([[0, 3, 4, 1]], np.int64)
    message = _error(
        lambda ir, x, i: ir.gather_along(ir.slice(x, (0, 0), (1, 4), (1, 1)), ir.reshape(i, (1, 4)), 1),
        sample(F32, 5, 4),
        indices,
    )
    assert "index 4 is outside of an axis of size 4" in message


def test_scatter() -> None:
    def build(ir: Builder, x: Value, i: Value) -> Value:
        return ir.scatter_along(x, i, ir.full((Size.symbol("K0"),), 1.0, F32), 0, "add")

    message = _error(build, sample(F32, 5), np.array([3, 5], np.int64))
    assert "index 5 is outside of an axis of size 5" in message
    assert 'node 7 "table"' in message


def test_the_first_of_several_kernels_is_named() -> None:
    def build(ir: Builder, x: Value, i: Value) -> Value:
        first = ir.reduce(ir.gather(x, i, 0), "sum", (0,), keepdims=True)
        with ir.at(Location(index=70, name="later", operator="ai.onnx.Gather-13")):
            return ir.reduce(ir.gather(ir.concatenate([first, first], 0), i, 0), "sum", (0,))

    message = _error(build, sample(F32, 5), np.array([3, 5], np.int64))
    assert "index 5 is outside of an axis of size 5" in message
    assert 'node 7 "table"' in message


def test_an_index_that_is_masked_by_the_sizes_is_not_looked_at() -> None:
    """Vectors at the end of a row have lanes without an index."""
    native = Native(make(["f32[1]", "i64[K]"], lambda ir, x, i: ir.gather(x, i, 0)))
    for count in range(1, 40):
        native.check(np.ones(1, np.float32), np.zeros(count, np.int64))


@pytest.mark.parametrize("count", [0, 1, 20])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_position_held_between_the_ends_of_an_axis_is_outside_of_one_without_elements(size: int, count: int) -> None:
    """Those that padding stands for are read of nothing."""

    def build(ir: Builder, x: Value, i: Value) -> Value:
        held = ir.clamp(i, 0, ir.size(N - 1))
        picked = ir.op("gather", [x, held], {"axis": 0, "known": HELD})[0]
        return ir.pad(picked, (20,), (20,), ir.scalar(7.0, F32))

    executable = make_executable(Native(make(["f32[N]", "i64[K]"], build)).artifact)
    feed = {"x0": sample(F32, size), "x1": np.full(count, 3)}
    if count and not size:
        with pytest.raises(InputError, match="index 0 is outside of an axis of size 0"):
            executable.run(feed)
    else:
        picked = feed["x0"][[min(3, size - 1)] * count] if count else np.empty(0, np.float32)
        expected = np.pad(picked, 20, constant_values=7)
        np.testing.assert_array_equal(executable.run(feed)["y0"], expected)
