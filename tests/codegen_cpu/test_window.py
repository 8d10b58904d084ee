"""Windows: pools and sums of every form, the places of maxima, sizes known at the call."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import WindowSchedule
from onnxc.compiler.target import Target, parse_target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, odd_values, precision, sample
from tests.support.window_forms import H, N, W, Windows, sizes_of


def _image(x: tuple[Dim, ...], window: int, stride: int, padding: int, dilation: int = 1) -> Windows:
    """The same along the two last of four axes."""
    ones, pair = (1, 1), (padding,) * 2
    return Windows(
        x, (*ones, window, window), (*ones, stride, stride), (0, 0, *pair), (0, 0, *pair), (*ones, dilation, dilation)
    )


WINDOWS = [
    _image((N, 3, 30, 37), 3, 2, 1),
    _image((N, 3, 30, 37), 2, 2, 0),
    _image((N, 3, 35, 35), 3, 1, 1),
    _image((N, 3, H, W), 3, 2, 1),
    _image((N, 3, H, W), 2, 2, 0),
    _image((N, 3, 7, 7), 7, 1, 0),
    _image((N, 3, 40, 40), 3, 3, 1, 2),
    _image((N, 2, 40, 90), 3, 5, 2),
    _image((N, 2, 33, 70), 7, 4, 3),
    _image((N, 3, 16, 30), 7, 7, 3),
    _image((N, 2, 30, 25), 4, 6, 1, 2),
    Windows((N, 3, 5, 40), (1, 1, 5, 20), (1, 1, 1, 1), (0, 0, 2, 0), (0, 0, 2, 0), (1, 1, 1, 2)),
    Windows((N, 3, 70), (1, 1, 20), (1, 1, 1), (0, 0, 10), (0, 0, 10), (1, 1, 2)),
    Windows((N, 3, 70), (1, 1, 3), (1, 1, 5), (0, 0, 1), (0, 0, 1), (1, 1, 2)),
    Windows((N, 3, 9, 8, 17), (1, 1, 2, 3, 2), (1, 1, 2, 1, 1), (0, 0, 0, 1, 1), (0, 0, 0, 1, 1), (1,) * 5),
    Windows((N, 30, 20, 3), (1, 3, 3, 1), (1, 2, 2, 1), (0, 1, 1, 0), (0, 1, 1, 0), (1, 1, 1, 1)),
    Windows((N, 30, 20, 33), (1, 3, 8, 1), (1, 2, 2, 1), (0, 1, 1, 0), (0, 1, 9, 0), (1, 2, 1, 1)),
    Windows((N, 6, 5, 213), (1, 3, 3, 1), (1, 1, 1, 1), (0, 1, 1, 0), (0, 1, 1, 0), (1, 1, 1, 1)),
    Windows((N, H, 6, W), (1, 5, 2, 1), (1, 1, 2, 1), (0, 2, 1, 0), (0, 2, 0, 0), (1, 1, 1, 1)),
    Windows((N, 3, 4, 25), (1, 1, 1, 40), (1, 1, 1, 1), (0, 0, 0, 8), (0, 0, 0, 7), (1, 1, 1, 1)),
    Windows((N,), (3,), (4,), (1,), (5,), (1,)),
    Windows((N, 2), (1, 2), (1, 2), (0, 0), (0, 0), (1, 1)),
    Windows((N, 2, H, W), (1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1)),
    Windows((N, 2, H, W), (1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 0, 1), (0, 0, 0, 2), (1, 1, 1, 1)),
    Windows((N, 2, 5, 150), (1, 1, 3, 1), (1, 1, 1, 1), (0, 0, 1, 2), (0, 0, 1, 0), (1, 1, 1, 1)),
    Windows((N, 2, H, W), (1, 1, 2, 2), (1, 1, 1, 1), (0, 0, H, 1), (0, 0, 0, W), (1, 1, 1, 1)),
    _image((N, 1, 9, 1100), 7, 7, 3),
    _image((N, 2, H, W), 7, 1, 3),
    _image((N, 2, H, W), 6, 2, 5, 2),
    Windows((N, 2, 9, 30), (1, 1, 3, 20), (1, 1, 1, 6), (0, 0, 1, 9), (0, 0, 1, 9), (1, 1, 1, 1)),
    Windows((N, 2, 9, 28), (1, 1, 3, 28), (1, 1, 1, 1), (0, 0, 1, 0), (0, 0, 1, 0), (1, 1, 1, 1)),
    Windows((N, 2, 15, 60), (1, 1, 7, 20), (1, 1, 7, 20), (0, 0, 0, 3), (0, 0, 0, 3), (1, 1, 1, 1)),
    Windows((N, 2, 9, 29), (1, 1, 3, 15), (1, 1, 1, 9), (0, 0, 1, 0), (0, 0, 1, 0), (1, 1, 1, 2)),
]
PLACES = [{"N": 0, "H": 5, "W": 6}, {"N": 1, "H": 15, "W": 36}, {"N": 3, "H": 2, "W": 2}, {"N": 2, "H": 7, "W": 67}]


def _numbers(dtype: DType, *shape: int) -> np.ndarray:
    """Random elements, in places NaN and infinities of one sign, or the ends of the type."""
    x = sample(dtype, *shape)
    odd = np.array([np.nan, np.inf], dtype.numpy) if dtype.is_float else odd_values(dtype)
    x.flat[::23] = np.resize(odd, x[..., :].reshape(-1)[::23].shape)
    return x


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_folds_and_places(case: Windows, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        folds = [case.build(ir, x, kind) for kind in ("sum", "max", "min")]
        # Places are those within an image, which has a batch and channels.
        return folds if len(case.x) < 2 else [*folds, case.build(ir, x, "max", arg=True)]

    native = Native(make([TensorType(F32, case.x)], build), target)
    assert set(native.kernels()) == {"window"}
    for values in PLACES:
        native.check(_numbers(F32, *sizes_of(case.x, values)), bound=1e-6)


@pytest.mark.parametrize("dtype", [F64, F16, BF16, I64, I32, I8, U8, BOOL], ids=str)
def test_element_types(dtype: DType) -> None:
    cases = [WINDOWS[index] for index in (0, 4, 5, 9, 11, 12, 13, 24, 26, 27)]

    def build(ir: Builder, *operands: Value) -> list[Value]:
        folds = [case.build(ir, x, k) for case, x in zip(cases, operands, strict=True) for k in ("sum", "max", "min")]
        return [*folds, *(case.build(ir, x, "max", arg=True) for case, x in zip(cases, operands, strict=True))]

    native = Native(make([TensorType(dtype, case.x) for case in cases], build))
    for values in PLACES:
        native.check(*(_numbers(dtype, *sizes_of(case.x, values)) for case in cases), bound=2 * precision(dtype))


@pytest.mark.parametrize(
    ("window", "algorithm"), [((3, 3), "lines"), ((2, 2), "lines"), ((1, 7), "bands"), ((7, 1), "bands")]
)
def test_windows_of_several_lines_are_folded_by_lines(window: tuple[int, int], algorithm: str) -> None:
    ones, zeros = (1,) * 4, (0,) * 4
    case = Windows((N, 3, 70, 70), (1, 1, *window), ones, zeros, zeros, ones)
    native = Native(make([TensorType(F32, case.x)], lambda ir, x: case.build(ir, x, "max")))
    assert [kernel.schedule.algorithm for kernel in native.plan.kernels] == [algorithm]


@pytest.mark.parametrize(("columns", "algorithm"), [(14, "bands"), (64, "bands"), (65, "lines"), (W, "bands")])
def test_short_rows_go_down_the_band_where_loads_take_masks(columns: Dim, algorithm: str) -> None:
    ones, low = (1,) * 4, (0, 0, 1, 1)
    case = Windows((N, 3, 14, columns), (1, 1, 3, 3), ones, low, low, ones)
    module = make([TensorType(F32, case.x)], lambda ir, x: case.build(ir, x, "max"))
    for level, chosen in (("v4", algorithm), ("v3", "lines")):
        plan = plan_kernels(module, cpu_plan_target(parse_target(f"cpu:x86-64-{level}")))
        assert [kernel.schedule.algorithm for kernel in plan.kernels] == [chosen]


@pytest.mark.parametrize("rows", [2, 31, 32, 33, 70])
@pytest.mark.parametrize("columns", [3, 40, 500])
def test_lines_of_several_rows_wait_together(rows: int, columns: int) -> None:
    """Fewer rows than fit the stack, bands of a row more and less, rows of which two do not fit."""
    case = Windows((N, 1, H, W), (1, 1, 3, 3), (1, 1, 1, 5), (0, 0, 1, 1), (0, 0, 1, 1), (1,) * 4)
    native = Native(make([TensorType(F32, case.x)], lambda ir, x: [case.build(ir, x, "max"), case.build(ir, x, "sum")]))
    native.check(_numbers(F32, 2, 1, rows, columns * 5), bound=1e-6)
    assert {kernel.schedule.algorithm for kernel in native.plan.kernels} == {"lines"}


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 17, 1023, 1025, 2100])
def test_the_padding_beside_rows_of_every_length(columns: int) -> None:
    """Rows shorter than a vector, of whole vectors, and of several strips; the first and last rows meet padding."""
    case = Windows((N, 1, 3, columns), (1, 1, 3, 4), (1, 1, 1, 2), (0, 0, 1, 9), (0, 0, 2, 12), (1,) * 4)

    def build(ir: Builder, x: Value) -> list[Value]:
        return [case.build(ir, x, kind) for kind in ("sum", "max", "min")]

    Native(make([TensorType(F32, case.x)], build)).check(_numbers(F32, 2, 1, 3, columns), bound=1e-6)


@pytest.mark.parametrize(
    ("taps", "step", "dilation", "algorithm"),
    [(3, 1, 400, "lines"), (3, 200, 1, "lines"), (3, 1, 2000, "lines"), (3, 1, 2100, "bands"), (2, 700, 1, "bands")],
)
def test_lines_on_the_stack_are_bounded(taps: int, step: int, dilation: int, algorithm: str) -> None:
    case = Windows((N, 1, 4, 6000), (1, 1, 2, taps), (1, 1, 1, step), (0, 0, 1, 9), (0, 0, 0, 0), (1, 1, 1, dilation))
    native = Native(make([TensorType(F32, case.x)], lambda ir, x: [case.build(ir, x, "max")]))
    native.check(_numbers(F32, 2, 1, 4, 6000), bound=0)
    assert native.plan.kernels[0].scheduled(WindowSchedule).algorithm == algorithm


def test_windows_larger_than_any_memory_take_no_line() -> None:
    """A window of 2 x 2^62 taps, nearly all of them in the padding."""
    ones = (1, 1, 1, 1)
    case = Windows((N, 1, 3, 5), (1, 1, 2, 2**62), ones, (0, 0, 1, 2**61), (0, 0, 1, 2**61), ones)
    native = Native(make([TensorType(F32, case.x)], lambda ir, x: [case.build(ir, x, "max")]))
    assert native.plan.kernels[0].scheduled(WindowSchedule).algorithm == "bands"


def test_windows_of_padding_alone_give_the_fold_of_nothing() -> None:
    case = Windows((N, 1, 3), (1, 1, 2), (1, 1, 2), (0, 0, 4), (0, 0, 5), (1, 1, 1))

    def build(ir: Builder, x: Value) -> list[Value]:
        return [*(case.build(ir, x, kind) for kind in ("sum", "max", "min")), case.build(ir, x, "max", arg=True)]

    for dtype in (F32, I8):
        Native(make([TensorType(dtype, case.x)], build)).check(sample(dtype, 2, 1, 3))


def test_of_equal_maxima_the_first_is_found_and_nan_is_greater() -> None:
    native = Native(make([TensorType(F32, WINDOWS[0].x)], lambda ir, x: WINDOWS[0].build(ir, x, "max", arg=True)))
    x = np.zeros((2, 3, 30, 37), np.float32)
    native.check(x)
    native.check(np.full_like(x, -np.inf))
    x[:, :, ::4, ::3] = np.nan
    native.check(x)


@pytest.mark.parametrize("dimensions", ["n01c", "nc10"])
def test_places_counted_in_another_order_are_left_to_the_host(dimensions: str) -> None:
    def build(ir: Builder, x: Value) -> Value:
        ones, zeros = (1,) * 4, (0,) * 4
        windows = {"window": (1, 2, 2, 1), "strides": ones, "low": zeros, "high": zeros, "dilations": ones}
        return ir.op("arg_reduce_window", [x], {"kind": "max", "dimensions": dimensions, **windows})[0]

    native = Native(make([TensorType(F32, WINDOWS[0].x)], build))
    native.check(sample(F32, 2, 3, 30, 37))
    assert native.kernels() == []


@pytest.mark.parametrize("permutation", [(0, 3, 1, 2), (0, 1, 3, 2), (1, 0, 2, 3)])
def test_an_operand_may_be_a_view(permutation: tuple[int, ...]) -> None:
    case = _image((1, 1, 1, 1), 3, 2, 1)

    def build(ir: Builder, x: Value) -> list[Value]:
        turned = ir.transpose(x, permutation)
        return [case.build(ir, turned, "max"), case.build(ir, turned, "sum"), case.build(ir, turned, "max", arg=True)]

    native = Native(make(["f32[N, 20, 30, 4]"], build))
    assert set(native.kernels()) == {"window"}
    for count in (0, 1, 2):
        native.check(sample(F32, count, 20, 30, 4), bound=1e-6)


@pytest.mark.parametrize(
    ("channels", "kinds"), [(1, ["window"]), (7, ["window"]), (8, ["pointwise", "window"]), (0, ["window"])]
)
def test_images_that_lie_channels_last_are_turned_before_their_windows(channels: int, kinds: list[str]) -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.reduce_window(
            ir.transpose(x, (0, 3, 1, 2)), "max", (1, 1, 3, 3), (1,) * 4, (0,) * 4, (0,) * 4, (1,) * 4
        )

    native = Native(make([f"f32[N, H, W, {channels}]"], build))
    assert [kernel.kind for kernel in native.plan.kernels] == kinds
    for shape in ((1, 3, 3), (2, 9, 40), (0, 5, 5)):
        native.check(sample(F32, *shape, channels))


def test_an_operand_may_be_one_number() -> None:
    """How many taps of each window are inside, as averages count them."""
    case = _image((1, 1, H, W), 3, 2, 1)
    native = Native(
        make(["bool[H]", "bool[W]"], lambda ir, h, w: case.build(ir, ir.full((1, 1, H, W), 1.0, F32), "sum"))
    )
    for height, width in [(5, 40), (1, 1), (2, 3)]:
        native.check(np.zeros(height, np.bool_), np.zeros(width, np.bool_))


def test_pointwise_ops_after_a_window_are_in_its_kernel() -> None:
    def build(ir: Builder, x: Value, scale: Value) -> Value:
        return ir.max(ir.sub(ir.mul(WINDOWS[2].build(ir, x, "sum"), scale), 0.5), 0.0)

    native = Native(make([TensorType(F32, WINDOWS[2].x), "f32[N, 3, 35, 35]"], build))
    assert native.kernels() == ["window"]
    for count in (0, 1, 2):
        native.check(sample(F32, count, 3, 35, 35), sample(F32, count, 3, 35, 35, seed=1), bound=1e-6)


def test_a_sum_in_16_bits_is_rounded_once() -> None:
    native = Native(make([TensorType(F16, WINDOWS[5].x)], lambda ir, x: ir.less(WINDOWS[5].build(ir, x, "sum"), 0.5)))
    native.check(sample(F16, 3, 3, 7, 7))
