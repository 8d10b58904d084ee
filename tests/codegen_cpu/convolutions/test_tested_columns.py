"""Depthwise convolutions whose tiles at the ends of a line are tested for columns that the image does not have."""

from dataclasses import replace

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.emit import kernel_pieces
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.target import Target, parse_target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make
from tests.support.window_forms import Convolution, N, W, sizes_of


def _line(channels: int, taps: int, **changed: object) -> Convolution:
    pads = (taps // 2,)
    case = Convolution("depthwise", (N, channels, W), (channels, 1, taps), (1,), pads, pads, (1,), channels)
    return replace(case, **changed)  # type: ignore[arg-type]


TESTED = [
    _line(64, 3),
    _line(64, 33, strides=(2,)),
    _line(128, 51),
    _line(128, 75),
    _line(72, 75),
    _line(128, 87, dilations=(2,), low=(86,), high=(86,)),
    _line(128, 51, low=(60,), high=(3,)),
    _line(32, 75, w=(64, 1, 75)),
    Convolution("depthwise", (N, 16, 3, 5, W), (16, 1, 1, 3, 3), (1,) * 3, (0, 1, 1), (0, 1, 1), (1,) * 3, 16),
    Convolution("depthwise", (N, 8, 3, 5, W), (16, 1, 1, 3, 3), (1,) * 3, (0, 1, 1), (0, 1, 1), (1,) * 3, 8),
]

WIDTHS = (0, 1, 2, 7, 16, 41, 106)


def _whole(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers: every order of summation gives the same."""
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype.numpy)


def _module(case: Convolution, dtype: DType = F32) -> Module:
    w = _whole(dtype, *case.w, seed=1)
    return make([TensorType(dtype, case.shape(last=True))], lambda ir, x: case.build(ir, x, ir.constant(w), last=True))


def _check(native: Native, case: Convolution, dtype: DType = F32) -> None:
    schedule = native.plan.kernels[-1].scheduled(ConvolutionSchedule)
    assert (schedule.algorithm, schedule.surrounds, schedule.packs_rows) == ("depthwise", False, False)
    assert "columns tested" in schedule.why
    pads = sum(pad for pad in (case.low[-1], case.high[-1]) if isinstance(pad, int))
    for width in WIDTHS:
        if width + pads > (case.w[-1] - 1) * case.dilations[-1]:
            native.check(_whole(dtype, *sizes_of(case.shape(last=True), {"N": 2, "W": width})))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("case", TESTED, ids=str)
def test_columns_beside_the_image_are_zeros(case: Convolution, target: Target) -> None:
    _check(Native(_module(case), target), case)


def test_f64() -> None:
    case = _line(128, 51)
    _check(Native(_module(case, F64)), case, F64)


def test_infinite_and_undefined_elements_stay_within_their_windows() -> None:
    case = _line(128, 51)
    x = _whole(F32, 1, 90, 128)
    x[0, 0], x[0, -1] = np.inf, np.nan
    Native(_module(case)).check(x)


@pytest.mark.parametrize(("case", "is_masked"), [(_line(128, 75), False), (_line(72, 75), True)], ids=str)
def test_no_address_is_far_from_the_image(case: Convolution, is_masked: bool) -> None:
    """Masks are of channels that no vector is full of; one of no lane is slow where its address is not mapped."""
    target = parse_target("cpu:x86-64-v4")
    pieces = kernel_pieces(plan_kernels(_module(case), cpu_plan_target(target)), target)
    text = "".join(function.text() for functions in pieces.functions for function in functions)
    assert ("llvm.masked.load" in text) is is_masked
