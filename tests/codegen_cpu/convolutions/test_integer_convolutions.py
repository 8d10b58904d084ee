"""Convolutions of bytes in sums of i32, channels innermost: padding, strides, dilations, signs, groups, sizes and
filters of a call."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32, I8, I32, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import all_channels_innermost, channels_innermost
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

GROUPED = [
    (2, 3, 10, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    (3, 64, 51, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1)),
    (2, 2, 140, (3, 1), (2, 2), (2, 0), (0, 1), (1, 2)),
    (5, 2, 5, (3,), (1,), (1,), (1,), (1,)),
]
"""Groups, the channels of each, filters of all; then as above."""

Steps = Sequence[tuple[int, ...]]


def _type_of(array: np.ndarray) -> str:
    """The type of a parameter that is given an array of bytes."""
    return f"{'u8' if array.dtype == np.uint8 else 'i8'}[{', '.join(map(str, array.shape))}]"


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


@pytest.mark.parametrize("target", BYTE_TARGETS, ids=str)
@pytest.mark.parametrize("signs", SIGNS, ids=str)
def test_filters_of_a_call_are_packed_on_the_way(signs: tuple[DType, DType], target: Target) -> None:
    for channels, filters, taps, *steps in CASES:
        w = all_bytes(signs[1], filters, *taps, channels, seed=1)
        native = Native(make([_image(signs[0], w, channels), _type_of(w)], _convolved(steps)), target)
        assert _algorithms(native) == ["bytes"]
        for images, size in ((1, 7), (3, 9), (0, 7)):
            x = all_bytes(signs[0], images, *(size + axis for axis in range(len(taps))), channels)
            native.check(x, w)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("target", BYTE_TARGETS, ids=str)
@pytest.mark.parametrize("signs", SIGNS, ids=str)
def test_groups_of_channels_are_summed_apart(signs: tuple[DType, DType], target: Target, is_constant: bool) -> None:
    for groups, channels, filters, taps, *steps in GROUPED:
        w = all_bytes(signs[1], filters, *taps, channels, seed=1)
        image = _image(signs[0], w, groups * channels)
        if is_constant:
            held = np.ascontiguousarray(np.moveaxis(w, -1, 1))
            module = make([image], _convolved_with(held, steps, groups))
        else:
            module = make([image, _type_of(w)], _convolved(steps, groups))
        native = Native(module, target)
        assert _algorithms(native) == ["bytes"]
        for images, size in ((1, 7), (3, 11), (0, 7)):
            x = all_bytes(signs[0], images, *(size + axis for axis in range(len(taps))), groups * channels)
            native.check(*((x,) if is_constant else (x, w)))


def _image(dtype: DType, w: np.ndarray, channels: int) -> str:
    """The type of images of any size, of as many spatial axes as filters have taps along."""
    sizes = ", ".join(("H", "W", "D")[: w.ndim - 2])
    return f"{dtype}[N, {sizes}, {channels}]"


def _convolved(steps: Steps, groups: int = 1) -> Callable[[Builder, Value, Value], Value]:
    """The convolution of two parameters, filters with their channels innermost."""

    def build(ir: Builder, x: Value, w: Value) -> Value:
        labels = all_channels_innermost(w.rank - 2)
        return ir.convolution(x, w, *steps, groups=groups, dtype=I32, dimensions=labels)

    return build


def _convolved_with(w: np.ndarray, steps: Steps, groups: int) -> Callable[[Builder, Value], Value]:
    """The convolution of a parameter with constant filters."""

    def build(ir: Builder, x: Value) -> Value:
        labels = channels_innermost(w.ndim - 2)
        return ir.convolution(x, ir.constant(w), *steps, groups=groups, dtype=I32, dimensions=labels)

    return build


def test_filters_of_a_call_of_more_products_than_a_block() -> None:
    w = all_bytes(I8, 70, 3, 3, 300, seed=1)
    native = Native(make(["u8[N, 12, 11, 300]", _type_of(w)], _convolved([(1, 1)] * 4)))
    assert _algorithms(native) == ["bytes"]
    native.check(all_bytes(U8, 4, 12, 11, 300), w)


@pytest.mark.parametrize("target", BYTE_TARGETS, ids=str)
@pytest.mark.parametrize("signs", SIGNS, ids=str)
def test_filters_of_a_call_may_be_any_number(signs: tuple[DType, DType], target: Target) -> None:
    native = Native(make([f"{signs[0]}[N, H, W, 5]", f"{signs[1]}[M, 3, 3, 5]"], _convolved([(1, 1)] * 4)), target)
    assert _algorithms(native) == ["bytes"]
    for filters in (0, 1, 16, 33, 70):
        native.check(all_bytes(signs[0], 2, 7, 6, 5), all_bytes(signs[1], filters, 3, 3, 5, seed=1))


def test_filters_of_a_call_that_lie_otherwise_are_written_first() -> None:
    w = all_bytes(I8, 20, 8, 3, 3, seed=1)

    def build(ir: Builder, x: Value, w: Value) -> Value:
        turned = ir.transpose(w, (0, 2, 3, 1))
        return _convolved([(1, 1)] * 4)(ir, x, turned)

    native = Native(make(["u8[N, 6, 6, 8]", _type_of(w)], build))
    assert [kernel.kind for kernel in native.plan.kernels] == ["pointwise", "convolution"]
    native.check(all_bytes(U8, 2, 6, 6, 8), w)


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
