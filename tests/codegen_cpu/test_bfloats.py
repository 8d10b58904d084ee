"""bf16 in kernels of every processor: what is rounded, what is stored as it was, and NaN of any kind."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.element_types import from_memory, literal, round_register
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.cpu import host_architecture
from tests.codegen_cpu.support import EVERY_TARGET, Native, every_number_moved, make

TARGETS = (*((parse_target("cpu:x86-64"),) if host_architecture() == "x86_64" else ()), *EVERY_TARGET)

BITS = np.arange(1 << 16, dtype=np.uint16)
NUMBERS = BITS.view(BF16.numpy)


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Every number beside a drawn one, and the odd ones beside each other, NaN with all its bits or one among them."""
    odd = np.array([0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7F81, 0x7FFF, 0xFFC0, 0xFFFF,
                    0x3F80, 0xBF80, 0x3F81, 0x4B80], np.uint16)  # fmt: skip
    left, right = (side.reshape(-1) for side in np.meshgrid(odd, odd))
    x, y = np.concatenate([BITS, left]), np.concatenate([np.random.default_rng(0).permutation(BITS), right])
    return x.view(BF16.numpy), y.view(BF16.numpy)


def assert_same_numbers(found: np.ndarray, wanted: np.ndarray) -> None:
    """To the bit, with the sign of zeros; a NaN is a NaN."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    numbers = ~np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(~np.isnan(found.astype(np.float32)), numbers)
    np.testing.assert_array_equal(found[numbers].view(np.uint16), wanted[numbers].view(np.uint16))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_each_operation_is_rounded_once(target: Target) -> None:
    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        one = ir.full(x.shape, 1, BF16)
        return [
            *(getattr(ir, name)(x, y) for name in ("add", "sub", "mul", "div")),
            ir.sqrt(x),
            ir.add(ir.mul(x, y), y),
            ir.mul(ir.neg(x), ir.abs(y)),
            ir.max(ir.sub(x, y), one),
            ir.select(ir.less(x, y), ir.add(x, y), one),
        ]

    native = Native(make(["bf16[N]"] * 2, build), target)
    x, y = pairs()
    for size in (x.size, 1, 7):
        for found, wanted in zip(native(x[-size:], y[-size:]), native.interpreted(x[-size:], y[-size:]), strict=True):
            assert_same_numbers(found, wanted)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", ["min", "max"])
def test_the_least_and_greatest_are_one_of_both(name: str, target: Target) -> None:
    """Of two zeros either."""
    native, (x, y) = Native(make(["bf16[N]"] * 2, lambda ir, x, y: getattr(ir, name)(x, y)), target), pairs()
    found, wanted = native(x, y)[0], native.interpreted(x, y)[0]
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_what_is_computed_in_f32_is_rounded_where_it_has_more_bits(target: Target) -> None:
    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        wide, other = ir.cast(x, F32), ir.cast(y, F32)
        tenth, half = (ir.full(x.shape, value, F32) for value in (0.1, 0.5))
        return [
            ir.cast(ir.max(wide, half), BF16),
            ir.cast(ir.max(wide, tenth), BF16),
            ir.cast(ir.floor(wide), BF16),
            ir.cast(ir.add(wide, other), BF16),
            ir.cast(ir.select(ir.less(x, y), wide, tenth), BF16),
        ]

    native = Native(make(["bf16[N]"] * 2, build), target)
    for found, wanted in zip(native(*pairs()), native.interpreted(*pairs()), strict=True):
        assert_same_numbers(found, wanted)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_floats_are_rounded_to_the_nearest_even(target: Target) -> None:
    native = Native(make(["f32[N]"], lambda ir, x: ir.cast(x, BF16)), target)
    above = (BITS.astype(np.uint32) << 16)[:, None] + np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    x = above.reshape(-1).view(np.float32)
    with np.errstate(all="ignore"):
        assert_same_numbers(native(x)[0], x.astype(BF16.numpy))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_what_only_moves_keeps_its_bits(target: Target) -> None:
    for found, wanted in every_number_moved(BF16, target):
        np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


def test_what_is_rounded_is_not_rounded_again() -> None:
    f = FunctionBuilder("f", [("<8 x i16>", "x"), ("<8 x float>", "y")])
    x, y = f.parameters
    wide, rounded = from_memory(x, BF16, f), round_register(y, BF16, f)
    assert rounded != y
    assert [round_register(each, BF16, f) for each in (wide, rounded)] == [wide, rounded]


@pytest.mark.parametrize(("value", "has_few_bits"), [(0.0, True), (-0.5, True), (0.1, False), (1e300, True)])
def test_a_constant_is_known_to_be_a_number_of_bf16(value: float, has_few_bits: bool) -> None:
    f = FunctionBuilder("f", [])
    constant = literal(value, F32, f)
    assert (round_register(constant, BF16, f) == constant) == has_few_bits
