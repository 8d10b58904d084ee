"""Convolutions of bytes in sums of i32, channels innermost: padding, strides, dilations, signs, sizes of a call."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32, I8, I32, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.target import Target
from tests.codegen_cpu.products.test_integer_products import BYTE_TARGETS, SIGNS, all_bytes
from tests.codegen_cpu.support import Native, make

CASES = [
    (3, 5, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    (4, 64, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1)),
    (64, 17, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1)),
    (6, 70, (1, 1), (2, 2), (0, 0), (0, 0), (1, 1)),
    (70, 8, (3, 2), (2, 1), (1, 0), (0, 1), (1, 1)),
    (3, 4, (7, 7), (2, 2), (3, 3), (3, 3), (1, 1)),
    (5, 4, (3, 3), (1, 2), (2, 4), (2, 4), (2, 3)),
    (8, 4, (3,), (1,), (2,), (0,), (1,)),
    (2, 3, (2, 2, 2), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
]
"""Channels, filters, and for each axis taps, strides, low and high padding, dilations."""


def _algorithms(native: Native) -> list[str]:
    schedules = [kernel.schedule for kernel in native.plan.kernels]
    return [each.algorithm for each in schedules if isinstance(each, ConvolutionSchedule)]


@pytest.mark.parametrize("target", BYTE_TARGETS, ids=str)
@pytest.mark.parametrize("signs", SIGNS, ids=str)
def test_windows_are_summed_exactly(signs: tuple[DType, DType], target: Target) -> None:
    for channels, filters, taps, *steps in CASES:
        w = all_bytes(signs[1], filters, channels, *taps, seed=1)
        sizes = ", ".join(("H", "W", "D")[: len(taps)])

        def build(ir: Builder, x: Value, w: np.ndarray = w, steps: list[tuple[int, ...]] = steps) -> Value:
            labels = channels_innermost(w.ndim - 2)
            return ir.convolution(x, ir.constant(w), *steps, dtype=I32, dimensions=labels)

        native = Native(make([f"{signs[0]}[N, {sizes}, {channels}]"], build), target)
        assert _algorithms(native) == ["bytes"]
        for images, size in ((1, 7), (3, 9), (0, 7)):
            native.check(all_bytes(signs[0], images, *(size + axis for axis in range(len(taps))), channels))


@pytest.mark.parametrize("signs", SIGNS, ids=str)
def test_a_filter_for_each_channel_is_summed_exactly(signs: tuple[DType, DType]) -> None:
    w = all_bytes(signs[1], 40, 1, 5, 3, seed=1)

    def build(ir: Builder, x: Value) -> Value:
        labels = channels_innermost(2)
        return ir.convolution(
            x, ir.constant(w), (2, 1), (2, 1), (1, 1), (1, 1), groups=20, dtype=I32, dimensions=labels
        )

    native = Native(make([f"{signs[0]}[N, H, W, 20]"], build))
    assert _algorithms(native) == ["depthwise"]
    for images, size in ((1, 7), (2, 12), (0, 7)):
        native.check(all_bytes(signs[0], images, size, size + 1, 20))


def test_more_pixels_than_a_chunk_and_more_products_than_a_block() -> None:
    w = all_bytes(I8, 70, 300, 3, 3, seed=1)

    def build(ir: Builder, x: Value) -> Value:
        return ir.convolution(
            x, ir.constant(w), (1, 1), (1, 1), (1, 1), (1, 1), dtype=I32, dimensions=channels_innermost(2)
        )

    native = Native(make(["u8[N, 12, 11, 300]"], build))
    assert _algorithms(native) == ["bytes"]
    native.check(all_bytes(U8, 2, 12, 11, 300))


def test_a_channel_slice_is_read_in_place_and_the_result_leaves_as_bytes() -> None:
    w, scale = all_bytes(I8, 20, 8, 3, 3, seed=1), np.linspace(1e-4, 2e-3, 20, dtype=np.float32)

    def build(ir: Builder, x: Value) -> Value:
        part = ir.slice(x, (0, 0, 0, 4), (Size.symbol("N"), 6, 6, 8))
        sums = ir.convolution(
            part, ir.constant(w), (1, 1), (1, 1), (1, 1), (1, 1), dtype=I32, dimensions=channels_innermost(2)
        )
        scaled = ir.round(ir.mul(ir.cast(sums, F32), ir.constant(scale)))
        return ir.cast(ir.clamp(ir.add(scaled, 7), 0, 255), U8)

    native = Native(make(["u8[N, 6, 6, 16]"], build))
    assert [kernel.kind for kernel in native.plan.kernels] == ["convolution"]
    native.check(all_bytes(U8, 2, 6, 6, 16))
