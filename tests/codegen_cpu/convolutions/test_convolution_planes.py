"""Convolutions that write planes: images in either order, odd sizes, sizes known at the call, what is not finite."""

from dataclasses import replace

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.codegen_cpu.schedules.open_planes import channel_room, window_at_call
from onnxc.compiler.codegen_cpu.schedules.planes import MOST_SUMS, PlaneAxis, PlaneWindow
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_first, channels_innermost
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import ConvolutionSchedule, Tile
from onnxc.compiler.target import Target, parse_target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, sample
from tests.support.window_forms import NONE, ONES, TWOS, Convolution, H, N, W, sizes_of

FORMS = [
    Convolution("planes", (N, 3, 9, 9), (8, 3, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("planes", (N, 17, 7, 7), (1, 17, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("planes", (N, 5, 30, 70), (3, 5, 3, 3), TWOS, ONES, ONES, ONES),
    Convolution("planes", (N, 20, 9, 11), (13, 20, 1, 1), ONES, NONE, NONE, ONES),
    Convolution("planes", (N, 4, 9, 11), (5, 4, 1, 1), TWOS, NONE, NONE, ONES),
    Convolution("planes", (N, 8, 12, 12), (7, 8, 2, 3), (1, 2), (0, 1), (1, 0), (2, 1)),
    Convolution("planes", (N, 8, 12, 13), (7, 8, 3, 3), (3, 2), (2, 3), (1, 0), (2, 2)),
    Convolution("planes", (N, 16, 15, 15), (16, 4, 3, 3), ONES, ONES, ONES, ONES, 4),
    Convolution("planes", (N, 6, 10, 10), (12, 1, 3, 3), ONES, ONES, ONES, ONES, 6),
    Convolution("planes", (N, 3, 1300), (2, 3, 9), (1,), (4,), (4,), (1,)),
    Convolution("planes", (N, 3, 50), (2, 3, 5), (4,), (2,), (2,), (1,)),
    Convolution("planes", (N, 4, 5, 6, 7), (3, 4, 2, 3, 2), (1, 2, 1), (1, 0, 1), (0, 1, 1), (1, 1, 2)),
    Convolution("planes", (N, 4, 9, 11, 48), (8, 4, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    Convolution("planes", (N, 2, 12, 10, 67), (5, 2, 3, 2, 3), (2, 2, 2), (1, 0, 1), (0, 1, 1), (1, 1, 1)),
    Convolution("planes", (N, 2, 7, 9, 20), (3, 2, 2, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 0), (2, 1, 2)),
    Convolution("planes", (N, 4, 9, 48), (8, 4, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("planes", (N, 3, 9, 96), (16, 3, 3, 3), TWOS, ONES, ONES, ONES),
    Convolution("planes", (N, 3, 21, 30), (17, 3, 5, 5), TWOS, ONES, (3, 2), (1, 2)),
    Convolution("planes", (N, 2, 9, 33), (32, 2, 1, 4), (1, 3), (0, 5), (0, 4), ONES),
    Convolution("planes", (N, 6, 5, 40), (48, 3, 3, 3), ONES, (1, 0), (1, 9), ONES, 2),
    Convolution("planes", (N, 1, 70), (32, 1, 3), (2,), (0,), (1,), (1,)),
    Convolution(
        "planes", (N, 1, 3, 5, 4, 24), (32, 1, 1, 3, 3, 3), (1, 1, 2, 1), (0, 1, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1)
    ),
    Convolution("planes", (N, 5, 8, 40), (40, 5, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("planes", (N, 300, 3, 3), (4, 300, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("planes", (N, 4, H, W), (6, 4, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("planes", (N, 4, H, W), (2, 4, 3, 3), TWOS, (0, 1), ONES, ONES),
    Convolution("planes", (N, 4, H, W), (5, 4, 1, 1), ONES, NONE, NONE, ONES),
    Convolution("planes", (N, 4, H, 20), (6, 4, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("planes", (N, 4, 20, W), (6, 4, 3, 3), TWOS, ONES, ONES, ONES),
    Convolution("planes", (N, 3, H, W), (5, 3, 2, 7), (2, 1), (1, 9), (0, 9), (1, 3)),
    Convolution("planes", (N, 3, H, 5, W), (4, 3, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    Convolution("planes", (N, 3, 5, H, W), (4, 3, 2, 3, 2), (1, 2, 2), (1, 1, 1), (1, 1, 0), (1, 2, 1)),
    Convolution("planes", (N, 3, W), (2, 3, 9), (2,), (4,), (4,), (1,)),
    Convolution("planes", (N, 3, 5, 0), (8, 3, 3, 3), ONES, ONES, ONES, ONES),
]
SIZES = [
    {"N": 0, "H": 5, "W": 6},
    {"N": 1, "H": 15, "W": 16},
    {"N": 2, "H": 1, "W": 1},
    {"N": 2, "H": 7, "W": 301},
    {"N": 1, "H": 70, "W": 3},
]


def _whole(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers: every order of summation gives the same."""
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype.numpy)


def _dimensions(case: Convolution, last: bool) -> str:
    """Those of an image with its channels last or first, and of planes."""
    rank = len(case.x) - 2
    return (
        f"{(channels_innermost if last else channels_first)(rank).split('->')[0]}->{channels_first(rank).split(',')[0]}"
    )


def _convolve(ir: Builder, case: Convolution, x: Value, w: Value, last: bool) -> Value:
    return ir.convolution(
        x, w, case.strides, case.low, case.high, case.dilations, case.groups, dimensions=_dimensions(case, last)
    )


def _result(case: Convolution) -> tuple[Dim, ...]:
    x, w = (Builder().parameter("x", TensorType(F32, dims)) for dims in (case.x, case.w))
    return case.build(Builder(), x, w).shape


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("case", FORMS, ids=str)
def test_planes_with_a_bias_a_residual_and_a_gate(case: Convolution, target: Target, last: bool) -> None:
    w, bias, result = _whole(F32, *case.w, seed=1), _whole(F32, case.w[0], seed=2), _result(case)

    def build(ir: Builder, x: Value, residual: Value) -> Value:
        y = ir.add(_convolve(ir, case, x, ir.constant(w), last), ir.broadcast(ir.constant(bias), (1,), result))
        return ir.add(ir.mul(y, ir.max(y, 0.0)), residual)

    shape = case.shape(last)
    native = Native(make([TensorType(F32, shape), TensorType(F32, result)], build), target)
    assert native.plan.kernels[0].scheduled(ConvolutionSchedule).algorithm == "planes"
    symbols = {name for dim in case.x for name in symbols_of(dim)}
    for values in SIZES if len(symbols) > 1 else SIZES[:3]:
        native.check(_whole(F32, *sizes_of(shape, values)), _whole(F32, *sizes_of(result, values), seed=3))


@pytest.mark.parametrize(
    ("x", "filters", "tile", "registers"),
    [
        # Three vectors are a line: nothing is computed between lines, and planes share what is copied.
        ((N, 16, 32, 48, 48), 16, Tile(5, 48, 4), Tile(8, 48)),
        # Lines with what lies between them are nearly whole blocks.
        ((N, 16, 100, 100), 20, Tile(10, 100), Tile(5, 64)),
        # Of few filters more pixels are summed at once.
        ((N, 16, 64, 64), 2, Tile(13, 64), Tile(2, 128)),
    ],
    ids=str,
)
def test_what_is_summed_at_once(x: tuple[Dim, ...], filters: int, tile: Tile, registers: Tile) -> None:
    rank = len(x) - 2
    case = Convolution("planes", x, (filters, 16, *[3] * rank), *[(1,) * rank] * 4)
    w = _whole(F32, *case.w)
    built = make([TensorType(F32, case.x)], lambda ir, x: _convolve(ir, case, x, ir.constant(w), False))
    (kernel,) = plan_kernels(built, cpu_plan_target(parse_target("cpu:x86-64-v4"))).kernels
    schedule = kernel.scheduled(ConvolutionSchedule)
    assert (schedule.tile, schedule.registers) == (tile, registers)


@pytest.mark.parametrize(
    ("x", "w", "strides", "taps_apart"),
    [
        ((N, 3, 224, 224), (32, 3, 3, 3), TWOS, True),
        ((N, 3, 112, 112), (32, 3, 3, 3), ONES, True),
        # What is copied for each tap is more than what many products gain.
        ((N, 16, 64, 64), (16, 16, 3, 3), ONES, False),
        ((N, 3, 224, W), (32, 3, 3, 3), TWOS, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("last", [False, True])
def test_each_tap_has_a_copy_where_many_filters_read_it(
    x: tuple[Dim, ...], w: tuple[int, ...], strides: tuple[int, int], taps_apart: bool, last: bool
) -> None:
    case = Convolution("planes", x, w, strides, ONES, ONES, ONES)
    shape = TensorType(F32, case.shape(last))
    built = make([shape], lambda ir, x: _convolve(ir, case, x, ir.constant(_whole(F32, *w)), last))
    (kernel,) = plan_kernels(built, cpu_plan_target(parse_target("cpu:x86-64-v4"))).kernels
    assert kernel.scheduled(ConvolutionSchedule).taps_apart == taps_apart


def test_a_residual_that_lies_across_pixels_is_added() -> None:
    case = Convolution("planes", (N, 3, 32, 48), (32, 3, 3, 3), ONES, ONES, ONES, ONES)
    w = _whole(F32, *case.w)

    def build(ir: Builder, x: Value, residual: Value) -> Value:
        turned = ir.transpose(residual, (0, 1, 3, 2))
        return ir.add(_convolve(ir, case, x, ir.constant(w), False), turned)

    native = Native(make([TensorType(F32, case.x), "f32[N, 32, 48, 32]"], build))
    for count in (1, 2):
        native.check(_whole(F32, count, 3, 32, 48), _whole(F32, count, 32, 48, 32, seed=1))


LINES = PlaneAxis(Size.symbol("H"), Size.symbol("H"), Size.symbol("W"), 1, 1, 1, 3)
COLUMNS = PlaneAxis(Size.symbol("W"), Size.symbol("W"), 1, 1, 1, 1, 3)


@pytest.mark.parametrize(
    ("height", "width", "counts"),
    [(28, 14, (28, 14)), (100, 28, (25, 28)), (100, 200, (4, 200)), (9, 300, (5, 150)), (1, 1, (1, 1)), (0, 5, (1, 5))],
)
def test_a_unit_has_as_many_short_lines_as_there_is_room_for(height: int, width: int, counts: tuple[int, int]) -> None:
    most = PlaneWindow((LINES, replace(COLUMNS, count=256)), 16, 16)
    axes = window_at_call(most).axes
    assert tuple(evaluate(axis.count, {"H": height, "W": width}) for axis in axes) == counts


def test_what_a_unit_has_at_a_call_fits_its_memory() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        taps, dilations, steps = (random.integers(1, most + 1, 3).tolist() for most in (5, 3, 3))
        axes = [
            PlaneAxis(Size.symbol(name), 0, 1, 0, step, dilation, count)
            for name, step, dilation, count in zip("DHW", steps, dilations, taps, strict=True)
        ]
        last = replace(axes[2], count=int(random.choice([64, 128, 256])))
        most = PlaneWindow((*axes[:2], last), int(random.integers(1, 200)), 16)
        window = window_at_call(most)
        for sizes in ({"D": 3, "H": 5, "W": 4}, {"D": 1, "H": 90, "W": 2}, {"D": 2, "H": 60, "W": 257}):
            assert evaluate(window.channel_step, sizes) <= channel_room(most), (most, sizes)
            assert evaluate(window.sums(128), sizes) <= MOST_SUMS, (most, sizes)


@pytest.mark.parametrize("case", [FORMS[0], FORMS[4], FORMS[9], FORMS[16]], ids=str)
def test_planes_of_f64(case: Convolution) -> None:
    w = _whole(F64, *case.w, seed=1)
    native = Native(make([TensorType(F64, case.x)], lambda ir, x: _convolve(ir, case, x, ir.constant(w), False)))
    assert native.plan.kernels[0].scheduled(ConvolutionSchedule).algorithm == "planes"
    for count in (0, 1, 2):
        native.check(_whole(F64, *sizes_of(case.x, {"N": count})))


@pytest.mark.parametrize("last", [False, True])
def test_what_is_not_finite_stays_where_its_windows_are(last: bool) -> None:
    case = FORMS[0]
    w = sample(F32, *case.w)
    native = Native(
        make([TensorType(F32, case.shape(last))], lambda ir, x: _convolve(ir, case, x, ir.constant(w), last))
    )
    x = sample(F32, 1, 3, 9, 9)
    x[0, 1, 0, 8], x[0, 2, 4, 4], x[0, 0, 8, 0] = np.nan, np.inf, -np.inf
    native.check(np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x, bound=2e-6)


def test_windows_that_are_too_much_for_the_stack_have_a_kernel() -> None:
    case = Convolution("general", (N, 2000, 4, 5), (1, 2000, 3, 3), TWOS, ONES, ONES, ONES)
    w = _whole(F32, *case.w)
    native = Native(make([TensorType(F32, case.x)], lambda ir, x: _convolve(ir, case, x, ir.constant(w), False)))
    assert native.plan.kernels[0].scheduled(ConvolutionSchedule).algorithm == "general"
    native.check(_whole(F32, 1, 2000, 4, 5))


def test_a_view_with_neither_axis_dense_is_written_first() -> None:
    case = FORMS[0]

    def build(ir: Builder, x: Value) -> Value:
        odd = ir.slice(x, (0, 0, 0, 0), (N, 3, 9, 9), (1, 1, 1, 2))
        return _convolve(ir, case, odd, ir.constant(_whole(F32, *case.w)), False)

    native = Native(make(["f32[N, 3, 9, 18]"], build))
    assert native.kernels() == ["pointwise", "convolution"]
    native.check(_whole(F32, 2, 3, 9, 18))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize(
    "case",
    [
        FORMS[0],
        *FORMS[2:4],
        FORMS[5],
        *FORMS[7:9],
        FORMS[11],
        FORMS[14],
        *FORMS[16:21],
        FORMS[24],
        FORMS[29],
        FORMS[33],
    ],
    ids=str,
)
def test_filters_that_are_an_input_are_packed_on_the_way(case: Convolution, target: Target) -> None:
    native = Native(make([TensorType(F32, case.x), TensorType(F32, case.w)], lambda ir, x, w: (
        _convolve(ir, case, x, w, False)
    )), target)  # fmt: skip
    assert native.plan.kernels[0].scheduled(ConvolutionSchedule).algorithm == "planes"
    symbols = {name for dim in case.x for name in symbols_of(dim)}
    for values in SIZES if len(symbols) > 1 else SIZES[:3]:
        native.check(_whole(F32, *sizes_of(case.x, values)), _whole(F32, *case.w, seed=1))


def test_filters_that_lie_turned_are_packed_where_they_lie() -> None:
    case = Convolution("planes", (N, 6, 9, 9), (8, 3, 2, 3), ONES, ONES, ONES, ONES, 2)

    def build(ir: Builder, x: Value, w: Value) -> Value:
        return _convolve(ir, case, x, ir.reverse(ir.transpose(w, (0, 1, 3, 2)), 3), False)

    native = Native(make([TensorType(F32, case.x), "f32[8, 3, 3, 2]"], build))
    assert native.kernels() == ["convolution"]
    native.check(_whole(F32, 2, 6, 9, 9), _whole(F32, 8, 3, 3, 2, seed=1))


def test_filters_of_an_input_that_are_too_many_for_the_stack_have_a_kernel() -> None:
    case = Convolution("general", (N, 300, 4, 5), (16, 300, 3, 3), ONES, ONES, ONES, ONES)
    native = Native(make([TensorType(F32, case.x), TensorType(F32, case.w)], lambda ir, x, w: (
        _convolve(ir, case, x, w, False)
    )))  # fmt: skip
    assert native.plan.kernels[0].scheduled(ConvolutionSchedule).algorithm == "general"
    native.check(_whole(F32, 1, 300, 4, 5), _whole(F32, *case.w, seed=1))
