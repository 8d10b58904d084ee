"""f16 in kernels of every processor: all numbers widened, f32 rounded at ties and ends, and nothing by calls."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.element_types import from_memory, to_memory
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F16, F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.cpu import host_architecture
from tests.codegen_cpu.support import EVERY_TARGET, Native, every_number_moved, make

TARGETS = (*((parse_target("cpu:x86-64"),) if host_architecture() == "x86_64" else ()), *EVERY_TARGET)

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def rounded_floats() -> np.ndarray:
    """Every f16 and what lies half way to the next, the f32 beside each, the odd ones, and random bits."""
    numbers = np.unique(HALVES[np.isfinite(HALVES)].astype(np.float32))
    # Infinity begins half way to where the next number would be.
    numbers = np.concatenate([numbers, np.array([65536.0, -65536.0], np.float32)])
    exact = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, np.array([65520.0, -65520.0], np.float32)])
    infinity = np.float32(np.inf)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 2.0**-126, 3.4e38], np.float32)
    random = np.random.default_rng(0).integers(0, 1 << 32, 50_000, np.uint32).view(np.float32)
    return np.concatenate([odd, exact, np.nextafter(exact, infinity), np.nextafter(exact, -infinity), random])


def assert_same_bits(found: np.ndarray, wanted: np.ndarray) -> None:
    """To the bit, and a NaN is a NaN with the same sign."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    bits, numbers = f"u{wanted.itemsize}", ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    np.testing.assert_array_equal(found[numbers].view(bits), wanted[numbers].view(bits))


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("count", [1, 3, 8, 1 << 16])
def test_every_half_is_widened(count: int, target: Target) -> None:
    native = Native(make(["f16[N]"], lambda ir, x: ir.cast(x, F32)), target)
    given = HALVES[:: HALVES.size // count][:count]
    with np.errstate(invalid="ignore"):
        assert_same_bits(native(given)[0], given.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_floats_are_rounded_to_the_nearest_half(target: Target) -> None:
    native = Native(make(["f32[N]"], lambda ir, x: ir.cast(x, F16)), target)
    x = rounded_floats()
    with np.errstate(all="ignore"):
        for given in (x, x[:1], x[1:4]):
            assert_same_bits(native(given)[0], given.astype(np.float16))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_each_operation_is_rounded(target: Target) -> None:
    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        return [ir.add(ir.mul(x, y), y), ir.mul(ir.neg(x), ir.abs(y)), ir.reduce(ir.add(x, y), "max", (1,))]

    native = Native(make(["f16[N, 256]"] * 2, build), target)
    x = HALVES.reshape(256, 256)
    y = np.random.default_rng(0).permutation(HALVES).reshape(256, 256)
    for found, wanted in zip(native(x, y), native.interpreted(x, y), strict=True):
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_movements_keep_every_number(target: Target) -> None:
    for found, wanted in every_number_moved(F16, target):
        assert_same_bits(found, wanted)


@pytest.mark.parametrize(("target", "has_instructions"), [("v2", False), ("v3", True), ("v4", True)])
def test_what_has_no_instruction_is_computed_where_it_is_wanted(target: str, has_instructions: bool) -> None:
    features = parse_target(f"cpu:x86-64-{target}").features
    f = FunctionBuilder("f", [("<8 x i16>", "x"), ("<8 x float>", "y"), ("ptr", "out")], features=features)
    x, y, out = f.parameters
    f.store(from_memory(x, F16, f), out)
    f.store(to_memory(y, F16, f), out)
    f.ret()
    assert ("fpext" in f.text(), "fptrunc" in f.text()) == (has_instructions, has_instructions)


def test_one_half_is_in_no_register_with_what_was_there() -> None:
    """A lane of its own would be inserted into a register whose other lanes a sum may still be waiting for."""
    f = FunctionBuilder("f", [("i16", "x"), ("ptr", "out")], features=parse_target("cpu:x86-64-v3").features)
    x, out = f.parameters
    f.store(from_memory(x, F16, f), out)
    f.ret()
    assert "to half" not in f.text()


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_half_is_widened_alone(target: Target) -> None:
    native = Native(make(["f16[N, 1]"], lambda ir, x: ir.scan_axis(ir.cast(x, F32), "prod", 1)), target)
    with np.errstate(invalid="ignore"):
        wanted = HALVES.astype(np.float32)
        found = native(HALVES.reshape(-1, 1))[0].reshape(-1)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_what_was_widened_is_not_rounded_again() -> None:
    f = FunctionBuilder("f", [("<8 x i16>", "x")], features=parse_target("cpu:x86-64-v2").features)
    (x,) = f.parameters
    assert to_memory(from_memory(x, F16, f), F16, f) == x
