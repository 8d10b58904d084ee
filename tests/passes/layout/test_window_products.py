"""Convolutions by filters whose sizes only a call knows, which become products, and all others, which stay."""

from collections.abc import Sequence

import numpy as np
import pytest

import onnxc
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I32
from onnxc.compiler.ir.module import Value, walk
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.layout.window_products import window_products
from tests.passes.golden import M, Make, N, assert_same_meaning, built, f16, f32, f64, i8, u8
from tests.support.arrays import assert_close
from tests.support.models import model_from_text


def _convolve(
    b: Builder,
    x: Value,
    w: Value,
    low: int = 1,
    high: int = 1,
    step: int = 1,
    dilation: int = 1,
    spread: int = 1,
    groups: int = 1,
) -> Value:
    low_sizes, high_sizes, steps, dilations, spreads = (
        [count] * (x.rank - 2) for count in (low, high, step, dilation, spread)
    )
    return b.convolution(x, w, steps, low_sizes, high_sizes, dilations, groups, input_dilations=spreads)


def _convolve_wide(b: Builder, x: Value, w: Value) -> Value:
    return b.convolution(x, w, [1], [1], [1], [1], dtype=F32)


OPEN: dict[str, tuple[tuple[TensorType, ...], Make]] = {
    "channels": ((f32(2, N, 5, 6), f32(4, N, 3, 2)), _convolve),
    "taps": ((f32(2, 3, 7, 8), f32(4, 3, N + 1, M + 1)), _convolve),
    "channels and filters": ((f32(2, N, 5, 6), f32(M, N, 3, 3)), _convolve),
    "an image of any size": ((f32(N, M, N + 2, M + 2), f32(4, M, 3, 3)), _convolve),
    "one axis": ((f32(2, N, 9), f32(4, N, 3)), _convolve),
    "three axes": ((f32(1, N, 4, 3, 5), f32(2, N, 2, 1, 3)), _convolve),
    "steps and dilations": ((f32(1, N, 11, 12), f32(2, N, 3, 2)), lambda b, x, w: _convolve(b, x, w, 2, 0, 2, 3)),
    "elements that are apart": ((f32(2, N, 5, 6), f32(4, N, 4, 4)), lambda b, x, w: _convolve(b, x, w, 2, 2, spread=2)),
    "apart, with one end": (
        (f32(1, N, 5), f32(4, N, 2)),
        lambda b, x, w: _convolve(b, x, w, 0, 1, spread=3),
    ),
    "groups": ((f32(2, 4, 5, 6), f32(6, 2, N + 1, 3)), lambda b, x, w: _convolve(b, x, w, groups=2)),
    "groups of any number of filters": (
        (f32(2, 4, 5, 6), f32(2 * N, 2, 3, 3)),
        lambda b, x, w: _convolve(b, x, w, groups=2),
    ),
    "f64": ((f64(2, N, 5), f64(4, N, 3)), _convolve),
    "f16 in f32": ((f16(2, N, 5), f16(4, N, 3)), _convolve_wide),
    "bytes": (
        (u8(2, N, 5, 6), i8(4, N, 3, 3)),
        lambda b, x, w: b.convolution(x, w, [1, 1], [1, 1], [0, 0], [1, 1], dtype=I32),
    ),
}

KNOWN: dict[str, tuple[tuple[TensorType, ...], Make]] = {
    "known filters": ((f32(N, 3, M, 6), f32(4, 3, 3, 3)), _convolve),
    "any number of filters": ((f32(2, 3, 5, 6), f32(N, 3, 3, 3)), _convolve),
    "known groups": ((f32(N, 4, 5, 6), f32(6, 2, 3, 3)), lambda b, x, w: _convolve(b, x, w, groups=2)),
}


@pytest.mark.parametrize("case", OPEN)
def test_filters_of_open_sizes_are_multiplied(case: str) -> None:
    types, make = OPEN[case]
    before = built(types, make)
    after = window_products(before)
    assert "convolution" not in {op.name for op in walk(after.main.body)}
    assert_same_meaning(before, after, (0, 1, 2, 3), rounds=True)


@pytest.mark.parametrize("case", KNOWN)
def test_others_are_convolutions(case: str) -> None:
    types, make = KNOWN[case]
    after = window_products(built(types, make))
    assert "convolution" in {op.name for op in walk(after.main.body)}


@pytest.mark.parametrize("sizes", [(1, 3, 5, 5, 4, 3), (2, 1, 7, 4, 1, 1), (1, 0, 4, 4, 2, 3), (0, 2, 4, 4, 2, 3)])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_decides_on_all_sizes(sizes: Sequence[int], threads: int) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    open (float[n, c, h, w] x, float[m, c, k, k] f) => (float[n, m, a, b] y) {
        y = Conv <pads = [1, 1, 1, 1]> (x, f)
    }"""
    n, c, h, w, m, k = sizes
    rng = np.random.default_rng(0)
    x, f = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, c, h, w), (m, c, k, k)))
    (y,) = onnxc.compile(model_from_text(text), threads=threads).run({"x": x, "f": f}).values()
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (2, 3))
    assert_close(np.asarray(y), np.einsum("nchwkl,mckl->nmhw", windows, f).astype(np.float32), terms=max(c * k * k, 1))
