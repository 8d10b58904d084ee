"""Depthwise convolutions whose pixels share sets of the cache: what a unit reads is copied first."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, F64, I8, I32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make
from tests.support.window_forms import NONE, ONES, TWOS, Convolution, H, N, W, sizes_of

COPIED = [
    Convolution("depthwise", (N, 1024, 19, 19), (1024, 1, 3, 3), ONES, ONES, ONES, ONES, 1024),
    Convolution("depthwise", (N, 1024, 14, 15), (1024, 1, 3, 3), TWOS, (0, 1), ONES, ONES, 1024),
    Convolution("depthwise", (N, 1024, 21, 7), (1024, 1, 5, 5), (2, 1), (2, 3), (1, 0), ONES, 1024),
    Convolution("depthwise", (N, 1024, 12, 26), (1024, 1, 3, 3), ONES, NONE, NONE, TWOS, 1024),
    Convolution("depthwise", (N, 1024, H, W), (1024, 1, 3, 3), ONES, ONES, ONES, ONES, 1024),
    Convolution("depthwise", (N, 2048, 9, 9), (2048, 2, 3, 3), ONES, ONES, ONES, ONES, 1024),
]


def _whole(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers: every order of summation gives the same."""
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype.numpy)


def _copies(native: Native) -> bool:
    schedule = native.plan.kernels[-1].scheduled(ConvolutionSchedule)
    assert schedule.algorithm == "depthwise"
    assert schedule.packs_rows == ("share sets of the cache" in schedule.why)
    return schedule.packs_rows


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("case", COPIED, ids=str)
def test_what_shares_sets_of_the_cache_is_copied(case: Convolution, target: Target) -> None:
    w, shape = _whole(F32, *case.w, seed=1), case.shape(last=True)
    module = make([TensorType(F32, shape)], lambda ir, x: case.build(ir, x, ir.constant(w), last=True))
    native = Native(module, target)
    assert _copies(native)
    sizes = [(8, 11), (1, 30)] if H in case.x else [(0, 0)]
    for count in (0, 1, 2):
        for height, width in sizes:
            native.check(_whole(F32, *sizes_of(shape, {"N": count, "H": height, "W": width})))


def test_f64_is_copied_at_half_as_many_channels() -> None:
    case = Convolution("depthwise", (1, 512, 10, 17), (512, 1, 3, 3), ONES, ONES, ONES, ONES, 512)
    w, shape = _whole(F64, *case.w, seed=1), case.shape(last=True)
    native = Native(make([TensorType(F64, shape)], lambda ir, x: case.build(ir, x, ir.constant(w), last=True)))
    assert _copies(native)
    native.check(_whole(F64, *sizes_of(shape, {})))


def test_an_image_without_lines_is_all_padding() -> None:
    case = Convolution("depthwise", (1, 1024, 0, 19), (1024, 1, 3, 3), ONES, (3, 1), (2, 1), ONES, 1024)
    w, shape = _whole(F32, *case.w, seed=1), case.shape(last=True)
    native = Native(make([TensorType(F32, shape)], lambda ir, x: case.build(ir, x, ir.constant(w), last=True)))
    native.check(_whole(F32, *sizes_of(shape, {})))


def test_bytes_are_copied_too() -> None:
    w = _whole(I8, 4096, 1, 3, 3, seed=1)
    native = Native(make(["i8[1, 10, 9, 4096]"], lambda ir, x: ir.convolution(
        x, ir.constant(w), ONES, ONES, ONES, ONES, 4096, dtype=I32, dimensions=channels_innermost(2)
    )))  # fmt: skip
    assert _copies(native)
    native.check(_whole(I8, 1, 10, 9, 4096))


def test_a_part_of_the_channels_is_copied_with_the_steps_of_all() -> None:
    """Its last vector is not whole; what lies behind its channels is not read as theirs."""

    def build(ir: Builder, x: Value, w: Value) -> Value:
        part = ir.slice(x, (0, 0, 0, 2), (1, 9, 9, 1001))
        return ir.convolution(part, w, ONES, ONES, ONES, ONES, 1001, dimensions=channels_innermost(2))

    native = Native(make(["f32[1, 9, 9, 1024]", "f32[1001, 1, 3, 3]"], build))
    assert _copies(native)
    native.check(_whole(F32, 1, 9, 9, 1024), _whole(F32, 1001, 1, 3, 3, seed=1))


@pytest.mark.parametrize("channels", [728, 256, 960])
def test_what_does_not_share_sets_is_read_where_it_lies(channels: int) -> None:
    case = Convolution("depthwise", (1, channels, 19, 19), (channels, 1, 3, 3), ONES, ONES, ONES, ONES, channels)
    w = _whole(F32, *case.w, seed=1)
    types = [TensorType(F32, case.shape(last=True))]
    assert not _copies(Native(make(types, lambda ir, x: case.build(ir, x, ir.constant(w), last=True))))
