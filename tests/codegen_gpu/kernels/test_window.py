"""Windows by the interpreter: folds and places of maxima of every form, odd sizes, epilogues, other types."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from tests.codegen_gpu.support import Device, make, odd_values, precision, sample
from tests.support.window_forms import H, N, W, Windows, sizes_of


def _image(
    x: tuple[Dim, ...], window: int, stride: int, padding: int, dilation: int = 1, last: bool = False
) -> Windows:
    """The same along the two spatial axes of four; `x` is given as it lies."""

    def row(inner: Dim, outer: Dim) -> tuple[Dim, ...]:
        return (outer, inner, inner, outer) if last else (outer, outer, inner, inner)

    window_of, strides, dilations = (
        tuple(int(str(size)) for size in row(size, 1)) for size in (window, stride, dilation)
    )
    return Windows(x, window_of, strides, row(padding, 0), row(padding, 0), dilations)


WINDOWS = [
    _image((N, 2, 5, 6), 3, 2, 1),
    _image((N, 5, 6, 3), 3, 2, 1, last=True),
    _image((N, 6, 7, 16), 2, 2, 0, last=True),
    _image((N, H, W, 3), 3, 1, 1, last=True),
    _image((N, 2, H, W), 2, 3, 1),
    _image((N, 7, 6, 2), 6, 1, 0, last=True),
    _image((N, 9, 9, 2), 3, 3, 1, 2, last=True),
    Windows((N, 2, 5, 12), (1, 1, 3, 20), (1, 1, 1, 1), (0, 0, 1, 4), (0, 0, 1, 5), (1, 1, 1, 1)),
    Windows((N, 3, 30), (1, 1, 26), (1, 1, 2), (0, 0, 5), (0, 0, 5), (1, 1, 1)),
    Windows((N, 2, 4, 3, 5), (1, 1, 2, 3, 2), (1, 1, 2, 1, 1), (0, 0, 0, 1, 1), (0, 0, 0, 1, 1), (1,) * 5),
    Windows((N,), (3,), (4,), (1,), (5,), (1,)),
    Windows((N, 2, 3), (1, 1, 2), (1, 1, 2), (0, 0, 4), (0, 0, 5), (1, 1, 1)),
    Windows((N, 2, H, W), (1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1)),
    Windows((N, 2, H, W), (1, 1, 2, 2), (1, 1, 1, 1), (0, 0, H, 1), (0, 0, 0, W), (1, 1, 1, 1)),
]
PLACES = [{"N": 0, "H": 5, "W": 6}, {"N": 1, "H": 7, "W": 4}, {"N": 2, "H": 2, "W": 2}]


def _numbers(dtype: DType, *shape: int) -> np.ndarray:
    """Random elements, in places NaN and infinities of one sign, or the ends of the type."""
    x = sample(dtype, *shape)
    odd = np.array([np.nan, np.inf], dtype.numpy) if dtype.is_float else odd_values(dtype)
    x.flat[::13] = np.resize(odd, x.reshape(-1)[::13].shape)
    return x


@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_folds_and_places(case: Windows) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        folds = [case.build(ir, x, kind) for kind in ("sum", "max", "min")]
        # Places are those within an image, which has a batch and channels.
        return folds if len(case.x) < 2 else [*folds, case.build(ir, x, "max", arg=True)]

    device = Device(make([TensorType(F32, case.x)], build))
    assert set(device.kernels()) == {"window"}
    for values in PLACES:
        device.check(_numbers(F32, *sizes_of(case.x, values)), bound=1e-6)


@pytest.mark.parametrize("dtype", [F64, F16, BF16, I64, I32, I8, U8, BOOL], ids=str)
def test_element_types(dtype: DType) -> None:
    cases = [WINDOWS[index] for index in (1, 4)]

    def build(ir: Builder, *operands: Value) -> list[Value]:
        folds = [case.build(ir, x, k) for case, x in zip(cases, operands, strict=True) for k in ("sum", "max", "min")]
        return [*folds, *(case.build(ir, x, "max", arg=True) for case, x in zip(cases, operands, strict=True))]

    device = Device(make([TensorType(dtype, case.x) for case in cases], build))
    for values in PLACES[:2]:
        device.check(*(_numbers(dtype, *sizes_of(case.x, values)) for case in cases), bound=2 * precision(dtype))


def test_of_equal_maxima_the_first_is_found_and_nan_is_greater() -> None:
    case = WINDOWS[1]
    device = Device(make([TensorType(F32, case.x)], lambda ir, x: case.build(ir, x, "max", arg=True)))
    x = np.zeros((2, 5, 6, 3), np.float32)
    device.check(x)
    device.check(np.full_like(x, -np.inf))
    x[:, ::2, ::3] = np.nan
    device.check(x)


def test_what_follows_is_done_in_registers_and_an_operand_may_be_a_view() -> None:
    case = _image((N, 5, 6, 3), 3, 2, 1, last=True)

    def build(ir: Builder, x: Value, bias: Value) -> Value:
        return ir.max(ir.mul(ir.add(case.build(ir, ir.transpose(x, (0, 2, 3, 1)), "sum"), bias), 0.25), 0.0)

    device = Device(make(["bf16[N, 3, 5, 6]", "bf16[3]"], build))
    assert device.kernels() == ["window"]
    for count in (0, 2):
        device.check(sample(BF16, count, 3, 5, 6), sample(BF16, 3), bound=2 * precision(BF16))


def test_an_operand_may_be_one_number() -> None:
    """How many taps of each window are inside, as averages count them."""
    case = _image((1, 1, H, W), 3, 2, 1)
    device = Device(
        make(["bool[H]", "bool[W]"], lambda ir, h, w: case.build(ir, ir.full((1, 1, H, W), 1.0, F32), "sum"))
    )
    for height, width in [(5, 7), (1, 1), (2, 3)]:
        device.check(np.zeros(height, np.bool_), np.zeros(width, np.bool_))
