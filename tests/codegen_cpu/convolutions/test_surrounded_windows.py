"""Depthwise convolutions whose units at both ends of a line read copies: of lines whose length is known only at the
call, and of windows so wide that a loop runs over their taps.
"""

from dataclasses import replace

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make
from tests.support.window_forms import NONE, ONES, TWOS, Convolution, H, N, W, sizes_of


def _case(channels: int, taps: tuple[int, int], **changed: object) -> Convolution:
    case = Convolution("depthwise", (N, channels, H, W), (channels, 1, *taps), ONES, ONES, ONES, ONES, channels)
    return replace(case, **changed)  # type: ignore[arg-type]


SURROUNDED = [
    _case(8, (3, 3)),
    _case(3, (3, 3), strides=TWOS),
    _case(13, (5, 5), low=TWOS, high=(1, 3)),
    _case(40, (3, 3), low=NONE, high=NONE),
    _case(72, (3, 3), strides=(1, 3), low=(0, 2), high=(2, 0)),
    _case(16, (1, 8), low=(0, 9), high=(0, 12)),
    _case(24, (3, 9), low=(1, 4), high=(1, 4)),
    _case(8, (3, 3), dilations=(2, 3), low=(2, 3), high=(2, 3)),
    _case(8, (2, 2), strides=TWOS, low=(0, 5), high=(3, 6)),
    _case(1024, (3, 3)),
    _case(16, (3, 3), x=(2, 16, 9, W)),
    _case(16, (3, 3), x=(1, 16, 9, 20), low=(1, W), high=(1, 1)),
    _case(16, (3, 3), x=(1, 16, 9, 20), high=(1, W)),
    _case(16, (3, 9), x=(1, 16, 9, 20), low=(1, 4), high=(1, 4)),
    _case(24, (13, 31), x=(1, 24, 7, 28), low=(6, 15), high=(6, 15)),
    _case(8, (3, 9), x=(2, 8, 9, 30), strides=TWOS, dilations=(1, 2), low=(1, 7), high=(1, 9)),
]

WIDTHS = (1, 2, 7, 8, 9, 16, 23, 24, 40, 41)


def _whole(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers: every order of summation gives the same."""
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype.numpy)


def _native(case: Convolution, target: Target | None = None, dtype: DType = F32) -> Native:
    w = _whole(dtype, *case.w, seed=1)

    def build(ir: Builder, x: Value, *_: Value) -> Value:
        return case.build(ir, x, ir.constant(w), last=True)

    types = [TensorType(dtype, case.shape(last=True))]
    if W not in case.x:
        types.append(TensorType(dtype, (W,)))
    module = make(types, build)
    native = Native(module) if target is None else Native(module, target)
    schedule = native.plan.kernels[-1].scheduled(ConvolutionSchedule)
    assert (schedule.algorithm, schedule.surrounds) == ("depthwise", True)
    assert "windows that are copied" in schedule.why
    return native


def _check(native: Native, case: Convolution, dtype: DType = F32) -> None:
    pads = sum(pad for pad in (case.low[-1], case.high[-1]) if isinstance(pad, int))
    least = 1 + (case.w[-1] - 1) * case.dilations[-1] - pads
    for width in WIDTHS:
        if W in case.x and width < least:
            continue
        for count, height in ((0, 5), (1, 11), (2, 4)):
            x = _whole(dtype, *sizes_of(case.shape(last=True), {"N": count, "H": height, "W": width}))
            native.check(x, *([] if W in case.x else [_whole(dtype, width)]))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("case", SURROUNDED, ids=str)
def test_no_window_leaves_the_copy(case: Convolution, target: Target) -> None:
    _check(_native(case, target), case)


def test_f64() -> None:
    case = _case(19, (3, 3))
    _check(_native(case, dtype=F64), case, F64)


def test_lines_of_known_length_are_not_copied() -> None:
    case = _case(16, (3, 3), x=(N, 16, H, 28))
    w = _whole(F32, *case.w, seed=1)
    types = [TensorType(F32, case.shape(last=True))]
    native = Native(make(types, lambda ir, x: case.build(ir, x, ir.constant(w), last=True)))
    assert not native.plan.kernels[-1].scheduled(ConvolutionSchedule).surrounds


def test_images_of_three_axes_say_that_their_columns_are_tested() -> None:
    case = Convolution("depthwise", (N, 8, 3, H, W), (8, 1, 1, 3, 3), (1, 1, 1), (0, 1, 1), (0, 1, 1), (1, 1, 1), 8)
    w = _whole(F32, *case.w, seed=1)
    types = [TensorType(F32, case.shape(last=True))]
    native = Native(make(types, lambda ir, x: case.build(ir, x, ir.constant(w), last=True)))
    schedule = native.plan.kernels[-1].scheduled(ConvolutionSchedule)
    assert not schedule.surrounds
    assert schedule.why == "filters of each channel, columns tested at the ends of lines"
    native.check(_whole(F32, 2, 3, 5, 19, 8))
