"""Long lines by the interpreter: sorts by digits, the best in rounds, shared scans and extrema; what launches do."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.kernel_work import DeviceWork, work_of
from onnxc.compiler.codegen_gpu.sorting.keys import key_of
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import open_kernel
from onnxc.compiler.codegen_gpu.source.source_builder import Int
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dtypes import BF16, F32, I8, I32, I64, DType
from onnxc.compiler.ir.module import Value
from onnxc.runtime.host import MEANINGS
from tests.codegen_cpu.support import guarded
from tests.codegen_gpu import support
from tests.codegen_gpu.support import NATIVE, SM_90, Device, make, odd_values, precision, sample
from tests.support.triton_interpreter import execute


def algorithms(device: Device) -> list[object]:
    """How the kernels of a plan are computed, those of few or short lines first."""
    return [getattr(kernel.schedule, "algorithm", "") for kernel in device.plan.kernels]


def launches(device: Device) -> int:
    """How many launches of the device the last kernel of a plan is."""
    return len(device.code(len(device.plan.kernels) - 1).steps)


# Keys


@pytest.mark.parametrize("dtype", NATIVE, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_keys_are_in_the_order_of_the_elements(dtype: DType, descending: bool) -> None:
    x = np.resize(odd_values(dtype), 64)
    device = Device(make([f"{dtype}[64]"], lambda ir, x: ir.sort(x, 0, False)))
    frame = open_kernel(device.plan.kernels[0], SM_90)
    keys = np.zeros(64, np.int64)

    def write(e: Evaluator, place: Int) -> None:
        e.store(key_of(e.value(frame.kernel.block.parameters[0], (place,)), dtype, descending, e.b), I64, where, place)

    where = frame.scratch("keys", I64)
    step = frame.flat_step(64, write, 64)
    addresses = {"input": x.ctypes.data, "scratch": keys.ctypes.data}
    execute(step.source, (1, 1, 1), [addresses[argument.kind] for argument in step.arguments])
    _, wanted = MEANINGS["sort"]([x], {"axis": 0, "descending": descending})
    assert np.argsort(keys.view(np.uint64), kind="stable").tolist() == wanted.tolist()
    assert dtype.itemsize == 8 or 0 <= keys.min() <= keys.max() < 1 << 8 * dtype.itemsize


# Sorts


def test_long_lines_are_sorted_by_digits() -> None:
    x = np.round(sample(F32, 1, 1100) * 8)
    x[0, [5, 700, 1099]], x[0, [6, 900]], x[0, 7], x[0, 8] = np.nan, np.inf, -np.inf, -0.0
    device = Device(make(["f32[1, 1100]"], lambda ir, x: ir.sort(x, 1, False)))
    assert algorithms(device) == ["digits"]
    device.check(x)


def test_sorted_lines_keep_the_order_of_equals() -> None:
    x = np.resize(odd_values(I8), (2, 1100))
    device = Device(make(["i8[N, M]"], lambda ir, x: ir.sort(x, 1, True)))
    assert algorithms(device) == ["counting", "digits"]
    device.check(x)
    device.check(x[:0])
    device.check(x[:, :70])


def test_more_of_a_line_than_a_round_leaves_is_sorted_whole() -> None:
    device = Device(make(["i8[1100, 2]"], lambda ir, x: ir.top_k(x, 1050, 0, True)))
    assert algorithms(device) == ["digits"]
    device.check(np.resize(odd_values(I8), (1100, 2)))


# The best of long lines


@pytest.mark.parametrize(("types", "largest"), [("N, M", True), ("2, 4100", False)])
def test_the_best_of_long_lines_are_left_in_rounds(types: str, largest: bool) -> None:
    x = np.round(sample(F32, 2, 4100))
    x[0, [50, 4099]], x[1, [60, 4097]], x[1, 9] = np.nan, np.inf, -0.0
    device = Device(make([f"f32[{types}]"], lambda ir, x: ir.top_k(x, 5, 1, largest)))
    assert algorithms(device)[-1] == "rounds"
    # The last block has fewer elements than are kept of it.
    device.check(x)
    if types == "N, M":
        device.check(x[:0])
        device.check(x[:1, :1025])
        device.check(x[:, :9])


def test_rounds_leave_less_and_less() -> None:
    device = Device(make(["bf16[9000, 1]"], lambda ir, x: ir.top_k(ir.neg(x), 600, 0, True)[1]))
    assert launches(device) == 3
    device.check(np.round(sample(BF16, 9000, 1)))


@pytest.mark.parametrize("byte", [0, 127])
def test_memory_may_hold_anything_before(byte: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros could be where the updates of a row begin, great words could be elements that were left."""

    def filled(array: np.ndarray, poison: bool = False) -> np.ndarray:
        copy = guarded(array, poison)
        if poison:
            copy.view(np.uint8)[...] = byte
        return copy

    monkeypatch.setattr(support, "guarded", filled)
    best = Device(make(["f32[1, 4100]"], lambda ir, x: ir.top_k(x, 5, 1, True)))
    best.check(sample(F32, 1, 4100))
    types = ["f32[9, 2]", "i64[70, 1]", "f32[70, 2]"]
    scatter = Device(make(types, lambda ir, x, i, u: ir.scatter_nd(x, i, u, "add")))
    scatter.check(sample(F32, 9, 2), np.arange(70).reshape(70, 1) % 3 * 2 + 1, sample(F32, 70, 2))


# Scans and extrema


@pytest.mark.parametrize("dtype", [F32, BF16, I32, I8], ids=str)
def test_programs_share_long_lines_of_a_scan(dtype: DType) -> None:
    device = Device(make([f"{dtype}[3, 9000]"], lambda ir, x: ir.scan_axis(x, "sum", 1, False, False)))
    assert launches(device) == 2
    device.check(sample(dtype, 3, 9000), bound=8 * precision(dtype))


@pytest.mark.parametrize(("exclusive", "reverse"), [(False, True), (True, False), (True, True)])
def test_shared_scans_in_every_direction(exclusive: bool, reverse: bool) -> None:
    x = np.random.default_rng(4).integers(-1000, 1000, (9000, 2))
    device = Device(make(["i64[9000, 2]"], lambda ir, x: ir.scan_axis(x, "sum", 0, exclusive, reverse)))
    assert launches(device) == 2
    device.check(x)


@pytest.mark.parametrize(("kind", "last"), [("max", False), ("min", True)])
def test_programs_share_long_rows_of_an_extremum(kind: str, last: bool) -> None:
    device = Device(make(["f32[3, 9000]"], lambda ir, x: ir.arg_reduce(x, kind, 1, last)))
    assert launches(device) == 2
    x = np.round(sample(F32, 3, 9000))
    # Parts behind the end of a row have nothing but what an extremum begins with.
    x[1] = -np.inf if kind == "max" else np.inf
    device.check(x)
    x[0, [700, 8500]] = np.nan
    device.check(x)


# What launches do


def _work(types: list[str], build: Callable[..., Value | list[Value]]) -> DeviceWork:
    (kernel,) = Device(make(types, build)).plan.kernels
    return work_of(kernel)


def _sort(ir: Builder, x: Value) -> Value:
    return ir.sort(x, 1, False)[0]


def _best(ir: Builder, x: Value) -> Value:
    return ir.top_k(x, 50, 1, True)[0]


def _scan(ir: Builder, x: Value) -> Value:
    return ir.scan_axis(x, "sum", 1, False, False)


@pytest.mark.parametrize("build", [_sort, _best, _scan])
def test_work_grows_with_the_length_of_lines(build: Callable[..., Value]) -> None:
    small, large = (_work([f"f32[4, {length}]"], build) for length in (1 << 16, 1 << 20))
    for of_small, of_large in ((small.flops, large.flops), (small.read_bytes, large.read_bytes)):
        assert 8 < evaluate(of_large, {}) / evaluate(of_small, {}) < 17


@pytest.mark.parametrize("kind", ["set", "add"])
def test_work_of_a_scatter_grows_with_data_and_updates(kind: str) -> None:
    def work(size: int) -> DeviceWork:
        types = [f"f32[{size}, 64]", f"i64[{size}, 1]", f"f32[{size}, 64]"]
        return _work(types, lambda ir, x, i, u: ir.scatter_nd(x, i, u, kind))

    small, large = work(1 << 14), work(1 << 18)
    for of_small, of_large in ((small.flops, large.flops), (small.read_bytes, large.read_bytes)):
        assert 8 < evaluate(of_large, {}) / evaluate(of_small, {}) < 17


def test_work_of_lines_that_are_counted_is_that_of_all_pairs() -> None:
    work = _work(["f32[4, 1000]"], _sort)
    assert work.flops == 4 * 1000 * 1000 + 4 * 1000


def test_the_best_of_a_vocabulary_take_few_launches_and_bytes() -> None:
    device = Device(make(["f32[1, 128256]"], _best))
    work = work_of(device.plan.kernels[0])
    assert launches(device) == 3
    assert evaluate(work.read_bytes + work.written_bytes, {}) < 8 * 128256


def test_a_scatter_of_many_rows_takes_nine_launches() -> None:
    types = ["f32[100000, 64]", "i64[65536, 1]", "f32[65536, 64]"]
    device = Device(make(types, lambda ir, x, i, u: ir.scatter_nd(x, i, u, "add")))
    assert launches(device) == 9
