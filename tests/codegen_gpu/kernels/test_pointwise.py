"""Pointwise kernels by the interpreter: every primitive in every element type, casts, movement, indices, sizes."""

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target, is_native
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I64, DType
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.ir.primitives.pointwise import BINARY, COMPARE, UNARY
from onnxc.compiler.planning.plan import plan_kernels
from tests.codegen_gpu.support import (
    INTEGERS,
    NATIVE,
    SM_90,
    Device,
    assert_near,
    code_of,
    make,
    native_names,
    odd_values,
    sample,
)
from tests.support.arrays import assert_within
from tests.support.tolerance import UNITS, unit


def _check_each(device: Device, names: list[str], arrays: list[np.ndarray], dtype: DType) -> None:
    """Every result for itself; the library's functions as near as the type allows."""
    for name, found, wanted in zip(names, device(*arrays), device.interpreted(*arrays), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), name
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(found, wanted, err_msg=f"{name} of {dtype}")
        else:
            why = f"{name} of {dtype}; subnormal numbers may be 0"
            assert_within(found, wanted, relative=UNITS * unit(wanted.dtype), absolute=1e-37, why=why)


@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_unary_primitives(dtype: DType) -> None:
    names = native_names(dtype, tuple(UNARY), 1, is_native)
    device = Device(make([f"{dtype}[37]"], lambda ir, x: [ir.unary(name, x) for name in names]))
    _check_each(device, names, [np.resize(odd_values(dtype), 37)], dtype)
    _check_each(device, names, [sample(dtype, 37)], dtype)


@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_binary_primitives(dtype: DType) -> None:
    names = native_names(dtype, tuple(BINARY) + tuple(COMPARE), 2, is_native)
    odd = odd_values(dtype)
    types = [f"{dtype}[{odd.size}, {odd.size}]"] * 2
    device = Device(make(types, lambda ir, x, y: [ir.binary(name, x, y) for name in names]))
    pairs = np.meshgrid(odd, odd, indexing="ij")
    _check_each(device, names, [np.ascontiguousarray(pair) for pair in pairs], dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_machine_code_of_primitives_has_no_stack(dtype: DType) -> None:
    """Those that are more than a few instructions, or had some."""
    sources, names = list[KernelSource](), list[str]()
    for name in native_names(dtype, ("sin", "tan", "tanh", "erf", "acosh"), 1, is_native):
        sources += _sources(make([f"{dtype}[N]"], lambda ir, x, name=name: [ir.unary(name, x)]))
        names.append(name)
    for name in native_names(dtype, ("div", "rem", "pow", "min"), 2, is_native):
        sources += _sources(make([f"{dtype}[N]"] * 2, lambda ir, x, y, name=name: [ir.binary(name, x, y)]))
        names.append(name)
    kernels = compile_kernels(sources, SM_90, None)
    assert {name: kernel.stack_bytes for name, kernel in zip(names, kernels, strict=True)} == dict.fromkeys(names, 0)


def _sources(module: Module) -> list[KernelSource]:
    (kernel,) = plan_kernels(module, gpu_plan_target(SM_90)).kernels
    (step,) = code_of(kernel).steps
    return [step.source]


@pytest.mark.parametrize("source", NATIVE, ids=str)
def test_casts(source: DType) -> None:
    device = Device(make([f"{source}[N]"], lambda ir, x: [ir.cast(x, target) for target in NATIVE]))
    array = odd_values(source)
    for target, found, wanted in zip(NATIVE, device(array), device.interpreted(array), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), f"{source} to {target}"
        wide, wide_wanted = (array if target in INTEGERS else array.astype(np.float64) for array in (found, wanted))
        rounded_twice = 2**-7 if target in (F16, BF16) and source in (F64, *INTEGERS) else 0
        np.testing.assert_allclose(wide, wide_wanted, rounded_twice, err_msg=f"{source} to {target}")


@pytest.mark.parametrize("size", [0, 1, 15, 16, 1023, 1024, 1025, 2060])
def test_sizes_known_at_run_time(size: int) -> None:
    device = Device(make(["f32[N]", "f32[N]"], lambda ir, x, y: ir.add(ir.mul(x, y), 1.5)))
    device.check(sample(F32, size), sample(F32, size, seed=1), bound=1e-6)
    fixed = Device(make([f"f32[{size}]"], lambda ir, x: ir.neg(x)))
    fixed.check(sample(F32, size))


@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, -1e-45, 3.4e38, np.inf, -np.inf, np.nan])
def test_literals(value: float) -> None:
    for dtype in (F32, F64, BF16):
        device = Device(make([f"{dtype}[3]"], lambda ir, x, d=dtype: ir.select(ir.less(x, x), x, ir.scalar(value, d))))
        (found,), (wanted,) = device(sample(dtype, 3)), device.interpreted(sample(dtype, 3))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
        assert_near(found, wanted)


@pytest.mark.parametrize("shape", [(5, 7), (64, 64), (70, 130), (1, 200), (200, 1), (0, 3)])
def test_transposition(shape: tuple[int, int]) -> None:
    device = Device(make(["f32[N, M]"], lambda ir, x: ir.transpose(ir.exp(x), (1, 0))))
    device.check(sample(F32, *shape), bound=1e-6)
    rows, columns = shape
    fixed = Device(make([f"f32[2, {rows}, 3, {columns}]"], lambda ir, x: ir.transpose(x, (2, 3, 0, 1))))
    fixed.check(sample(F32, 2, rows, 3, columns))


def test_movement() -> None:
    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        padded = ir.pad(x, (1, 0), (0, 2), 2.5)
        sliced = ir.slice(x, (1, 0), (2, 3), (1, 2))
        return [
            ir.add(x, y),
            ir.mul(padded, 2.0),
            ir.neg(sliced),
            ir.reverse(x, 1),
            ir.reshape(ir.transpose(x, (1, 0)), (3, 6)),
            ir.add(ir.cast(ir.iota((3, 6), 1, I64), F32), x),
        ]

    device = Device(make(["f32[3, 6]", "f32[6]"], build))
    device.check(sample(F32, 3, 6), sample(F32, 6))
    symbolic = Device(make(["f32[N, 6]", "f32[M, 1]"], lambda ir, x, y: ir.add(x, y)))
    symbolic.check(sample(F32, 3, 6), sample(F32, 1, 1))
    symbolic.check(sample(F32, 1, 6), sample(F32, 5, 1))
    symbolic.check(sample(F32, 0, 6), sample(F32, 1, 1))


def test_gather_and_what_is_outside() -> None:
    device = Device(make(["f32[5, 4]", "i64[3]"], lambda ir, x, i: ir.gather(x, i, 0)))
    device.check(sample(F32, 5, 4), np.array([4, 0, 2]))
    assert device.status[0] == 0
    device(sample(F32, 5, 4), np.array([4, 9, 2]))
    assert device.status.tolist()[:4] == [1, 7, 9, 5]


def test_random_bits() -> None:
    device = Device(make(["f32[3]"], lambda ir, x: ir.random_bits((7, 300), 12345678901)))
    device.check(sample(F32, 3))
