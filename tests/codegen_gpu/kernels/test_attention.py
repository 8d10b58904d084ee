"""Attention by the interpreter: masks of every shape, causal, grouped heads, rows without keys, odd sizes and types."""

import re

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.pad_masks import pad_masks
from onnxc.compiler.planning.schedules import AttentionSchedule
from tests.codegen_gpu.support import Device, make, precision, sample

B = Size.symbol("B")


def _device(types: list[str], scale: float = 0.25, causal: bool = False, softcap: float = 0.0) -> Device:
    def build(ir: Builder, q: Value, k: Value, v: Value, *mask: Value) -> Value:
        return ir.attention(q, k, v, mask[0] if mask else None, scale, causal, softcap)

    device = Device(make(types, build))
    assert device.kernels() == ["attention"]
    return device


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 70, 24), (33, 33, 16), (0, 3, 8), (3, 0, 8)])
def test_sizes(sizes: tuple[int, int, int], symbolic: bool, causal: bool) -> None:
    queries, keys, width = sizes
    s, t = ("S", "T") if symbolic else (queries, keys)
    device = _device([f"f32[2, 3, {s}, {width}]", f"f32[2, 3, {t}, {width}]", f"f32[2, 3, {t}, 20]"], causal=causal)
    device.check(
        sample(F32, 2, 3, queries, width), sample(F32, 2, 3, keys, width), sample(F32, 2, 3, keys, 20), bound=1e-5
    )


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_types_and_softcap(dtype: DType) -> None:
    device = _device([f"{dtype}[1, 2, 9, 32]"] * 3, softcap=2.0)
    device.check(*(sample(dtype, 1, 2, 9, 32, seed=seed) for seed in range(3)), bound=8 * precision(dtype))


@pytest.mark.parametrize("scale", [0.0, 1e-3, 3.0])
@pytest.mark.parametrize("causal", [False, True])
def test_scales(scale: float, causal: bool) -> None:
    """Keys of a whole tile and of a part of one, all alike where the scale is 0."""
    device = _device(["f32[1, 2, 70, 16]"] * 3, scale, causal)
    device.check(*(sample(F32, 1, 2, 70, 16, seed=seed) for seed in range(3)), bound=2e-5)


def test_a_scale_of_which_log2_e_makes_no_float_is_that_of_the_parts() -> None:
    device = Device(make(["f32[1, 2, 5, 16]"] * 3, lambda ir, q, k, v: ir.attention(q, k, v, None, 3.4e38, False, 0.0)))
    q, k = 1e-20 * sample(F32, 1, 2, 5, 16), 1e-18 * sample(F32, 1, 2, 5, 16, seed=1)
    q[:, 0] = 0.0
    device.check(q, k, sample(F32, 1, 2, 5, 16, seed=2), bound=2e-5)


@pytest.mark.parametrize("shape", ["2, 4, 5, 7", "1, 1, 5, 7", "2, 1, 1, 7", "1, 4, 1, 7", "B, 1, S, T"])
def test_masks(shape: str) -> None:
    device = _device(["f32[B, 4, S, 16]", "f32[B, 2, T, 16]", "f32[B, 2, T, 16]", f"f32[{shape}]"])
    q, k, v = sample(F32, 2, 4, 5, 16), sample(F32, 2, 2, 7, 16, seed=1), sample(F32, 2, 2, 7, 16, seed=2)
    mask = sample(
        F32, *(int(x) if x.strip().isdigit() else {"B": 2, "S": 5, "T": 7}[x.strip()] for x in shape.split(","))
    )
    device.check(q, k, v, mask, bound=1e-5)
    mask[..., 3:] = -np.inf
    device.check(q, k, v, mask, bound=1e-5)


def test_queries_that_see_nothing_give_zeros() -> None:
    device = _device(["f32[1, 1, S, 8]", "f32[1, 1, T, 8]", "f32[1, 1, T, 8]", "f32[1, 1, S, T]"])
    mask = np.zeros((1, 1, 4, 40), np.float32)
    mask[0, 0, 1], mask[0, 0, 2, :35] = -np.inf, -np.inf
    arrays = [sample(F32, 1, 1, 4, 8), sample(F32, 1, 1, 40, 8), sample(F32, 1, 1, 40, 8)]
    device.check(*arrays, mask, bound=1e-5)
    assert not device(*arrays, mask)[0][0, 0, 1].any()


def test_a_query_of_which_all_keys_have_the_least_float_weighs_them_alike() -> None:
    device = _device(["f32[1, 1, 3, 8]"] * 3 + ["f32[1, 1, 3, 3]"])
    mask = np.zeros((1, 1, 3, 3), np.float32)
    mask[0, 0, 1] = np.finfo(np.float32).min
    q, k, v = (sample(F32, 1, 1, 3, 8, seed=seed) for seed in range(3))
    device.check(q, k, v, mask, bound=1e-5)
    np.testing.assert_allclose(device(q, k, v, mask)[0][0, 0, 1], v[0, 0].mean(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("keys", [9, 49, 70, 130])
@pytest.mark.parametrize("in_windows", [False, True])
def test_rows_of_constant_masks_are_read_beyond_the_keys(dtype: DType, keys: int, in_windows: bool) -> None:
    """A bias of heads, and windows that see some keys, of so many elements that they are not folded."""
    windows, heads, queries = 2, 3, 65
    seen = np.random.default_rng(1).random((windows, queries, keys)) < 0.7
    seen[..., 0] = True
    bias = sample(F32, heads, queries, keys, seed=4)

    def build(ir: Builder, *rows: Value) -> Value:
        q, k, v = (ir.reshape(x, (windows * B, *x.shape[2:])) for x in rows)
        shape = (windows * B, heads, queries, keys)
        shown = ir.select(ir.constant(seen), *(ir.full(seen.shape, low, F32) for low in (0, -100)))
        spread = ir.broadcast(shown, (1, 3, 4), (B, windows, 1, queries, keys))
        of_windows = ir.broadcast(ir.reshape(spread, (shape[0], 1, *shape[2:])), (0, 1, 2, 3), shape)
        of_heads = ir.broadcast(ir.constant(bias), (1, 2, 3), shape)
        return ir.attention(q, k, v, ir.add(of_windows, of_heads) if in_windows else of_heads, 0.25)

    lengths = (queries, keys, keys)
    device = Device(pad_masks(make([f"{dtype}[B, {windows}, {heads}, {length}, 16]" for length in lengths], build)))
    assert device.kernels() == ["attention"]
    assert _mask_columns(device) == {-(-keys // 16) * 16}
    arrays = [sample(dtype, 2, windows, heads, length, 16, seed=seed) for seed, length in enumerate(lengths)]
    device.check(*arrays, bound=8 * precision(dtype))


def test_the_last_keys_of_a_constant_mask_are_read_as_all_others() -> None:
    """The loads of a whole tile of keys, and of one in which only some are keys, have the same bounds."""
    bias = sample(F32, 3, 65, 49, seed=4)

    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.attention(q, k, v, ir.broadcast(ir.constant(bias), (1, 2, 3), (2, *bias.shape)), 0.25)

    device = Device(pad_masks(make([f"f32[2, 3, {length}, 16]" for length in (65, 49, 49)], build)))
    (source,) = device.sources()
    whole, last = re.findall(r"tl\.load\(a2 \+ \w+, (.*)\)", source)
    assert whole == last


def _mask_columns(device: Device) -> set[Dim]:
    schedules = (kernel.schedule for kernel in device.plan.kernels)
    return {schedule.mask_columns for schedule in schedules if isinstance(schedule, AttentionSchedule)}


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("keys", [1, 9, 16, 70])
@pytest.mark.parametrize("layers", [1, 2])
def test_rows_that_an_index_picks_are_read_beyond_the_keys(dtype: DType, keys: int, layers: int) -> None:
    """A bias of heads by distances, read by all layers, and keys that a call closes, whose rows are as they are."""
    heads, table = 2, sample(dtype, 7, 2, seed=4)

    def build(ir: Builder, rows: Value, places: Value, seen: Value) -> Value:
        sequence = rows.shape[2]
        shape = (B, heads, sequence, sequence)
        bias = ir.transpose(ir.gather(ir.constant(table), places, 0), (2, 0, 1))
        open = ir.broadcast(seen, (0, 3), shape)
        mask = ir.select(open, ir.broadcast(bias, (1, 2, 3), shape), ir.full(shape, -100, dtype))
        for _ in range(layers):
            rows = ir.attention(rows, rows, rows, mask, 0.25)
        return rows

    device = Device(pad_masks(make([f"{dtype}[B, {heads}, S, 16]", "i64[S, S]", "bool[B, S]"], build)))
    assert device.kernels() == ["pointwise", "attention"]
    (columns,) = _mask_columns(device)
    assert re.fullmatch(r"16\*floordiv\(s\d \+ 15, 16\)", str(columns))
    places = np.abs(np.arange(keys)[:, None] - np.arange(keys)) % 7
    seen = np.random.default_rng(1).random((3, keys)) < 0.7
    seen[:, 0] = True
    device.check(sample(dtype, 3, heads, keys, 16), places, seen, bound=16 * precision(dtype))


def test_a_mask_that_is_read_in_two_orders_is_read_as_far_as_there_are_keys() -> None:
    bias = sample(F32, 40, 40, seed=4)

    def build(ir: Builder, q: Value) -> Value:
        rows = ir.constant(bias)
        both = ir.add(rows, ir.transpose(rows, (1, 0)))
        return ir.attention(q, q, q, ir.broadcast(both, (2, 3), (1, 2, 40, 40)), 0.25)

    device = Device(pad_masks(make(["f32[1, 2, 40, 16]"], build)))
    assert device.kernels() == ["attention"]
    assert _mask_columns(device) == {0}
    device.check(sample(F32, 1, 2, 40, 16), bound=1e-5)


def test_a_mask_that_a_call_gives_is_read_as_far_as_there_are_keys() -> None:
    def build(ir: Builder, q: Value, k: Value, mask: Value) -> Value:
        bias = ir.constant(sample(F32, 1, 1, 5, 9, seed=4))
        return ir.attention(q, k, k, ir.add(mask, bias), 0.25)

    device = Device(pad_masks(make(["f32[1, 1, 5, 16]", "f32[1, 1, 9, 16]", "f32[1, 1, 5, 9]"], build)))
    assert _mask_columns(device) == {0}
    device.check(
        sample(F32, 1, 1, 5, 16), sample(F32, 1, 1, 9, 16, seed=1), sample(F32, 1, 1, 5, 9, seed=2), bound=1e-5
    )


def test_nan_is_seen() -> None:
    device = _device(["f32[1, 1, 3, 8]"] * 3)
    q, k, v = (sample(F32, 1, 1, 3, 8, seed=seed) for seed in range(3))
    q[0, 0, 1, 2] = np.nan
    device.check(q, k, v, bound=1e-5)


def test_heads_are_read_where_they_are() -> None:
    def build(ir: Builder, x: Value) -> Value:
        parts = ir.transpose(ir.reshape(x, (2, 5, 3, 4, 8)), (2, 0, 3, 1, 4))
        q, k, v = (
            ir.reshape(ir.slice(parts, (place, 0, 0, 0, 0), (1, 2, 4, 5, 8)), (2, 4, 5, 8)) for place in range(3)
        )
        return ir.reshape(ir.transpose(ir.attention(q, k, v, None, 0.3, False, 0.0), (0, 2, 1, 3)), (2, 5, 32))

    device = Device(make(["f32[2, 5, 96]"], build))
    device.check(sample(F32, 2, 5, 96), bound=1e-5)
    assert device.kernels() == ["attention"]


@pytest.mark.parametrize(("length", "width"), [(5, 1), (1, 8), (1, 1)])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_heads_with_an_axis_of_one_element_are_read_where_they_are(length: int, width: int, dtype: DType) -> None:
    def build(ir: Builder, x: Value) -> Value:
        parts = ir.transpose(ir.reshape(x, (2, length, 3, 4, width)), (2, 0, 3, 1, 4))
        shape = (2, 4, length, width)
        q, k, v = (ir.reshape(ir.slice(parts, (place, 0, 0, 0, 0), (1, *shape)), shape) for place in range(3))
        return ir.attention(q, k, v, None, 0.3, False, 0.0)

    device = Device(make([f"{dtype}[2, {length}, {12 * width}]"], build))
    assert device.kernels() == ["attention"]
    device.check(sample(dtype, 2, length, 12 * width), bound=8 * precision(dtype))


@pytest.mark.parametrize("keys", ["40", "600", "T"])
def test_the_result_is_written_in_the_order_that_is_asked_for(keys: str) -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        turned = ir.transpose(ir.attention(q, k, v, None, 0.3, False, 0.0), (2, 0, 1, 3))
        return ir.reshape(turned, (*turned.shape[:2], 4 * 20))

    device = Device(make(["f32[2, 4, S, 8]", f"f32[2, 2, {keys}, 8]", f"f32[2, 2, {keys}, 20]"], build))
    assert device.kernels() == ["attention"]
    length = 530 if keys == "T" else int(keys)
    for queries in (1, 17):
        arrays = sample(F32, 2, 4, queries, 8), sample(F32, 2, 2, length, 8, seed=1), sample(F32, 2, 2, length, 20)
        device.check(*arrays, bound=1e-5)


def test_a_cache_is_narrowed_and_queries_are_turned_where_they_are_read() -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value, angle: Value) -> Value:
        wide = ir.broadcast(angle, (2,), q.shape)
        turned = ir.op("mul", [ir.op("add", [q, wide], {})[0], wide], {})[0]
        narrow = [ir.cast(x, BF16) for x in (k, v)]
        return ir.attention(turned, *narrow, None, 0.3, False, 0.0)

    device = Device(make(["bf16[1, 2, S, 16]", "f32[1, 2, T, 16]", "f32[1, 2, T, 16]", "bf16[S]"], build))
    assert device.kernels() == ["attention"]
    for queries, keys in ((1, 530), (9, 40)):
        k, v = sample(F32, 1, 2, keys, 16, seed=1), sample(F32, 1, 2, keys, 16, seed=2)
        device.check(sample(BF16, 1, 2, queries, 16), k, v, sample(BF16, queries), bound=8 * precision(BF16))


def test_what_takes_longer_is_written_before_it_is_read() -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.attention(q, ir.op("tanh", [k], {})[0], v, None, 0.3, False, 0.0)

    device = Device(make(["f32[1, 2, 5, 16]"] * 3, build))
    assert device.kernels() == ["pointwise", "attention"]


def _is_shared(device: Device) -> bool:
    """Whether programs share the keys in some call."""
    return any("peaks" in text for text in device.sources())


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("heads", [(2, 2), (6, 2), (40, 2)], ids=str)
def test_programs_share_the_keys_of_few_queries(dtype: DType, heads: tuple[int, int]) -> None:
    every, groups = heads
    types = [f"{dtype}[2, {every}, 1, 24]", f"{dtype}[2, {groups}, 701, 24]", f"{dtype}[2, {groups}, 701, 20]"]
    device = _device(types)
    assert len(device.code(0).steps) == 2
    q, k, v = (sample(dtype, *shape) for shape in ((2, every, 1, 24), (2, groups, 701, 24), (2, groups, 701, 20)))
    device.check(q, k, v, bound=8 * precision(dtype))


@pytest.mark.parametrize("keys", [0, 1, 511, 512, 530])
@pytest.mark.parametrize("queries", [0, 1, 3, 16, 17])
def test_keys_are_shared_where_a_call_has_few_queries_and_many_keys(queries: int, keys: int) -> None:
    device = _device(["f32[B, 4, S, 16]", "f32[B, 2, T, 16]", "f32[B, 2, T, 16]", "f32[B, 1, S, T]"], softcap=3.0)
    assert _is_shared(device)
    q, k, v = sample(F32, 2, 4, queries, 16), sample(F32, 2, 2, keys, 16, seed=1), sample(F32, 2, 2, keys, 16, seed=2)
    device.check(q, k, v, sample(F32, 2, 1, queries, keys), bound=1e-5)


@pytest.mark.parametrize("types", ["1, T", "S, 600"])
def test_shared_keys_of_queries_that_see_little(types: str) -> None:
    queries, keys = types.split(", ")
    shapes = [f"f32[1, 2, {queries}, 8]", *[f"f32[1, 1, {keys}, 8]"] * 2, f"f32[1, 2, {queries}, {keys}]"]
    device = _device(shapes)
    assert _is_shared(device)
    q, k, v = sample(F32, 1, 2, 1, 8), sample(F32, 1, 1, 600, 8, seed=1), sample(F32, 1, 1, 600, 8, seed=2)
    mask = np.full((1, 2, 1, 600), -np.inf, np.float32)
    assert not device(q, k, v, mask)[0].any()
    mask[0, 1, 0, 599] = 0
    device.check(q, k, v, mask, bound=1e-5)
    mask[0, 1, 0, :300] = 60
    device.check(q, k, v, mask, bound=1e-5)
    mask[0, 0, 0, 599] = np.nan
    device.check(q, k, v, mask, bound=1e-5)
    k[0, 0, 3, 2] = np.nan
    device.check(q, k, v, mask, bound=1e-5)


def test_memory_of_shared_keys_does_not_grow_with_the_batch() -> None:
    device = _device(["f32[B, 4, S, 16]", "f32[B, 2, T, 16]", "f32[B, 2, T, 16]"])
    sizes = dict.fromkeys(device.plan.kernels[0].symbols, 10**4)
    assert 0 < evaluate(device.plan.kernels[0].schedule.scratch_bytes, sizes) < 1 << 20


def test_keys_are_not_shared_where_queries_are_as_many() -> None:
    assert not _is_shared(_device(["f32[B, 4, S, 16]"] * 3))
    assert not _is_shared(_device(["f32[1, 4, 1, 16]", *["f32[1, 4, 40, 16]"] * 2]))
    assert not _is_shared(_device(["f32[1, 4, 100, 16]", *["f32[1, 4, T, 16]"] * 2]))
    assert not _is_shared(_device(["f32[40, 4, 1, 16]", *["f32[40, 4, T, 16]"] * 2]))
    assert not _is_shared(_device(["f32[1, 4, S, 16]", *["f32[1, 4, T, 16]"] * 2], causal=True))
