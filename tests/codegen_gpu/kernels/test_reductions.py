"""Reductions by the interpreter: every set of axes, rows that fit a tile and rows that do not, normalisations."""

from itertools import combinations

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from onnxc.compiler.ir.module import Value
from tests.codegen_gpu.support import Device, make, odd_values, precision, sample

SHAPES = [(2, 3, 5), (0, 2, 3), (2, 3, 0), (1, 70, 2)]
AXES = [axes for count in (1, 2, 3) for axes in combinations(range(3), count)]


def _kinds(dtype: DType) -> tuple[str, ...]:
    if dtype.is_bool:
        return ("and", "or")
    # The ends of bytes have a test of their own.
    return {F32: ("sum", "prod", "min", "max"), I8: ("sum", "prod")}.get(dtype, ("sum", "max"))


@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64, I64, I32, I8, U8, BOOL], ids=str)
def test_folds_over_every_set_of_axes(dtype: DType) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.reduce(x, kind, axes) for kind in _kinds(dtype) for axes in AXES]

    symbolic = Device(make([f"{dtype}[N, M, K]"], build))
    assert set(symbolic.kernels()) == {"reduction"}
    for shape in SHAPES:
        x = sample(dtype, *shape)
        near_one = x if not dtype.is_float else (1 + x / 16).astype(dtype.numpy)
        symbolic.check(near_one, bound=4 * precision(dtype))
    for shape in [(2, 3, 5), (3, 5, 33), (1, 1, 1)]:
        x = sample(dtype, *shape)
        near_one = x if not dtype.is_float else (1 + x / 16).astype(dtype.numpy)
        Device(make([f"{dtype}[{', '.join(map(str, shape))}]"], build)).check(near_one, bound=4 * precision(dtype))


@pytest.mark.parametrize("dtype", [F32, F16, I8, I64], ids=str)
@pytest.mark.parametrize("sizes", ["N, M", "20, 21"])
def test_folds_at_the_ends_of_a_type(dtype: DType, sizes: str) -> None:
    kinds = ("min", "max") if dtype.is_float else ("min", "max", "sum")

    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.reduce(x, kind, axes) for kind in kinds for axes in ((0,), (1,), (0, 1))]

    Device(make([f"{dtype}[{sizes}]"], build)).check(np.resize(odd_values(dtype), (20, 21)))


@pytest.mark.parametrize("kind", ["min", "max", "sum", "prod"])
@pytest.mark.parametrize("sizes", ["N, 0", "3, 0", "3, M"])
def test_a_fold_of_nothing_reads_nothing(kind: str, sizes: str) -> None:
    device = Device(make([f"i64[{sizes}]"], lambda ir, x: [ir.reduce(x, kind, axes) for axes in ((1,), (0, 1))]))
    device.check(np.empty((3, 0), np.int64))


@pytest.mark.parametrize("sizes", ["N, M", "5, 40", "5, 9000"])
@pytest.mark.parametrize("last", [False, True])
def test_places_of_extrema(sizes: str, last: bool) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.arg_reduce(x, kind, axis, last) for kind in ("min", "max") for axis in (0, 1)]

    device = Device(make([f"f32[{sizes}]"], build))
    shape = (5, int(sizes.split(", ")[1])) if sizes[0] == "5" else (5, 40)
    x = np.round(sample(F32, *shape) * 2)
    device.check(x)
    x[1, 3], x[1, 30], x[2, :] = np.nan, np.nan, np.inf
    device.check(x)


@pytest.mark.parametrize("shape", ["N, M", "7, 33", "3, 768", "2, 9000"])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_normalisations(shape: str, dtype: DType) -> None:
    def build(ir: Builder, x: Value, scale: Value, bias: Value) -> list[Value]:
        shifted = ir.mul(x, 2.0)
        return [
            ir.softmax(shifted, 1),
            ir.log_softmax(x, 1),
            ir.softmax(x, 0),
            ir.layer_norm(ir.add(x, 1.0), scale, bias, 1, 1e-5),
            ir.gelu(ir.rms_norm(x, scale, 1, 1e-6)),
        ]

    columns = shape.split(", ")[1]
    device = Device(make([f"{dtype}[{shape}]", f"{dtype}[{columns}]", f"{dtype}[{columns}]"], build))
    for rows, width in [(5, 40), (1, 1), (3, 1100)] if columns == "M" else [tuple(map(int, shape.split(", ")))]:
        arrays = sample(dtype, rows, width), sample(dtype, width, seed=1), sample(dtype, width, seed=2)
        device.check(*arrays, bound=4 * precision(dtype))


def test_masked_softmax_of_rows_without_anything() -> None:
    device = Device(make(["f32[N, M]"], lambda ir, x: ir.softmax(x, 1)))
    x = sample(F32, 4, 9)
    x[1] = -np.inf
    x[2, 3] = np.nan
    device.check(x, bound=1e-6)


def test_what_follows_a_fold() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        mean = ir.div(ir.reduce(x, "sum", (1, 2), keepdims=True), 12.0)
        return [ir.sqrt(ir.add(ir.reduce(ir.mul(x, x), "sum", (1, 2)), 1.0)), ir.mul(mean, 3.0), ir.sub(x, mean)]

    Device(make(["f32[N, 3, 4]"], build)).check(sample(F32, 6, 3, 4), bound=1e-6)
    Device(make(["f32[6, 3, 4]"], build)).check(sample(F32, 6, 3, 4), bound=1e-6)


def _shared(device: Device) -> bool:
    """Whether the only kernel is one whose rows programs share in some call."""
    assert device.kernels() == ["reduction"], device.plan
    return any("parts" in text for text in device.sources())


@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64, I64, I8, BOOL], ids=str)
@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 20_011), (0, 1)), ((2, 8_300), (1,)), ((8_300, 3), (0,)), ((1, 40_000, 1), (1,))], ids=str
)
def test_programs_share_long_rows(dtype: DType, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = sample(dtype, *shape)
    x = x if not dtype.is_float else (1 + x / 16).astype(dtype.numpy)
    x.reshape(-1)[-1] = x.max()
    # Of so many factors the product is exact where all but a few are 1.
    factors = np.ones(shape, dtype.numpy)
    factors.reshape(-1)[[0, 4_000, -1]] = 2, 3, 5
    for kind in _kinds(dtype):
        if kind == "prod" and shape[0] != 2:
            continue
        types = [f"{dtype}[{', '.join(map(str, shape))}]"]
        device = Device(make(types, lambda ir, x, kind=kind: ir.reduce(x, kind, axes)))
        assert _shared(device)
        assert len(device.code(0).steps) == 2
        device.check(factors if kind == "prod" else x, bound=8 * precision(dtype) if kind == "sum" else 0.0)


@pytest.mark.parametrize("types", ["N, M", "N, 9000", "2, M"])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_are_shared_where_a_call_has_few_and_long_ones(types: str, axis: int) -> None:
    sizes = types if axis == 1 else ", ".join(reversed(types.split(", ")))
    device = Device(make([f"f32[{sizes}]"], lambda ir, x: ir.reduce(x, "sum", (axis,))))
    assert _shared(device)
    calls = [(0, 9_000), (1, 8_192), (1, 8_193), (2, 9_000), (17 if axis else 129, 9_000), (2, 0), (2, 40)]
    for rows, columns in calls:
        if (types[0] == "N" or rows == 2) and (types[-1] == "M" or columns == 9_000):
            x = sample(F32, rows, columns)
            device.check(x if axis == 1 else x.T.copy(), bound=1e-6)


def test_memory_of_shared_rows_does_not_grow_with_their_number() -> None:
    device = Device(make(["f32[N, M]"], lambda ir, x: ir.reduce(x, "sum", (1,))))
    sizes = dict.fromkeys(device.plan.kernels[0].symbols, 10**6)
    assert 0 < evaluate(device.plan.kernels[0].schedule.scratch_bytes, sizes) < 1 << 20


@pytest.mark.parametrize("kind", ["min", "max", "sum"])
def test_shared_rows_of_odd_values(kind: str) -> None:
    device = Device(make(["f32[3, 9000]"], lambda ir, x: ir.reduce(x, kind, (1,))))
    assert _shared(device)
    x = np.full((3, 9000), -np.inf if kind == "max" else np.inf, np.float32)
    device.check(x)
    x[1, 8_999] = np.nan
    device.check(x)
    x[:] = -0.0
    x[2, :] = 1
    device.check(x)


def test_what_is_around_shared_rows() -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        return ir.add(ir.sqrt(ir.div(ir.reduce(ir.mul(x, x), "sum", (1, 2)), 9000.0)), y)

    device = Device(make(["f32[2, 90, 100]", "f32[2]"], build))
    assert _shared(device)
    assert len(device.code(0).steps) == 2
    device.check(sample(F32, 2, 90, 100), sample(F32, 2), bound=1e-6)


def test_shared_rows_of_what_a_shared_fold_gave() -> None:
    def build(ir: Builder, x: Value) -> Value:
        centred = ir.sub(x, ir.div(ir.reduce(x, "sum", (1,), keepdims=True), 9000.0))
        return ir.reduce(ir.mul(centred, centred), "sum", (1,))

    device = Device(make(["f32[2, 9000]"], build))
    assert device.kernels() == ["reduction", "pointwise", "reduction"]
    assert [len(device.code(number).steps) for number in range(3)] == [2, 1, 2]
    device.check(sample(F32, 2, 9000), bound=1e-6)


def test_many_or_short_rows_are_not_shared() -> None:
    for types in (["f32[100000, 9000]"], ["f32[1, 8192]"], ["f32[17, M]"]):
        assert not _shared(Device(make(types, lambda ir, x: ir.reduce(x, "sum", (1,)))))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_parts_of_rows_are_not_rounded(dtype: DType) -> None:
    device = Device(make([f"{dtype}[1, 20001]"], lambda ir, x: ir.reduce(x, "sum", (1,))))
    assert _shared(device)
    # Parts of about a thousand, of which one is left.
    half = np.abs(sample(dtype, 10_000))
    x = np.concatenate([half, -half[::-1], np.ones(1, half.dtype)]).reshape(1, -1)
    (found,) = device(x)
    assert found.dtype == dtype.numpy
    assert abs(float(found[0]) - 1) < 1e-2
