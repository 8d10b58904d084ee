"""Convolutions by every algorithm: padding, strides, dilations, groups, any number of axes, sizes known at the call."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.convolutions.window_addresses import even_chunks
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import WRITTEN_STEPS
from onnxc.compiler.codegen_cpu.inner_loops.pointer_kernels import PointerKernel
from onnxc.compiler.codegen_cpu.kernels import emit_kernel
from onnxc.compiler.codegen_cpu.schedules.convolutions import SHALLOW_DEPTH
from onnxc.compiler.codegen_cpu.schedules.products import split_vectors
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I8, I32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.target import Target, parse_target
from tests.codegen_cpu.support import EVERY_TARGET, HOST, Native, make, sample
from tests.support.window_forms import NONE, ONES, TWOS, Convolution, H, N, W, sizes_of

# More channels and lines than a unit of the depthwise kernel has, neither a whole number of times.
SEVERAL_UNITS = Convolution("depthwise", (N, 301, 11, 14), (301, 1, 3, 3), ONES, ONES, ONES, ONES, 301)

CONVOLUTIONS = [
    Convolution("rows", (N, 3, 9, 9), (8, 3, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("rows", (N, 3, 9, 9), (8, 3, 3, 3), TWOS, ONES, ONES, ONES),
    Convolution("rows", (N, 3, 23, 30), (70, 3, 7, 7), TWOS, (3, 3), (3, 3), ONES),
    Convolution("rows", (N, 64, 7, 7), (70, 64, 1, 1), ONES, NONE, NONE, ONES),
    Convolution("winograd", (N, 40, 14, 14), (33, 40, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("rows", (N, 64, 14, 14), (33, 64, 1, 1), TWOS, NONE, NONE, ONES),
    Convolution("rows", (N, 8, 12, 12), (9, 8, 2, 3), (1, 2), (0, 1), (1, 0), (2, 1)),
    Convolution("depthwise", (N, 16, 15, 15), (16, 4, 3, 3), ONES, ONES, ONES, ONES, 4),
    Convolution("rows", (N, 16, 40), (8, 16, 3), (1,), (1,), (1,), (2,)),
    Convolution("rows", (N, 600, 3, 3), (40, 600, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("rows", (N, 4, 3, 3), (6, 4, 3, 3), ONES, NONE, NONE, ONES),
    Convolution("rows", (N, 4, H, W), (8, 4, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("rows", (N, 4, H, W), (8, 4, 3, 3), (2, 1), ONES, ONES, ONES),
    Convolution("rows", (N, 4, H, W), (8, 4, 1, 1), ONES, NONE, NONE, ONES),
    Convolution("depthwise", (N, 16, 14, 14), (16, 1, 3, 3), ONES, ONES, ONES, ONES, 16),
    Convolution("depthwise", (N, 16, 15, 15), (32, 1, 3, 3), TWOS, (0, 1), ONES, ONES, 16),
    Convolution("depthwise", (N, 16, 15, 15), (16, 1, 5, 5), ONES, TWOS, TWOS, (2, 1), 16),
    Convolution("depthwise", (N, 16, 40), (16, 1, 3), (3,), (1,), (1,), (2,), 16),
    Convolution("depthwise", (N, 8, H, W), (8, 1, 3, 3), (2, 1), ONES, ONES, ONES, 8),
    Convolution("depthwise", (N, 8, H, W), (8, 1, 3, 3), TWOS, ONES, ONES, ONES, 8),
    Convolution("rows", (N, 4, 5, 6, 7), (8, 4, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    Convolution("rows", (N, 4, 5, 6), (8, 4, 3, 3), ONES, ONES, ONES, ONES, 1, TWOS),
    Convolution("general", (N, 4, 5, 6), (8, 4, 3, 3), TWOS, ONES, ONES, ONES, 1, (3, 3)),
    Convolution("rows", (N, 4, 5, 6), (8, 4, 3, 3), ONES, ONES, ONES, TWOS, 1, (3, 3)),
    Convolution("rows", (N, 4, 5, 6), (8, 4, 4, 3), ONES, (3, 0), (2, 1), TWOS, 1, TWOS),
    Convolution("rows", (N, 8, H, W), (6, 4, 3, 5), ONES, (4, 6), (5, 7), (4, 3), 2, (6, 2)),
    Convolution("rows", (N, 16, 6, 5), (6, 16, 3, 3), ONES, NONE, NONE, TWOS, 1, TWOS),
    Convolution("rows", (N, 8, H, W), (6, 8, 1, 3), ONES, (0, 3), (0, 3), (1, 3), 1, (3, 3)),
    Convolution("depthwise", (N, 4, 5, 6, 7), (4, 1, 2, 2, 2), (2, 1, 2), (0, 1, 0), (1, 0, 1), (1, 2, 1), 4),
    Convolution("winograd", (N, 33, H, W), (70, 33, 3, 3), ONES, (2, 0), (1, 3), ONES),
    Convolution("winograd", (N, 80, 9, 16), (32, 80, 3, 3), ONES, NONE, ONES, ONES),
    Convolution("winograd", (N, 33, 5, 9, 12), (40, 33, 1, 3, 3), (1, 1, 1), (0, 1, 0), (0, 1, 2), (1, 1, 1)),
    Convolution("winograd", (N, 33, 2, H, W), (40, 33, 1, 3, 3), (1, 1, 1), (0, 1, 1), (0, 1, 1), (1, 1, 1)),
    Convolution("rows", (N, 33, 2, 10, 11), (40, 33, 1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1), (1, 1, 1)),
    Convolution("rows", (N, 33, 4, 10, 11), (40, 33, 1, 3, 3), (2, 1, 1), (0, 1, 1), (0, 1, 1), (1, 1, 1)),
    Convolution("rows", (N, 33, 4, 10, 11), (40, 33, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    Convolution("rows", (N, 16, 9, 7), (20, 16, 4, 4), ONES, (2, 2), (2, 2), ONES, 1, TWOS),
    Convolution("rows", (N, 16, H, W), (20, 8, 2, 3), ONES, (1, 2), (1, 3), ONES, 2, (3, 2)),
    Convolution("depthwise", (N, 8, H, W), (8, 1, 2, 2), ONES, ONES, ONES, ONES, 8, TWOS),
    Convolution("depthwise", (N, 5, H, W), (10, 1, 4, 3), ONES, (3, 2), (2, 2), ONES, 5, (2, 3)),
    Convolution("depthwise", (N, 17, 6, 23), (17, 1, 3, 4), ONES, (1, 5), (3, 4), (2, 2), 17, (3, 2)),
    Convolution("depthwise", (N, 4, 7), (4, 1, 5), (1,), (0,), (1,), (3,), 4, (6,)),
    Convolution(
        "depthwise", (N, 4, 5, 6, 7), (4, 1, 2, 3, 2), (1, 1, 2), (0, 1, 0), (1, 2, 1), (1, 2, 1), 4, (3, 2, 1)
    ),
    Convolution("rows", (N, 8, 9), (8, 1, 9), (1,), (4,), (4,), (1,), 8, (2,)),
    Convolution("rows", (N, 8, 11), (6, 8, 16), (1,), (11,), (12,), (1,), 1, (8,)),
    Convolution("rows", (N, 4, 3, 5, 2), (6, 4, 2, 2, 2), (1, 2, 1), (1, 0, 1), (1, 0, 1), (1, 2, 1), 1, (2, 1, 2)),
    Convolution("depthwise", (N, 44, 9, W), (44, 4, 3, 3), TWOS, ONES, ONES, ONES, 11),
    Convolution("depthwise", (N, 22, H, W), (22, 2, 2, 4), ONES, (0, 1), (1, 3), ONES, 11, (1, 2)),
    Convolution("rows", (N, 16, 15, 15), (32, 4, 3, 3), ONES, ONES, ONES, ONES, 4),
    Convolution("rows", (N, 3, 9, 9), (0, 3, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("rows", (N, 3, 5, 0), (8, 3, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("rows", (N, 3, 0), (8, 3, 3), (1,), (1,), (1,), (1,)),
    SEVERAL_UNITS,
    Convolution("depthwise", (N, 20, 19, 33), (20, 1, 3, 5), ONES, (0, 2), (2, 2), ONES, 20),
    Convolution("depthwise", (N, 20, 9, 43), (20, 1, 3, 3), ONES, (9, 20), (9, 20), (9, 20), 20),
    Convolution("depthwise", (N, 33, 3, 71), (33, 1, 1, 7), (1, 3), (0, 7), (0, 1), (1, 2), 33),
    Convolution("depthwise", (N, 3, 11, W), (48, 1, 3, 3), ONES, ONES, ONES, ONES, 3),
    Convolution("depthwise", (N, 5, H, W), (160, 1, 4, 3), TWOS, (3, 2), (2, 2), (1, 2), 5),
    Convolution("depthwise", (N, 20, 4, 23), (320, 1, 3, 4), ONES, (1, 5), (3, 4), (2, 2), 20, (3, 2)),
    Convolution("depthwise", (N, 18, 7, 5), (18, 1, 5, 5), ONES, TWOS, TWOS, ONES, 18),
    Convolution("depthwise", (N, 18, 100), (18, 1, 15), (1,), (7,), (7,), (1,), 18),
    Convolution("rows", (N, 40, 7, 7), (70, 40, 1, 1), ONES, NONE, NONE, ONES),
    Convolution("rows", (N, 600, 3, 3), (72, 600, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("rows", (N, 20, H, 5), (166, 10, 2, 3), ONES, ONES, ONES, ONES, 2),
    Convolution("rows", (N, 1, 900), (70, 1, 60), (13,), (0,), (0,), (1,)),
    Convolution("rows", (N, 1, 5, 6), (20, 1, 4, 4), ONES, TWOS, TWOS, ONES, 1, TWOS),
    Convolution("rows", (N, 1, H, W), (9, 1, 3, 2), ONES, TWOS, (2, 1), (2, 1), 1, (2, 3)),
    Convolution("rows", (N, 1, 11), (6, 1, 16), (1,), (11,), (12,), (1,), 1, (8,)),
]
LAST, COUNT = channels_innermost(2), Size.symbol("N")
PLACES = [{"N": 0, "H": 5, "W": 6}, {"N": 1, "H": 15, "W": 16}, {"N": 2, "H": 1, "W": 1}, {"N": 3, "H": 7, "W": 35}]


def _whole(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers: every order of summation gives the same."""
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype.numpy)


# The largest filters make the most code, which takes LLVM long where masks are not registers.
ON_EVERY_TARGET = [
    (case, target) for case in CONVOLUTIONS for target in EVERY_TARGET if target == HOST or 7 not in case.w
]


@pytest.mark.parametrize(("case", "target"), ON_EVERY_TARGET, ids=str)
def test_convolutions_with_a_bias_a_residual_and_relu(case: Convolution, target: Target) -> None:
    w, bias = _whole(F32, *case.w, seed=1), _whole(F32, case.w[0], seed=2)
    shape = case.shape(last=True)
    given = [Builder().parameter("x", TensorType(F32, dims)) for dims in (shape, case.w)]
    made = case.build(Builder(), *given, last=True)

    def build(ir: Builder, x: Value, residual: Value) -> list[Value]:
        y = case.build(ir, x, ir.constant(w), last=True)
        return [ir.max(ir.add(ir.add(y, ir.constant(bias)), residual), 0.0)]

    native = Native(make([TensorType(F32, shape), TensorType(F32, made.shape)], build), target)
    if 0 not in case.w:
        # Few pixels may have a kernel of their own, before that of all others.
        assert native.plan.kernels[-1].scheduled(ConvolutionSchedule).algorithm == case.algorithm
    symbols = {name for dim in case.x for name in symbols_of(dim)}
    for values in PLACES if len(symbols) > 1 else PLACES[:3]:
        native.check(_whole(F32, *sizes_of(shape, values)), _whole(F32, *sizes_of(made.shape, values), seed=3))


@pytest.mark.parametrize(("filters", "target", "group"), [(70, "cpu:x86-64-v4", 12), (22, "cpu:x86-64-v3", 40)])
@pytest.mark.parametrize(("channels", "side"), [(32, 1), (33, 1), (9, 3), (48, 5)])
def test_deep_sums_are_finished_by_groups_of_pixels(
    channels: int, side: int, filters: int, target: str, group: int
) -> None:
    """Shallow ones are by the chunk; those of more than 1024 products are summed in two blocks."""
    pads = (side // 2, side // 2)
    case = Convolution("rows", (1, channels, H, W), (filters, channels, side, side), ONES, pads, pads, ONES)
    w = _whole(F32, *case.w, seed=1)

    def build(ir: Builder, x: Value, residual: Value) -> Value:
        return ir.add(case.build(ir, x, ir.constant(w), last=True), residual)

    types = [TensorType(F32, case.shape(last=True)), TensorType(F32, (1, H, W, filters))]
    native = Native(make(types, build), parse_target(target))
    schedule = native.plan.kernels[-1].scheduled(ConvolutionSchedule)
    is_deep = channels * side * side > SHALLOW_DEPTH
    assert (schedule.algorithm, schedule.group) == ("rows", group if is_deep else schedule.tile.rows)
    for height, columns in [(0, 5), (1, 1), (1, 7), (3, 4), (1, 13), (5, 5), (8, 12), (7, 31)]:
        residual = _whole(F32, 1, height, columns, filters, seed=2)
        native.check(_whole(F32, 1, height, columns, channels), residual)


DEPTHWISE = [case for case in CONVOLUTIONS if case.algorithm == "depthwise"]


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("case", DEPTHWISE, ids=str)
def test_what_takes_long_behind_the_sums_of_a_tile_is_written_once(case: Convolution, target: Target) -> None:
    w, shape = _whole(F32, *case.w, seed=1), case.shape(last=True)

    def build(ir: Builder, x: Value) -> Value:
        y = case.build(ir, x, ir.constant(w), last=True)
        return ir.mul(ir.sigmoid(y), y)

    native = Native(make([TensorType(F32, shape)], build), target)
    assert native.plan.kernels[-1].scheduled(ConvolutionSchedule).finishes_in_turn
    for values in PLACES:
        native.check(_whole(F32, *sizes_of(shape, values)), bound=1e-6)


@pytest.mark.parametrize("case", CONVOLUTIONS[:3] + CONVOLUTIONS[14:16] + CONVOLUTIONS[20:21], ids=str)
def test_convolutions_alone(case: Convolution) -> None:
    w = _whole(F32, *case.w, seed=1)
    shape = case.shape(last=True)
    native = Native(make([TensorType(F32, shape)], lambda ir, x: case.build(ir, x, ir.constant(w), last=True)))
    for count in (0, 1, 2):
        native.check(_whole(F32, *sizes_of(shape, {"N": count})))


@pytest.mark.parametrize("dtype", [F64, F16, BF16, I32, I8], ids=str)
def test_element_types(dtype: DType) -> None:
    for case in (CONVOLUTIONS[1], CONVOLUTIONS[14], CONVOLUTIONS[20], SEVERAL_UNITS):
        w = _whole(dtype, *case.w, seed=1)
        shape = case.shape(last=True)
        native = Native(
            make([TensorType(dtype, shape)], lambda ir, x, w=w, c=case: c.build(ir, x, ir.constant(w), last=True))
        )
        for count in (0, 1, 2):
            native.check(_whole(dtype, *sizes_of(shape, {"N": count})))


@pytest.mark.parametrize(("filters", "is_constant", "pixels"), [(3, True, 48), (10, True, 96), (3, False, 96)])
@pytest.mark.parametrize(("target", "width"), [("cpu:x86-64-v4", 64), ("cpu:x86-64-v3", 16)])
def test_threads_share_few_panels_by_their_pixels(
    filters: int, is_constant: bool, pixels: int, target: str, width: int
) -> None:
    filters *= width
    case = Convolution("rows", (N, 40, 7, 7), (filters, 40, 1, 1), ONES, NONE, NONE, ONES)
    types, w = [TensorType(F32, dims) for dims in (case.shape(last=True), case.w)], _whole(F32, *case.w)
    if is_constant:
        function = make(types[:1], lambda ir, x: case.build(ir, x, ir.constant(w), last=True))
    else:
        function = make(types, lambda ir, x, w: case.build(ir, x, w, last=True))
    schedule = Native(function, parse_target(target)).plan.kernels[-1].scheduled(ConvolutionSchedule)
    assert (schedule.tile.rows, schedule.tile.columns) == (pixels, width)


@pytest.mark.parametrize(
    ("count", "least", "expected"),
    [
        (0, 2, (0, 1)), (1, 2, (1, 6)), (23, 2, (1, 24)), (24, 2, (2, 12)), (64, 2, (2, 36)), (96, 2, (2, 48)),
        (96, 1, (1, 96)), (97, 1, (2, 54)), (200, 2, (3, 72)),
    ],
)  # fmt: skip
def test_chunks_are_even_and_as_many_as_asked_for_where_each_has_two_steps(
    count: int, least: int, expected: tuple[int, int]
) -> None:
    assert even_chunks(count, 96, 6, least) == expected


@pytest.mark.parametrize(("filters", "groups", "units"), [(64, 1, 2), (65, 1, 2), (160, 1, 3), (32, 2, 2)])
def test_two_threads_share_the_pixels_of_one_panel(filters: int, groups: int, units: int) -> None:
    """All 36 pixels are one chunk where there are other units."""
    case = Convolution("rows", (1, 64, 6, 6), (filters, 64 // groups, 3, 3), ONES, ONES, ONES, ONES, groups)
    w, shape = _whole(F32, *case.w), TensorType(F32, case.shape(last=True))
    target = parse_target("cpu:x86-64-v4")
    native = Native(make([shape], lambda ir, x: case.build(ir, x, ir.constant(w), last=True)), target)
    kernel = native.plan.kernels[-1]
    assert kernel.scheduled(ConvolutionSchedule).algorithm == "rows"
    assert emit_kernel(kernel, "k", target).units == units


def test_filters_may_be_inputs() -> None:
    native = Native(make(["f32[N, H, W, 4]", "f32[M, 4, 3, 3]"], lambda ir, x, w: (
        ir.convolution(x, w, ONES, ONES, ONES, ONES, dimensions=LAST)
    )))  # fmt: skip
    assert native.plan.kernels[0].scheduled(ConvolutionSchedule).algorithm == "rows"
    for shape, filters in [((1, 7, 9, 4), 5), ((2, 1, 1, 4), 1), ((1, 5, 20, 4), 70), ((1, 5, 20, 4), 0)]:
        native.check(_whole(F32, *shape), _whole(F32, filters, 4, 3, 3, seed=1))


def test_padding_may_be_sizes() -> None:
    native = Native(make(["f32[N, H, W, 4]", "bool[P]"], lambda ir, x, p: ir.convolution(
        x, ir.constant(_whole(F32, 6, 4, 3, 3, seed=1)), ONES, (Size.symbol("P"), 0), (1, Size.symbol("P")), ONES,
        dimensions=LAST,
    )))  # fmt: skip
    for shape, padding in [((1, 7, 9, 4), 2), ((2, 3, 3, 4), 0), ((1, 3, 20, 4), 5)]:
        native.check(_whole(F32, *shape), np.zeros(padding, np.bool_))


def test_nan_stays_where_its_windows_are() -> None:
    case = CONVOLUTIONS[4]
    w = sample(F32, *case.w)
    native = Native(
        make([TensorType(F32, case.shape(last=True))], lambda ir, x: case.build(ir, x, ir.constant(w), last=True))
    )
    x = sample(F32, 1, 14, 14, 40)
    x[0, 4, 5, 3], x[0, 13, 13, 4] = np.nan, np.inf
    native.check(x, bound=2e-6)


@pytest.mark.parametrize("frames", [0, 1, 5])
def test_frames_that_only_a_call_knows_are_transformed_each_by_itself(frames: int) -> None:
    w = sample(F32, 32, 40, 1, 3, 3)
    native = Native(make(["f32[N, T, 10, 12, 40]"], lambda ir, x: ir.convolution(
        x, ir.constant(w), (1, 1, 1), (0, 1, 1), (0, 1, 1), (1, 1, 1), dimensions=channels_innermost(3)
    )))  # fmt: skip
    assert native.plan.kernels[0].scheduled(ConvolutionSchedule).algorithm == "winograd"
    x = sample(F32, 2, frames, 10, 12, 40)
    x[:, 1:2, 3, 3, 7], x[:, 2:3, 9, 11, 2] = np.nan, np.inf
    native.check(x, bound=2e-6)


def test_what_is_finite_stays_so_where_differences_of_elements_are_not() -> None:
    w = np.zeros((32, 32, 3, 3), np.float32)
    w[:, 5, 0, 0], w[:, 5, 0, 2] = 0.25, 0.5
    native = Native(make(["f32[N, 10, 10, 32]"], lambda ir, x: (
        ir.convolution(x, ir.constant(w), ONES, ONES, ONES, ONES, dimensions=LAST)
    )))  # fmt: skip
    assert native.plan.kernels[0].scheduled(ConvolutionSchedule).algorithm == "winograd"
    x = _whole(F32, 1, 10, 10, 32)
    x[0, 2, 1, 5], x[0, 2, 3, 5], x[0, 4, 4, 7] = 3e38, -3e38, 1.0
    native.check(x, bound=1e-6)


def test_maps_of_few_pixels_are_not_transformed_where_a_call_has_them() -> None:
    w = _whole(F32, 32, 40, 3, 3, seed=1)
    native = Native(make(["f32[N, H, W, 40]"], lambda ir, x: (
        ir.convolution(x, ir.constant(w), ONES, ONES, ONES, ONES, dimensions=LAST)
    )))  # fmt: skip
    algorithms = [kernel.scheduled(ConvolutionSchedule).algorithm for kernel in native.plan.kernels]
    assert (algorithms, len(native.plan.weights)) == (["rows", "winograd"], 1)
    for shape in [(3, 1, 1, 40), (1, 9, 11, 40), (1, 10, 10, 40), (0, 20, 20, 40), (1, 0, 20, 40)]:
        native.check(_whole(F32, *shape))


@pytest.mark.parametrize("dimensions", ["nc01,oi01->nc01", "nc01,oi01->n01c", "nc10,oi01->nc01", "nc01,oi10->nc01"])
@pytest.mark.parametrize("groups", [1, 2])
def test_axes_in_any_order_have_a_kernel(dimensions: str, groups: int) -> None:
    def build(ir: Builder, x: Value) -> Value:
        w = ir.constant(_whole(F32, 4, 4 // groups, 3, 3))
        return ir.convolution(x, w, ONES, ONES, NONE, ONES, groups, dimensions=dimensions)

    native = Native(make(["f32[N, 4, 5, 4]"], build))
    assert native.kernels() == ["convolution"]
    native.check(_whole(F32, 2, 4, 5, 4))


VIEWS: dict[str, tuple[Callable[[Builder, Value], Value], bool]] = {
    "channels first": (lambda ir, x: ir.transpose(x, (0, 2, 3, 1)), False),
    "some channels": (lambda ir, x: ir.slice(x, (0, 0, 0, 1), (COUNT, 8, 6, 4), (1, 1, 1, 1)), True),
    "every other row": (lambda ir, x: ir.slice(x, (0, 1, 0, 0), (COUNT, 4, 6, 8), (1, 2, 1, 1)), True),
    "every other channel": (lambda ir, x: ir.slice(x, (0, 0, 0, 0), (COUNT, 8, 6, 4), (1, 1, 1, 2)), False),
    "one row repeated": (
        lambda ir, x: ir.broadcast(
            ir.slice(x, (0, 2, 0, 0), (COUNT, 1, 6, 8), (1, 1, 1, 1)), (0, 1, 2, 3), (COUNT, 8, 6, 8)
        ),
        True,
    ),
}


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_views_are_read_or_written_for_the_fast_kernels(view: str, groups: int) -> None:
    move, is_read = VIEWS[view]

    def build(ir: Builder, x: Value) -> Value:
        moved = move(ir, x)
        channels = moved.shape[-1]
        assert isinstance(channels, int)
        w = ir.constant(_whole(F32, 8, channels // groups, 3, 3))
        return ir.convolution(moved, w, ONES, ONES, ONES, ONES, groups, dimensions=LAST)

    native = Native(make(["f32[N, 8, 6, 8]"], build))
    schedules = [kernel.schedule for kernel in native.plan.kernels]
    assert [each.algorithm for each in schedules if isinstance(each, ConvolutionSchedule)] != ["general"]
    assert len(schedules) == (1 if is_read else 2)
    for count in (0, 1, 2):
        native.check(_whole(F32, count, 8, 6, 8))


@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("is_constant", [True, False])
def test_filters_of_one_number(is_constant: bool, groups: int) -> None:
    def build(ir: Builder, x: Value, *scalar: Value) -> Value:
        number = ir.scalar(0.25, F32) if is_constant else scalar[0]
        w = ir.broadcast(number, (), (16, 16 // groups, 3, 3))
        ones, order = (1, 1), channels_innermost(2)
        # The epilogue uses the same number.
        return ir.add(ir.convolution(x, w, ones, ones, ones, ones, groups, dimensions=order), number)

    types = ["f32[2, 9, 9, 16]"] if is_constant else ["f32[2, 9, 9, 16]", "f32[]"]
    arrays = [sample(F32, 2, 9, 9, 16), *([] if is_constant else [sample(F32)])]
    Native(make(types, build), HOST).check(*arrays, bound=2e-5)


@pytest.mark.parametrize(
    ("filters", "vectors"), [(402, 4), (258, 4), (80, 4), (112, 4), (144, 3), (48, 3), (40, 3), (18, 2), (1, 1), (N, 4)]
)
def test_a_last_panel_takes_the_vectors_that_it_has(filters: Dim, vectors: int) -> None:
    assert split_vectors(filters, 16, parse_target("cpu:x86-64-v4")) == vectors


@pytest.mark.parametrize(("target", "steps_of_line"), [("cpu:x86-64-v4", 1), ("cpu:x86-64-v3", 2)])
def test_each_line_of_the_panel_that_is_read_next_is_asked_for_once(target: str, steps_of_line: int) -> None:
    text = PointerKernel("float", 6, 2).write(parse_target(target)).text()
    # The last one is for a step that is left over.
    assert text.count("call void @llvm.prefetch.p0(") == WRITTEN_STEPS // steps_of_line + 1
    # For reading, into the second-level cache, as data.
    assert "i32 0, i32 3, i32 1)" not in text
    assert "i32 0, i32 2, i32 1)" in text
