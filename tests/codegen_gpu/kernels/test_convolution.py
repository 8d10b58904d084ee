"""Convolutions by the interpreter: every form with channels first and last, odd sizes, epilogues, other types."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.compile.cubin import instruction_counts
from onnxc.compiler.codegen_gpu.plan_target import is_native
from onnxc.compiler.codegen_gpu.schedules import convolutions
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I8, I32, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.schedules import Arithmetic, ConvolutionSchedule, Tile, Warps
from onnxc.compiler.target import Target
from tests.codegen_gpu.support import SM_80, SM_90, Device, make, precision
from tests.support.window_forms import NONE, ONES, TWOS, Convolution, H, N, W, sizes_of

TRITON = importlib.util.find_spec("triton")
assert TRITON is not None
assert TRITON.origin is not None
DISASSEMBLER = Path(TRITON.origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm"

INNERMOST = "n01c,oi01->n01c"

CONVOLUTIONS = [
    Convolution("tiles", (N, 3, 5, 6), (8, 3, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("tiles", (N, 3, 9, 8), (5, 3, 7, 7), TWOS, (3, 3), (3, 3), ONES),
    Convolution("tiles", (N, 20, 4, 5), (18, 20, 1, 1), ONES, NONE, NONE, ONES),
    Convolution("tiles", (N, 40, 4, 4), (33, 40, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("tiles", (N, 32, 5, 5), (17, 32, 1, 1), TWOS, NONE, NONE, ONES),
    Convolution("tiles", (N, 16, 7, 7), (9, 16, 2, 3), (1, 2), (0, 1), (1, 0), (2, 1)),
    Convolution("tiles", (N, 32, 4, 5), (32, 16, 3, 3), ONES, ONES, ONES, ONES, 2),
    Convolution("tiles", (N, 8, 5, 6), (40, 4, 3, 3), ONES, ONES, ONES, ONES, 2),
    Convolution("tiles", (N, 16, 12), (8, 16, 3), (1,), (1,), (1,), (2,)),
    Convolution("tiles", (N, 4, 2, 2), (6, 4, 3, 3), (5, 5), (3, 4), (4, 3), ONES),
    Convolution("tiles", (N, 16, H, W), (8, 16, 3, 3), (2, 1), ONES, ONES, ONES),
    Convolution("tiles", (N, 16, H, W), (8, 16, 1, 1), ONES, NONE, NONE, ONES),
    Convolution("tiles", (N, 16, H, W), (8, 16, 2, 2), ONES, (H, 1), (0, W), ONES),
    Convolution("tiles", (N, 4, 3, 4, 3), (8, 4, 2, 3, 2), (1, 1, 2), (1, 1, 0), (1, 1, 1), (1, 1, 1)),
    Convolution("tiles", (N, 16, 3, 4), (8, 16, 3, 3), ONES, ONES, ONES, ONES, 1, TWOS),
    Convolution("tiles", (N, 4, H, W), (3, 4, 3, 2), (1, 3), (2, 0), TWOS, (1, 2), 1, (3, 2)),
    Convolution("tiles", (N, 3, 9, 9), (0, 3, 3, 3), ONES, ONES, ONES, ONES),
    Convolution("direct", (N, 16, 5, 5), (16, 1, 3, 3), ONES, ONES, ONES, ONES, 16),
    Convolution("direct", (N, 16, 6, 7), (32, 1, 3, 3), TWOS, (0, 1), ONES, ONES, 16),
    Convolution("direct", (N, 3, 7, 7), (3, 1, 7, 7), ONES, (3, 3), (3, 3), ONES, 3),
    Convolution("direct", (N, 12, 5, 4), (8, 3, 3, 3), ONES, ONES, ONES, ONES, 4),
    Convolution("direct", (N, 6, 9), (6, 1, 3), (3,), (1,), (1,), (2,), 6),
    Convolution("direct", (N, 8, H, W), (8, 1, 3, 3), (2, 1), ONES, ONES, ONES, 8),
    Convolution("direct", (N, 4, 3, 4), (4, 1, 3, 3), ONES, ONES, ONES, ONES, 4, TWOS),
]  # fmt: skip
PLACES = [{"N": 0, "H": 5, "W": 6}, {"N": 1, "H": 6, "W": 5}, {"N": 2, "H": 1, "W": 1}]


def _whole(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers: every order of summation gives the same."""
    low = -2 if dtype.is_float or dtype.is_signed else 0
    return np.random.default_rng((seed, *shape)).integers(low, 3, shape).astype(dtype.numpy)


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions_with_a_bias_a_residual_and_relu(case: Convolution, last: bool) -> None:
    w, bias = _whole(F32, *case.w, seed=1), _whole(F32, case.w[0], seed=2)
    x_type = TensorType(F32, case.shape(last))
    made = case.build(*_parameters(x_type, case.w), last)

    def build(ir: Builder, x: Value, residual: Value) -> Value:
        y = case.build(ir, x, ir.constant(w), last)
        per_channel = ir.reshape(ir.constant(bias), case.w[:1] if last else (case.w[0], *(1,) * (len(case.x) - 2)))
        return ir.max(ir.add(ir.add(y, per_channel), residual), 0.0)

    device = Device(make([x_type, TensorType(F32, made.shape)], build))
    assert device.kernels() == ["convolution"]
    assert device.plan.kernels[0].scheduled(ConvolutionSchedule).algorithm == case.algorithm
    symbols = {name for dim in case.x for name in symbols_of(dim)}
    for values in PLACES if len(symbols) > 1 else PLACES[:2]:
        device.check(
            _whole(F32, *sizes_of(x_type.known_shape, values)), _whole(F32, *sizes_of(made.shape, values), seed=3)
        )


def test_results_of_many_sums_are_written_in_halves() -> None:
    """Pixels and filters that fill no tile, and groups."""
    case = Convolution("tiles", (1, 64, 12, 13), (272, 32, 3, 3), ONES, ONES, ONES, ONES, 2)
    w, x_type = _whole(BF16, *case.w, seed=1), TensorType(BF16, case.shape(True))
    schedule = ConvolutionSchedule(
        algorithm="tiles", tile=Tile(128, 128, 32), arithmetic=Arithmetic("bf16", F32), workers=Warps(8, 3)
    )
    module = make([x_type], lambda ir, x: ir.max(case.build(ir, x, ir.constant(w), True), 0.25))
    device = Device(module, schedule=schedule)
    assert any(".split()" in text for text in device.sources())
    device.check(_whole(BF16, *sizes_of(x_type.known_shape, {})), bound=precision(BF16))


STRIPS = [
    Convolution("direct", (N, 16, 5, 7), (16, 1, 3, 3), ONES, ONES, ONES, ONES, 16),
    Convolution("direct", (N, 24, 6, 9), (24, 1, 3, 5), TWOS, (0, 1), (1, 2), ONES, 24),
    Convolution("direct", (N, 8, 9, 12), (8, 1, 3, 3), ONES, (2, 2), (2, 2), TWOS, 8),
    Convolution("direct", (N, 40, 7, 8), (40, 1, 7, 7), ONES, (3, 3), (3, 3), ONES, 40),
    Convolution("direct", (N, 10, 11), (10, 1, 3), ONES[:1], ONES[:1], ONES[:1], ONES[:1], 10),
    Convolution("direct", (N, 8, H, W), (8, 1, 3, 3), (2, 1), ONES, ONES, ONES, 8),
]  # fmt: skip


@pytest.mark.parametrize("case", STRIPS, ids=str)
def test_a_lane_sums_a_strip_of_neighbours(case: Convolution, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "FEWEST_STRIPS", 0)
    w, x_type = _whole(F32, *case.w, seed=1), TensorType(F32, case.shape(True))
    device = Device(make([x_type], lambda ir, x: ir.max(case.build(ir, x, ir.constant(w), True), 0.25)))
    (kernel,) = device.plan.kernels
    assert kernel.scheduled(ConvolutionSchedule).unit == Tile(1, convolutions.STRIP)
    symbols = {name for dim in case.x for name in symbols_of(dim)}
    for values in PLACES if len(symbols) > 1 else PLACES[:2]:
        device.check(_whole(F32, *sizes_of(x_type.known_shape, values)))


def _parameters(x: TensorType, w: tuple[int, ...]) -> tuple[Builder, Value, Value]:
    ir = Builder()
    return ir, ir.parameter("x", x), ir.parameter("w", TensorType(F32, w))


@pytest.mark.parametrize("dtype", [F64, F16, BF16, I32, I8, U8], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
def test_element_types(dtype: DType, last: bool) -> None:
    result = I32 if dtype in (I8, U8) else dtype

    def build(ir: Builder, *operands: Value) -> list[Value]:
        cases = zip(TYPED, operands, strict=True)
        return [
            ir.convolution(
                x, ir.constant(_whole(dtype, *c.w, seed=1)), c.strides, c.low, c.high, c.dilations, c.groups,
                dtype=result, dimensions=channels_innermost(len(c.x) - 2) if last else None,
            )
            for c, x in cases
        ]  # fmt: skip

    device = Device(make([TensorType(dtype, case.shape(last)) for case in TYPED], build))
    device.check(*(_whole(dtype, *sizes_of(case.shape(last), {"N": 2})) for case in TYPED), bound=precision(dtype))


TYPED = [CONVOLUTIONS[index] for index in (0, 2, 17, 20)]


def test_filters_may_be_inputs_of_any_size() -> None:
    def build(ir: Builder, x: Value, w: Value) -> Value:
        return ir.convolution(x, w, ONES, ONES, ONES, ONES, dimensions=INNERMOST)

    device = Device(make(["f32[N, H, W, C]", "f32[M, C, P, Q]"], build))
    for shape, filters in [((1, 3, 4, 18), (5, 18, 3, 3)), ((2, 1, 1, 1), (1, 1, 1, 1)), ((1, 3, 3, 2), (0, 2, 2, 1))]:
        device.check(_whole(F32, *shape), _whole(F32, *filters, seed=1))
    device.check(_whole(F32, 1, 3, 3, 0), _whole(F32, 4, 0, 3, 3))


@pytest.mark.parametrize(
    ("dimensions", "has_kernel"),
    [
        ("nc01,oi01->nc01", True),
        ("n01c,oi01->n01c", True),
        ("n01c,01io->n01c", False),
        ("nc01,oi01->n01c", False),
        ("cn01,oi01->nc01", False),
        ("n10c,oi01->n10c", False),
    ],
)
def test_kernels_take_the_channels_first_or_innermost(dimensions: str, has_kernel: bool) -> None:
    ir = Builder()
    x, w = (ir.parameter(name, TensorType(F32, (4, 4, 4, 4))) for name in "xw")
    op = ir.convolution(x, w, ONES, ONES, ONES, ONES, dimensions=dimensions).op
    assert op is not None
    assert is_native(op) == has_kernel


def test_an_image_is_read_through_the_view_that_puts_its_channels_innermost() -> None:
    w = _whole(F32, 6, 3, 3, 3, seed=1)

    def build(ir: Builder, x: Value) -> Value:
        last = ir.transpose(x, (0, 2, 3, 1))
        return ir.convolution(last, ir.constant(w), TWOS, ONES, ONES, ONES, dimensions=INNERMOST)

    device = Device(make(["f32[N, 3, H, W]"], build))
    assert device.kernels() == ["convolution"]
    for shape in [(2, 3, 5, 6), (1, 3, 1, 1)]:
        device.check(_whole(F32, *shape))


def test_an_operand_may_be_repeated_or_one_number() -> None:
    w = _whole(F32, 4, 16, 3, 3, seed=1)

    def build(ir: Builder, x: Value) -> list[Value]:
        wide, number = ir.broadcast(x, (0,), (2, 4, 4, 16)), ir.full((2, 4, 4, 16), 2.0, F32)
        return [ir.convolution(y, ir.constant(w), ONES, ONES, ONES, ONES, dimensions=INNERMOST) for y in (wide, number)]

    Device(make(["f32[2]"], build)).check(_whole(F32, 2))


def test_programs_share_a_tile_where_there_are_few() -> None:
    w, bias = _whole(BF16, 17, 700, 3, 3, seed=1), _whole(BF16, 17, seed=2)

    def build(ir: Builder, x: Value) -> Value:
        y = ir.convolution(x, ir.constant(w), ONES, ONES, ONES, ONES, dimensions=INNERMOST)
        return ir.max(ir.add(y, ir.constant(bias)), 0.0)

    device = Device(make(["bf16[1, 3, 4, 700]"], build))
    assert len(device.code(0).steps) == 2
    device.check(_whole(BF16, 1, 3, 4, 700))


def test_x_times_its_sigmoid_is_done_in_registers() -> None:
    w = _whole(BF16, 8, 16, 3, 3, seed=1)

    def build(ir: Builder, x: Value) -> Value:
        y = ir.convolution(x, ir.constant(w), ONES, ONES, ONES, ONES, dimensions=INNERMOST)
        return ir.mul(y, ir.div(1.0, ir.add(ir.exp(ir.neg(y)), 1.0)))

    device = Device(make(["bf16[N, 3, 4, 16]"], build))
    assert device.kernels() == ["convolution"]
    device.check(_whole(BF16, 2, 3, 4, 16), bound=precision(BF16))


def test_a_filter_that_something_else_reads_lies_as_it_is() -> None:
    w = _whole(F32, 4, 4, 1, 1, seed=1)

    def build(ir: Builder, x: Value) -> Value:
        filters = ir.constant(w)
        return ir.add(ir.convolution(x, filters, ONES, NONE, NONE, ONES), ir.reshape(filters, (1, 4, 2, 2)))

    device = Device(make(["f32[1, 4, 2, 2]"], build))
    device.check(_whole(F32, 1, 4, 2, 2))


def test_nan_stays_where_its_windows_are() -> None:
    case = CONVOLUTIONS[3]
    device = Device(
        make(
            [TensorType(F32, case.shape(True))],
            lambda ir, x: case.build(ir, x, ir.constant(_whole(F32, *case.w)), True),
        )
    )
    x = _whole(F32, 1, 4, 4, 40)
    x[0, 0, 1, 3], x[0, 3, 3, 4] = np.nan, np.inf
    device.check(x)


FORMS = [
    (["{}[1, 14, 14, 256]"], (256, 256, 3, 3), TWOS, ONES, 1),
    (["{}[8, 28, 28, 64]"], (128, 64, 1, 1), ONES, NONE, 1),
    (["{}[N, 28, 28, 64]", "{}[N, 28, 28, 128]"], (128, 64, 3, 3), ONES, ONES, 1),
    (["{}[N, H, W, 96]"], (96, 1, 3, 3), ONES, ONES, 96),
]


@pytest.mark.slow
@pytest.mark.parametrize("target", [SM_80, SM_90], ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_compiled_kernels_load_16_bytes_at_a_time_and_spill_nothing(
    dtype: DType, target: Target, tmp_path: Path
) -> None:
    sources = []
    for types, w, strides, padding, groups in FORMS:

        def build(ir: Builder, x: Value, *rest: Value, w=w, steps=strides, pad=padding, groups=groups) -> Value:
            y = ir.convolution(x, ir.constant(_whole(dtype, *w)), steps, pad, pad, ONES, groups, dimensions=INNERMOST)
            y = ir.add(y, ir.constant(_whole(dtype, w[0])))
            return ir.max(ir.add(y, rest[0]) if rest else y, 0.0)

        device = Device(make([text.format(dtype) for text in types], build), target)
        sources.append(device.code(0).steps[0].source)
    for kernel, (_, _, _, _, groups) in zip(compile_kernels(sources, target, tmp_path), FORMS, strict=True):
        assert kernel.stack_bytes == 0, kernel.source
        instructions = instruction_counts(kernel.cubin, DISASSEMBLER)
        loads = {name for name in instructions if name.startswith(("LDG", "LDGSTS")) and name.endswith(".128")}
        products = {name for name in instructions if name.startswith(("HMMA", "HGMMA"))}
        assert loads, instructions
        assert bool(products) == (groups == 1), instructions


@pytest.mark.slow
@pytest.mark.parametrize("target", [SM_80, SM_90], ids=str)
@pytest.mark.parametrize(("size", "taps", "step"), [(28, 5, 1), (28, 3, 2)])
def test_threads_of_a_depthwise_convolution_read_their_own_weights(
    size: int, taps: int, step: int, target: Target, tmp_path: Path
) -> None:
    """No thread waits for another, and nothing is read 2 bytes at a time."""
    w, steps, padding = _whole(BF16, 240, 1, taps, taps), (step, step), (taps // 2, taps // 2)

    def build(ir: Builder, x: Value) -> Value:
        y = ir.convolution(x, ir.constant(w), steps, padding, padding, ONES, 240, dimensions=INNERMOST, dtype=F32)
        return ir.cast(ir.max(ir.add(y, ir.constant(_whole(F32, 240))), 0.0), BF16)

    source = Device(make([f"bf16[N, {size}, {size}, 240]"], build), target).code(0).steps[0].source
    (kernel,) = compile_kernels([source], target, tmp_path)
    instructions = instruction_counts(kernel.cubin, DISASSEMBLER)
    assert not {name for name in instructions if name.startswith(("BAR", "LDG.E.U16", "LDS", "STS"))}, instructions
    assert (kernel.stack_bytes, kernel.shared_bytes) == (0, 0)


# A channel of f32 is copied alone; one, or three, of 16 bits are no such copy together.
READ_IMAGES = [
    *((dtype, channels, True, pads) for pads in (False, True) for dtype, channels in ((BF16, 20), (F16, 6), (I8, 20))),
    *((dtype, channels, False, False) for dtype, channels in ((F32, 20), (BF16, 3), (BF16, 1), (I8, 6))),
]


@pytest.mark.parametrize(("dtype", "channels", "is_turned", "pads"), READ_IMAGES)
def test_narrow_channels_that_lie_apart_are_turned_first(
    dtype: DType, channels: int, is_turned: bool, pads: bool
) -> None:
    """What casts an image writes its channels side by side; the padding is the convolution's own."""

    def build(ir: Builder, x: Value, w: Value) -> Value:
        x = ir.transpose(ir.cast(x, dtype), (0, 2, 1))
        if pads:
            x = ir.pad(x, (0, 1, 0), (0, 2, 0), 0)
        sums = I32 if dtype == I8 else F32
        options = {"strides": (1,), "low": (1,), "high": (1,), "dilations": (1,), "dtype": sums}
        return ir.convolution(x, w, **options, dimensions="n0c,oi0->n0c")

    device = Device(make([f"i32[B, {channels}, L]", f"{dtype}[8, {channels}, 3]"], build))
    convolutions = [kernel for kernel in device.plan.kernels if kernel.kind == "convolution"]
    reads_apart = [any(op.name == "transpose" for op in kernel.block.ops) for kernel in convolutions]
    assert reads_apart == [not is_turned] * len(convolutions)
    w = np.arange(8 * channels * 3).reshape(8, channels, 3) % 5 - 2
    for batch, length in ((0, 5), (1, 0), (1, 7), (2, 40)):
        x = np.arange(batch * channels * length).reshape(batch, channels, length) % 7 - 3
        device.check(x.astype(np.int32), w.astype(dtype.numpy))
