"""Rows of bytes by weights of few bits, beside their meaning."""

from dataclasses import dataclass

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import dotted_codes
from onnxc.compiler.codegen_cpu.schedules.block_products import MOST_BLOCKS, MOST_SUMMED, multiplies_bytes
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I8
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.schedules import BlockProductSchedule
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, HOST, Native, make, precision, sample

ROWS = (0, 1, 2, 3, 7, 9, 300)
"""Few and many, of which some are multiplied at once; 300 are several chunks, of which the last is of fewer."""


@dataclass(frozen=True)
class Weights:
    """Weights of so many bits in blocks of so many along the depth."""

    bits: int
    block: int
    blocks: int
    columns: int
    has_zeros: bool = False

    def __str__(self) -> str:
        return f"{self.blocks} x {self.block} x {self.columns} of {self.bits} bits{' shifted' * self.has_zeros}"

    @property
    def depth(self) -> int:
        return self.blocks * self.block

    def product(self, ir: Builder, x: Value, steps: Value) -> Value:
        random, half = np.random.default_rng(3), 1 << self.bits - 1
        spread = (self.columns, self.blocks)
        codes = random.integers(-half, half, (self.columns, self.depth)).astype(np.int8)
        scales, zeros = (random.standard_normal(spread).astype(np.float32) for _ in range(2))
        shifts = ir.constant(zeros) if self.has_zeros else None
        weights = ir.constant(codes), ir.constant(scales), shifts
        return ir.byte_block_product(x, steps, *weights, self.bits, self.block)

    def native(self, target: Target) -> Native:
        return Native(make([f"i8[N, {self.depth}]", f"f32[N, {self.blocks}]"], self.product), target)


CASES = (
    Weights(4, 32, 3, 130),
    Weights(4, 16, 5, 33, has_zeros=True),
    Weights(2, 48, 2, 5, has_zeros=True),
    Weights(2, 16, 1, 64),
    Weights(8, 32, 3, 20, has_zeros=True),
    Weights(8, 128, 2, 65),
    # So many blocks that a chunk has no more rows than are multiplied at once.
    Weights(4, 16, 1200, 17, has_zeros=True),
)


@pytest.mark.parametrize(
    ("weights", "target"),
    [(weights, target) for weights in CASES for target in EVERY_TARGET if weights.bits in dotted_codes(target)],
    ids=str,
)
def test_any_number_of_rows_is_multiplied(weights: Weights, target: Target) -> None:
    compiled = weights.native(target)
    assert compiled.kernels() == ["block_product"]
    for rows in ROWS:
        x = np.random.default_rng(rows).integers(-128, 128, (rows, weights.depth)).astype(np.int8)
        # The sums of all blocks are rounded once each, where those of the meaning are not.
        compiled.check(x, sample(F32, rows, weights.blocks), bound=4 * precision(F32))


@pytest.mark.parametrize("target", [target for target in EVERY_TARGET if dotted_codes(target)], ids=str)
@pytest.mark.parametrize("rows", [1, 8, 20])
@pytest.mark.parametrize("x", [-128, 127])
@pytest.mark.parametrize("code", [-8, 7])
def test_the_largest_sums_are_exact(code: int, x: int, rows: int, target: Target) -> None:
    def build(ir: Builder, x: Value, steps: Value) -> Value:
        codes = ir.constant(np.full((40, 4096), code, np.int8))
        return ir.byte_block_product(x, steps, codes, ir.constant(np.full((40, 1), 2, np.float32)), None, 4, 4096)

    compiled = Native(make(["i8[N, 4096]", "f32[N, 1]"], build), target)
    (y,) = compiled(np.full((rows, 4096), x, np.int8), np.full((rows, 1), 0.5, np.float32))
    assert y.dtype == np.float32
    assert y.tolist() == [[float(4096 * x * code)] * 40] * rows


def test_a_step_that_is_not_finite_reaches_the_result() -> None:
    weights = Weights(4, 32, 2, 20)
    steps = np.array([[np.inf, 1], [1, np.nan], [1, 1]], np.float32)
    (y,) = weights.native(HOST)(np.ones((3, 64), np.int8), steps)
    assert not np.isfinite(y[0]).any()
    assert np.isnan(y[1]).all()
    assert np.isfinite(y[2]).all()


def test_what_follows_joins_the_kernel_and_rows_have_any_axes() -> None:
    weights = Weights(4, 32, 2, 70)

    def build(ir: Builder, x: Value, steps: Value, residual: Value) -> Value:
        biased = ir.add(weights.product(ir, x, steps), 1.0)
        return ir.add(ir.mul(biased, ir.sigmoid(biased)), residual)

    compiled = Native(make(["i8[B, N, 64]", "f32[B, N, 2]", "f32[B, N, 70]"], build), HOST)
    assert compiled.kernels() == ["block_product"]
    compiled.check(sample(I8, 3, 5, 64), sample(F32, 3, 5, 2), sample(F32, 3, 5, 70), bound=1e-5)


def test_rows_that_are_not_dense_are_copied_first() -> None:
    weights = Weights(4, 32, 2, 70)

    def build(ir: Builder, x: Value, steps: Value) -> Value:
        return weights.product(ir, ir.transpose(x, (1, 0)), ir.transpose(steps, (1, 0)))

    compiled = Native(make(["i8[64, N]", "f32[2, N]"], build), HOST)
    assert compiled.kernels() == ["pointwise", "pointwise", "block_product"]
    compiled.check(sample(I8, 64, 9), sample(F32, 2, 9), bound=4 * precision(F32))


def test_weights_lie_as_narrow_as_they_are() -> None:
    compiled = Weights(4, 32, 4, 256).native(HOST)
    (kernel,) = compiled.plan.kernels
    schedule = kernel.scheduled(BlockProductSchedule)
    assert "groups of 4 bits in blocks of 32" in str(schedule)
    assert str(schedule.arithmetic) == "i8 -> i32"
    # Half a byte for each code, and four for each scale.
    assert compiled.artifact.weights.nbytes == 256 * 128 // 2 + 256 * 4 * 4


def test_what_has_no_kernel_of_bytes_is_known() -> None:
    def has_kernel(block: int, blocks: int, columns: int = 1, bits: int = 4) -> bool:
        made = make(
            [
                f"i8[1, {block * blocks}]",
                f"f32[1, {blocks}]",
                f"i8[{columns}, {block * blocks}]",
                f"f32[{columns}, {blocks}]",
            ],
            lambda ir, *operands: ir.byte_block_product(*operands, None, bits, block),
        )
        return multiplies_bytes(made.main.body.ops[0], HOST)

    assert has_kernel(16, MOST_BLOCKS)
    assert not has_kernel(16, MOST_BLOCKS + 1)
    assert has_kernel(MOST_SUMMED, 1)
    assert not has_kernel(2 * MOST_SUMMED, 1)
    assert not has_kernel(24, 1)
    assert not has_kernel(32, 1, columns=0)
