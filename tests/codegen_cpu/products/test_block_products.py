"""Products with weights of few bits: codes in registers for few rows, written out for many, beside their meaning."""

from dataclasses import dataclass

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.schedules.block_products import BLOCK_DEPTH, MANY_ROWS
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.planning.schedules import BlockProductSchedule
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, HOST, Native, make, precision, sample

ROWS = (0, 1, 2, 3, 7, 9, MANY_ROWS - 1, MANY_ROWS, 300)
"""Few and many, of which some are multiplied at once; 300 are two chunks, of which the second is of few."""


@dataclass(frozen=True)
class Weights:
    """Weights of so many bits in blocks of so many along the depth."""

    bits: int
    block: int
    depth: int
    columns: int
    has_zeros: bool = False

    def __str__(self) -> str:
        return f"{self.depth}x{self.columns} of {self.bits} bits by {self.block}{' shifted' * self.has_zeros}"

    def product(self, ir: Builder, x: Value) -> Value:
        random, half = np.random.default_rng(3), 1 << self.bits - 1
        spread = (self.columns, -(-self.depth // self.block))
        codes = random.integers(-half, half, (self.columns, self.depth)).astype(np.int8)
        scales, zeros = (random.standard_normal(spread).astype(np.float32) for _ in range(2))
        shifts = ir.constant(zeros) if self.has_zeros else None
        return ir.block_product(x, ir.constant(codes), ir.constant(scales), shifts, self.bits, self.block)


CASES = (
    Weights(4, 32, 96, 130),
    Weights(4, 16, 70, 33, has_zeros=True),
    Weights(2, 20, 50, 5, has_zeros=True),
    Weights(8, 32, 65, 20, has_zeros=True),
    # Of one block the codes are written out in several parts, of which the second begins within it.
    Weights(8, BLOCK_DEPTH + 90, BLOCK_DEPTH + 90, 20),
    Weights(4, BLOCK_DEPTH + 8, 2 * BLOCK_DEPTH + 50, 17, has_zeros=True),
    Weights(4, 32, 20, 3),
    Weights(4, 32, 0, 5),
)


def native(weights: Weights, target: Target, rows: str = "N") -> Native:
    return Native(make([f"f32[{rows}, {weights.depth}]"], weights.product), target)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("weights", CASES, ids=str)
def test_any_number_of_rows_is_multiplied(weights: Weights, target: Target) -> None:
    compiled = native(weights, target)
    assert compiled.kernels() == ["block_product"]
    for rows in ROWS:
        compiled.check(sample(F32, rows, weights.depth), bound=2 * precision(F32))


@pytest.mark.parametrize("rows", [1, MANY_ROWS])
def test_whole_numbers_are_exact(rows: int) -> None:
    """3 * (2 * 7 - 8 * 5) of each column, whose codes are 7 and -8 in turn"""

    def build(ir: Builder, x: Value) -> Value:
        codes = np.tile(np.array([7, -8], np.int8), (40, 16))
        return ir.block_product(x, ir.constant(codes), ir.constant(np.full((40, 1), 3, np.float32)), None, 4, 32)

    x = np.tile(np.array([2, 5], np.float32), (rows, 16))
    (y,) = Native(make([f"f32[{rows}, 32]"], build), HOST)(x)
    assert y.tolist() == [[16 * 3 * (2 * 7 - 8 * 5)] * 40] * rows


def test_what_follows_joins_the_kernel_and_rows_have_any_axes() -> None:
    weights = Weights(4, 32, 64, 70)

    def build(ir: Builder, x: Value, residual: Value) -> Value:
        bias = ir.constant(sample(F32, 70, seed=2))
        biased = ir.add(weights.product(ir, x), ir.broadcast(bias, (2,), residual.shape))
        return ir.add(ir.mul(biased, ir.sigmoid(biased)), residual)

    compiled = Native(make(["f32[B, N, 64]", "f32[B, N, 70]"], build), HOST)
    assert compiled.kernels() == ["block_product"]
    compiled.check(sample(F32, 3, 5, 64), sample(F32, 3, 5, 70), bound=1e-5)


def test_rows_that_are_not_dense_are_copied_first() -> None:
    weights = Weights(4, 32, 64, 70)
    compiled = Native(make(["f32[64, N]"], lambda ir, x: weights.product(ir, ir.transpose(x, (1, 0)))), HOST)
    assert compiled.kernels() == ["pointwise", "block_product"]
    compiled.check(sample(F32, 64, 9), bound=2 * precision(F32))


def module_of(weights: Weights) -> Module:
    return make([f"f32[1, {weights.depth}]"], weights.product)


def test_weights_lie_as_narrow_as_they_are() -> None:
    compiled = Native(module_of(Weights(4, 32, 128, 256)), HOST)
    (kernel,) = compiled.plan.kernels
    schedule = kernel.scheduled(BlockProductSchedule)
    assert schedule.packing is not None
    assert "4 bits in blocks of 32" in str(schedule)
    # Half a byte for each code, and four for each scale.
    assert compiled.artifact.weights.nbytes == 256 * 128 // 2 + 256 * 4 * 4
