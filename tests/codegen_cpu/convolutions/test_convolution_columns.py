"""Convolutions by columns: odd sizes, steps, taps apart, groups, views, what follows, what is not finite."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_first
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, sample
from tests.support.window_forms import NONE, ONES, TWOS, Convolution, N, sizes_of

FORMS = [
    Convolution("columns", (N, 3, 5, 7), (2, 3, 3, 4), ONES, ONES, TWOS, ONES, 1, (2, 3)),
    Convolution("columns", (N, 1, 1, 1), (1, 1, 1, 1), ONES, NONE, NONE, ONES, 1, (2, 2)),
    Convolution("columns", (N, 2, 1, 40), (5, 2, 1, 2), ONES, NONE, (0, 1), ONES, 1, (1, 2)),
    Convolution("columns", (N, 9, 17, 16), (1, 9, 5, 5), ONES, (4, 4), (4, 4), ONES, 1, TWOS),
    Convolution("columns", (N, 4, 6, 33), (6, 2, 3, 3), ONES, (0, 2), (1, 0), ONES, 2, (3, 4)),
    Convolution("columns", (N, 3, 9, 10), (3, 1, 2, 3), ONES, TWOS, ONES, (2, 3), 3, (4, 2)),
    Convolution("columns", (N, 2, 7, 9), (3, 2, 2, 3), ONES, (7, 0), (0, 9), (3, 1), 1, (2, 8)),
    Convolution("columns", (N, 3, 700), (2, 3, 9), (1,), (8,), (8,), (1,), 1, (2,)),
    Convolution("columns", (N, 5, 3), (17, 5, 4), (1,), (1,), (0,), (1,), 1, (3,)),
    Convolution("columns", (N, 4, 3, 5, 4), (2, 4, 2, 3, 4), (1, 1, 1), (1, 0, 3), (1, 2, 3), (1, 2, 1), 1, (1, 2, 3)),
    Convolution("columns", (N, 17, 7, 7), (1, 17, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("columns", (N, 16, 4, 19), (2, 8, 2, 4), ONES, (0, 3), (1, 0), (1, 2), 2),
    Convolution("columns", (N, 4, 8, 11), (2, 2, 3, 2), ONES, NONE, NONE, TWOS, 2, (1, 2)),
]


def _whole(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers: every order of summation gives the same."""
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype.numpy)


def _convolve(ir: Builder, case: Convolution, x: Value, w: Value) -> Value:
    return ir.convolution(
        x,
        w,
        case.strides,
        case.low,
        case.high,
        case.dilations,
        case.groups,
        case.input_dilations,
        dimensions=channels_first(len(case.x) - 2),
    )


def _result(case: Convolution) -> TensorType:
    ir = Builder()
    x, w = (ir.parameter(name, TensorType(F32, dims)) for name, dims in (("x", case.x), ("w", case.w)))
    return TensorType(F32, _convolve(ir, case, x, w).shape)


def _algorithm(native: Native) -> str:
    kernel = next(kernel for kernel in native.plan.kernels if kernel.kind == "convolution")
    return kernel.scheduled(ConvolutionSchedule).algorithm


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("case", FORMS, ids=str)
def test_columns_with_a_bias_and_a_residual(case: Convolution, target: Target) -> None:
    result = _result(case)

    def build(ir: Builder, x: Value, w: Value, bias: Value, residual: Value) -> Value:
        return ir.add(ir.add(_convolve(ir, case, x, w), ir.broadcast(bias, (1,), result.shape)), residual)

    types = [TensorType(F32, case.x), TensorType(F32, case.w), TensorType(F32, case.w[:1]), result]
    native = Native(make(types, build), target)
    assert _algorithm(native) == "columns"
    w, bias = _whole(F32, *case.w, seed=1), _whole(F32, case.w[0], seed=2)
    for count in (0, 1, 3):
        x, residual = (_whole(F32, *sizes_of(shape, {"N": count}), seed=3) for shape in (case.x, result.shape))
        native.check(x, w, bias, residual)


@pytest.mark.parametrize("case", FORMS, ids=str)
def test_columns_of_f64(case: Convolution) -> None:
    types = [TensorType(F64, case.x), TensorType(F64, case.w)]
    native = Native(make(types, lambda ir, x, w: _convolve(ir, case, x, w)))
    assert _algorithm(native) == "columns"
    native.check(_whole(F64, *sizes_of(case.x, {"N": 2})), _whole(F64, *case.w, seed=1))


def test_filters_that_lie_backwards_and_turned_are_read_where_they_lie() -> None:
    case = FORMS[0]

    def build(ir: Builder, x: Value, w: Value) -> Value:
        backwards = ir.reverse(ir.reverse(w, 2), 3)
        return _convolve(ir, case, x, ir.transpose(backwards, (1, 0, 2, 3)))

    native = Native(make([TensorType(F32, case.x), "f32[3, 2, 3, 4]"], build))
    assert native.kernels() == ["convolution"]
    native.check(_whole(F32, 2, 3, 5, 7), _whole(F32, 3, 2, 3, 4, seed=1))


def test_channels_that_are_a_part_of_an_image_are_read_where_they_lie() -> None:
    case = FORMS[0]

    def build(ir: Builder, x: Value, w: Value) -> Value:
        return _convolve(ir, case, ir.slice(x, (0, 2, 0, 0), (N, 3, 5, 7), (1, 2, 1, 1)), w)

    native = Native(make(["f32[N, 8, 5, 7]", TensorType(F32, case.w)], build))
    assert native.kernels() == ["convolution"]
    native.check(_whole(F32, 2, 8, 5, 7), _whole(F32, *case.w, seed=1))


def test_pixels_that_lie_apart_are_written_first() -> None:
    case = FORMS[0]

    def build(ir: Builder, x: Value, w: Value) -> Value:
        return _convolve(ir, case, ir.slice(x, (0, 0, 0, 0), (N, 3, 5, 7), (1, 1, 1, 2)), w)

    native = Native(make(["f32[N, 3, 5, 14]", TensorType(F32, case.w)], build))
    assert native.kernels() == ["pointwise", "convolution"]
    native.check(_whole(F32, 2, 3, 5, 14), _whole(F32, *case.w, seed=1))


def test_what_is_not_finite_stays_where_its_taps_are() -> None:
    case = FORMS[0]
    native = Native(make([TensorType(F32, case.x), TensorType(F32, case.w)], lambda ir, x, w: (
        _convolve(ir, case, x, w)
    )))  # fmt: skip
    x = sample(F32, 1, 3, 5, 7)
    x[0, 1, 0, 6], x[0, 2, 4, 4], x[0, 0, 4, 0] = np.nan, np.inf, -np.inf
    native.check(x, sample(F32, *case.w), bound=2e-6)


@pytest.mark.parametrize(
    ("x", "w", "input_dilations"),
    [
        ((N, 2, 9, 9), (1, 2, 3, 3), (2, 9)),
        ((N, 2, 5000, 2), (1, 2, 3, 3), TWOS),
        ((N, 2, 300, 300), (1, 2, 3, 3), TWOS),
        ((N, 9000, 3, 3), (1, 9000, 3, 3), TWOS),
    ],
    ids=str,
)
def test_what_there_is_no_room_for_has_a_kernel(
    x: tuple[int, ...], w: tuple[int, ...], input_dilations: tuple[int, int]
) -> None:
    case = Convolution("general", x, w, ONES, ONES, ONES, ONES, 1, input_dilations)
    native = Native(make([TensorType(F32, x), TensorType(F32, w)], lambda ir, x, w: _convolve(ir, case, x, w)))
    assert _algorithm(native) == "general"
    native.check(_whole(F32, *sizes_of(x, {"N": 1})), _whole(F32, *w, seed=1))
