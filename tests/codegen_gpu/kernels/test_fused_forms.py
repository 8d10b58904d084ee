"""What shares a kernel on a GPU: results in another order, sums before that, parts joined where they are read."""

from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.add_before_moving import add_before_moving
from onnxc.compiler.planning.schedules import ReductionSchedule
from tests.codegen_cpu.support import segments_of
from tests.codegen_gpu.support import Device, make, precision, sample

S = Size.symbol("S")


def _windows(ir: Builder, x: Value, side: int, size: int) -> Value:
    """Rows of windows, x: [4 S, 9, C], as an image of 6 x 6 pixels, [S, 36, C]."""
    split = ir.reshape(x, (S, side, side, size, size, x.shape[2]))
    return ir.reshape(ir.transpose(split, (0, 1, 3, 2, 4, 5)), (S, side * size * side * size, x.shape[2]))


@pytest.mark.parametrize("dtype", [F32, F16, F64, I32], ids=str)
def test_a_product_is_written_in_the_order_of_an_image(dtype: DType) -> None:
    def build(ir: Builder, x: Value, w: Value) -> Value:
        return _windows(ir, ir.dot(ir.reshape(x, (4 * S, 9, 5)), w, "amk,kn->amn", dtype), 2, 3)

    device = Device(make([f"{dtype}[S, 36, 5]", f"{dtype}[5, 7]"], build))
    assert device.kernels() == ["contraction"]
    for size in (0, 1, 3):
        device.check(sample(dtype, size, 36, 5), sample(dtype, 5, 7, seed=1), bound=8 * precision(dtype))


def test_a_residual_is_added_before_windows_are_an_image() -> None:
    def build(ir: Builder, x: Value, w: Value, residual: Value) -> Value:
        turned = ir.transpose(ir.reshape(residual, (S, 2, 3, 2, 3, 7)), (0, 1, 3, 2, 4, 5))
        return _windows(ir, ir.add(ir.dot(x, w, "amk,kn->amn"), ir.reshape(turned, (4 * S, 9, 7))), 2, 3)

    device = Device(make(["f32[4*S, 9, 5]", "f32[5, 7]", "f32[S, 36, 7]"], build))
    assert device.kernels() == ["contraction"]
    for size in (1, 3):
        device.check(sample(F32, 4 * size, 9, 5), sample(F32, 5, 7, seed=1), sample(F32, size, 36, 7), bound=1e-5)


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_a_turned_product_weighs_half_of_what_is_in_memory(dtype: DType) -> None:
    """The spatial gate of gMLP: its rows are the last axis of what it weighs."""

    def build(ir: Builder, x: Value, w: Value, whole: Value) -> Value:
        gate = ir.transpose(ir.cast(ir.add(ir.dot(x, w, "amk,kn->amn", F32), 1.0), dtype), (0, 2, 1))
        return ir.mul(gate, ir.slice_axis(whole, 2, 3, 70))

    types = [f"{dtype}[S, 70, 24]", f"{dtype}[24, 40]", f"{dtype}[S, 40, 75]"]
    assert Device(make(types, build)).kernels() == ["contraction", "pointwise"]
    device = Device(add_before_moving(make(types, build)))
    assert device.kernels() == ["contraction"]
    for size in (0, 1, 3):
        arrays = sample(dtype, size, 70, 24), sample(dtype, 24, 40, seed=1) / 8, sample(dtype, size, 40, 75, seed=2)
        device.check(*(array.astype(dtype.numpy) for array in arrays), bound=16 * precision(dtype))


def test_parts_of_a_sum_are_added_up_in_the_order_that_is_asked_for() -> None:
    def build(ir: Builder, x: Value, w: Value) -> Value:
        return ir.transpose(ir.exp(ir.dot(x, w, "abk,kn->abn")), (1, 0, 2))

    device = Device(make(["f32[2, 3, 4096]", "f32[4096, 24]"], build))
    assert device.kernels() == ["contraction"]
    assert len(device.code(0).steps) == 2
    device.check(sample(F32, 2, 3, 4096) / 64, sample(F32, 4096, 24, seed=1) / 64, bound=1e-5)


@pytest.mark.parametrize("channels", [1, 8])
def test_a_convolution_writes_its_channels_first(channels: int) -> None:
    def build(ir: Builder, x: Value, w: Value) -> Value:
        y = ir.convolution(x, w, [1, 1], [1, 1], [1, 1], [1, 1], 8 // channels, dimensions="n01c,oi01->n01c")
        return ir.transpose(y, (0, 3, 1, 2))

    device = Device(make(["f32[S, 5, 6, 8]", f"f32[16, {channels}, 3, 3]"], build))
    assert device.kernels() == ["convolution"]
    device.check(sample(F32, 2, 5, 6, 8), sample(F32, 16, channels, 3, 3, seed=1), bound=1e-4)


def _rolled(ir: Builder, x: Value, axis: int, by: int) -> Value:
    size = x.shape[axis]
    return ir.concatenate([ir.slice_axis(x, axis, by, size - by), ir.slice_axis(x, axis, 0, by)], axis)


def test_an_image_is_rolled_where_it_is_added() -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        return ir.add(ir.reshape(_rolled(ir, _rolled(ir, x, 1, 2), 2, 1), (S, 30, 4)), y)

    device = Device(make(["f32[S, 5, 6, 4]", "f32[S, 30, 4]"], build))
    assert device.kernels() == ["pointwise"]
    device.check(sample(F32, 2, 5, 6, 4), sample(F32, 2, 30, 4, seed=1), bound=0)


def test_a_rolled_image_that_a_product_reads_is_written_once() -> None:
    def build(ir: Builder, x: Value, w: Value) -> Value:
        return ir.dot(_rolled(ir, _rolled(ir, x, 1, 2), 2, 1), w, "abck,kn->abcn")

    device = Device(make(["f32[S, 5, 6, 4]", "f32[4, 3]"], build))
    assert device.kernels() == ["concatenate", "contraction"]
    device.check(sample(F32, 2, 5, 6, 4), sample(F32, 4, 3, seed=1), bound=1e-5)


def test_merged_patches_are_normalised_where_they_are() -> None:
    def build(ir: Builder, x: Value, scale: Value) -> Value:
        starts = [(row, column) for column in range(2) for row in range(2)]
        parts = [ir.slice(x, (0, row, column, 0), (S, 3, 2, 5), (1, 2, 2, 1)) for row, column in starts]
        rows = ir.reshape(ir.concatenate(parts, 3), (S, 6, 20))
        return ir.op("layer_norm", [rows, scale, scale], {"axis": 2, "epsilon": 1e-5})[0]

    device = Device(make(["f32[S, 6, 4, 5]", "f32[20]"], build))
    assert device.kernels() == ["reduction"]
    device.check(sample(F32, 2, 6, 4, 5), sample(F32, 20), bound=1e-5)


def test_pairs_of_indices_are_made_where_they_are_looked_up() -> None:
    def build(ir: Builder, x: Value, i: Value, j: Value) -> Value:
        columns: Sequence[Value] = [ir.reshape(each, (3, 4, 1)) for each in (i, j)]
        return ir.gather_nd(x, ir.concatenate(columns, 2))

    device = Device(make(["f32[S, 5]", "i64[3, 4]", "i64[3, 4]"], build))
    assert device.kernels() == ["pointwise"]
    # Each index, and what lies there.
    assert device.sources()[0].count("tl.load(") == 3
    places = np.arange(12).reshape(3, 4)
    device.check(sample(F32, 6, 5), places % 6, places % 5, bound=0)


def test_parts_that_are_a_result_are_written_once_and_read_again() -> None:
    def build(ir: Builder, x: Value, y: Value) -> tuple[Value, Value]:
        joined = ir.concatenate([x, y], 1)
        return joined, ir.reduce(ir.exp(joined), "sum", (1,))

    device = Device(make(["f32[S, 5]", "f32[S, T]"], build))
    assert device.kernels() == ["concatenate", "reduction"]
    device.check(sample(F32, 3, 5), sample(F32, 3, 4, seed=1), bound=1e-5)


def test_many_parts_are_joined_in_memory() -> None:
    def build(ir: Builder, x: Value) -> Value:
        joined = ir.exp(ir.concatenate([ir.slice_axis(x, 0, start, 1) for start in range(5)], 0))
        return ir.reduce(joined, "sum", (1,))

    device = Device(make(["f32[9, S]"], build))
    assert device.kernels() == ["concatenate", "reduction"]
    device.check(sample(F32, 9, 3), bound=1e-5)


def test_a_cache_of_keys_and_values_grows_in_one_launch() -> None:
    def build(ir: Builder, k: Value, v: Value, new: Value) -> tuple[Value, Value]:
        joined = [ir.concatenate([old, ir.slice_axis(new, 1, start, 2)], 0) for old, start in ((k, 0), (v, 2))]
        return joined[0], joined[1]

    device = Device(make(["f32[S, 2, 3]", "f32[S, 2, 3]", "f32[T, 4, 3]"], build))
    assert device.kernels() == ["concatenate"]
    for past in (0, 5):
        device.check(sample(F32, past, 2, 3), sample(F32, past, 2, 3, seed=1), sample(F32, 1, 4, 3), bound=0)


def test_cosines_and_sines_are_of_one_launch_that_turned_halves_read() -> None:
    def build(ir: Builder, x: Value, angle: Value) -> tuple[Value, Value]:
        cos, sin = (ir.broadcast(ir.op(name, [angle], {})[0], (1, 2), (2, S, 4)) for name in ("cos", "sin"))
        a, b = (ir.slice_axis(x, 2, start, 4) for start in (0, 4))
        turned = ir.concatenate([ir.sub(ir.mul(a, cos), ir.mul(b, sin)), ir.add(ir.mul(a, sin), ir.mul(b, cos))], 2)
        return ir.reduce(turned, "sum", (2,)), ir.reduce(ir.mul(turned, turned), "max", (1,))

    device = Device(make(["f32[2, S, 8]", "f32[S, 4]"], build))
    assert device.kernels() == ["pointwise", "concatenate", "reduction", "reduction"]
    assert device.plan.kernels[0].block.results[0].rank == 2
    device.check(sample(F32, 2, 5, 8), sample(F32, 5, 4, seed=1), bound=1e-5)


def test_values_of_one_shape_are_one_kernel_where_one_is_made_of_the_other() -> None:
    def build(ir: Builder, x: Value) -> tuple[Value, Value]:
        y = ir.exp(x)
        return y, ir.exp(ir.mul(y, ir.exp(y)))

    device = Device(make(["f32[S]"], build))
    assert device.kernels() == ["pointwise"]
    device.check(sample(F32, 5), bound=1e-5)


def test_indices_of_two_nodes_are_looked_up_in_a_launch_each() -> None:
    def build(ir: Builder, x: Value, i: Value, j: Value) -> tuple[Value, Value]:
        return ir.gather(x, i, 0), ir.gather(x, j, 0)

    device = Device(make(["f32[7, S]", "i64[3]", "i64[3]"], build))
    assert sum(len(segment.launches) for segment in segments_of(device.plan.body.steps)) == 2
    device.check(sample(F32, 7, 2), np.array([0, 6, 3]), np.array([1, 1, 5]), bound=0)


def test_turned_matrices_are_written_by_one_launch() -> None:
    def build(ir: Builder, x: Value, y: Value) -> tuple[Value, Value]:
        return ir.transpose(ir.neg(x), (1, 0)), ir.add(ir.transpose(y, (1, 0)), ir.exp(ir.transpose(x, (1, 0))))

    device = Device(make(["f32[S, 40]", "f32[S, 40]"], build))
    assert device.kernels() == ["pointwise"]
    for size in (0, 1, 37):
        device.check(sample(F32, size, 40), sample(F32, size, 40, seed=1), bound=1e-5)


@pytest.mark.parametrize(("used", "new", "capacity"), [(3, 2, 9), (0, 4, 4), (5, 0, 8), (300, 1, 700)])
def test_what_would_stay_in_a_cache_is_copied_where_the_result_is_elsewhere(used: int, new: int, capacity: int) -> None:
    def build(ir: Builder, memory: Value, rows: Value, length: Value) -> Value:
        before, size = length.shape[0], memory.shape[1]
        behind = before + rows.shape[1]
        left, right = ir.slice_axis(memory, 1, 0, before), ir.slice_axis(memory, 1, behind, size - behind)
        return ir.concatenate([left, rows, right], 1)

    device = Device(make(["f32[B, C, 5]", "f32[B, S, 5]", "u8[P, 0]"], build))
    assert device.kernels() == ["concatenate"]
    memory, rows = sample(F32, 2, capacity, 5), sample(F32, 2, new, 5)
    device.check(memory, rows, np.empty((used, 0), np.uint8), bound=0)


@pytest.mark.parametrize("dtype", [F32, F16, F64], ids=str)
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_groups_of_channels_are_normalised_and_written_as_they_lie(dtype: DType, channels: int) -> None:
    def build(ir: Builder, x: Value, scale: Value) -> Value:
        rows = ir.cast(ir.transpose(x, (0, 2, 1, 3)), F32 if dtype == F16 else dtype)
        shape = rows.shape[2:]
        y = ir.layer_norm(rows, ir.full(shape, 1, rows.dtype), ir.full(shape, 0, rows.dtype), 2, 1e-5)
        y = ir.mul(ir.cast(y, dtype), ir.broadcast(scale, (1, 3), y.shape))
        y = ir.mul(y, ir.sigmoid(y))
        return ir.reshape(ir.transpose(y, (0, 2, 1, 3)), (x.shape[0], x.shape[1], 6 * channels))

    device = Device(make([f"{dtype}[S, P, 6, {channels}]", f"{dtype}[6, {channels}]"], build))
    assert device.kernels() == ["reduction"]
    for size, pixels in ((0, 3), (1, 1), (2, 0), (3, 7), (1, 1500)):
        x = sample(dtype, size, pixels, 6, channels) * 3
        device.check(x, sample(dtype, 6, channels, seed=1), bound=8 * precision(dtype))


def test_what_is_not_a_number_stays_in_its_group() -> None:
    def build(ir: Builder, x: Value) -> Value:
        rows = ir.transpose(x, (0, 2, 1, 3))
        y = ir.layer_norm(rows, ir.full(rows.shape[2:], 1, F32), ir.full(rows.shape[2:], 0, F32), 2, 1e-5)
        return ir.transpose(y, (0, 2, 1, 3))

    device = Device(make(["f32[1, 9, 4, 2]"], build))
    x = sample(F32, 1, 9, 4, 2)
    x[0, 3, 1, 0], x[0, 5, 2, 1] = np.nan, np.inf
    (y,) = device(x)
    assert np.isnan(y[:, :, [1, 2]]).all()
    assert np.isfinite(y[:, :, [0, 3]]).all()


@pytest.mark.parametrize(
    ("dtype", "channels", "rows"), [(F32, 1, 8), (F16, 1, 16), (F16, 2, 8), (F16, 4, 1), (F32, 2, 1)]
)
def test_short_pieces_of_a_row_are_read_with_those_beside_it(dtype: DType, channels: int, rows: int) -> None:
    def build(ir: Builder, x: Value) -> Value:
        turned = ir.cast(ir.transpose(x, (0, 2, 1, 3)), F32)
        shape = turned.shape[2:]
        y = ir.layer_norm(turned, ir.full(shape, 1, F32), ir.full(shape, 0, F32), 2, 1e-5)
        return ir.transpose(ir.cast(y, dtype), (0, 2, 1, 3))

    device = Device(make([f"{dtype}[S, 4096, 32, {channels}]"], build))
    (kernel,) = device.plan.kernels
    assert kernel.scheduled(ReductionSchedule).tile.rows == rows


def test_a_result_is_not_turned_where_its_elements_would_be_scattered() -> None:
    def build(ir: Builder, x: Value) -> Value:
        y = ir.layer_norm(x, ir.full((64,), 1, F32), ir.full((64,), 0, F32), 2, 1e-5)
        return ir.transpose(y, (0, 2, 1))

    assert Device(make(["f32[S, 48, 64]"], build)).kernels() == ["reduction", "pointwise"]


def test_heads_of_a_part_that_begins_within_one_are_read_in_place() -> None:
    def build(ir: Builder, x: Value, w: Value, q: Value) -> tuple[Value, Value]:
        y = ir.cast(ir.exp(ir.dot(x, w, "abk,kn->abn")), F16)
        k, v = (ir.reshape(ir.slice_axis(y, 2, start, 12), (S, 5, 2, 6)) for start in (8, 20))
        turned = [ir.transpose(part, (0, 2, 1, 3)) for part in (k, v)]
        return ir.attention(q, *turned, None, 0.5), ir.slice_axis(y, 2, 0, 8)

    device = Device(make(["f32[S, 5, 8]", "f32[8, 32]", "f16[S, 2, 3, 6]"], build))
    assert device.kernels() == ["contraction", "attention", "pointwise"]
    device.check(sample(F32, 2, 5, 8) / 8, sample(F32, 8, 32, seed=1) / 8, sample(F16, 2, 2, 3, 6), bound=1e-2)
