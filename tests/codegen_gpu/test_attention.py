"""Attention by the interpreter: masks of every shape, causal, grouped heads, rows without keys, odd sizes and types."""

import numpy as np
import pytest

from compiler.ir.builder import Builder
from compiler.ir.dtypes import BF16, F16, F32, DType
from compiler.ir.module import Value
from tests.codegen_gpu.support import Device, make, precision, sample


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
    assert device.kernels()[0] == "attention"
