"""Products with weights of few bits are found in what exporters write, and mean what they did."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F16, F32
from onnxc.compiler.ir.module import Op, Value, walk
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.lower.hold_block_weights import hold_block_weights
from onnxc.compiler.passes.notes import collect_notes
from onnxc.compiler.passes.recognize.recognize_block_products import recognize_block_products
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from tests.passes.golden import N, assert_same_meaning, built, f32

# Builders carry out what is done to constants of up to 1,024 elements.
K, COLUMNS, BLOCK = 96, 40, 32
RANDOM = np.random.default_rng(0)
CODES = RANDOM.integers(-8, 8, (COLUMNS, K))
SCALES = RANDOM.uniform(0.1, 1, (COLUMNS, K // BLOCK)).astype(np.float32)
ZEROS = RANDOM.integers(-8, 8, SCALES.shape)
TYPES = {"i4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "i8": np.int8, "u8": np.uint8}
MIDDLES = {"i4": 0, "u4": 8, "i8": 0, "u8": 128}


def products(make: Callable[[Builder, Value], Value]) -> tuple[list[Op], list[str]]:
    """The products that the pass leaves, and what it noted, after asserting that it means the same."""
    before = canonicalize(built([f32(N, K)], make))
    with collect_notes() as notes:
        after = recognize_block_products(before)
    verify_module(after)
    assert_same_meaning(before, after, (0, 1, 3), rounds=True)
    return [op for op in walk(after.main.body) if op.name in ("dot", "block_product")], [each.reason for each in notes]


def repeated(b: Builder, spread: np.ndarray, axis: int) -> Value:
    """A number for each block along an axis, as DequantizeLinear says it."""
    shape = (*spread.shape[: axis + 1], BLOCK, *spread.shape[axis + 1 :])
    apart = b.broadcast_to(b.unsqueeze(b.constant(spread), [axis + 1]), shape)
    return b.reshape(apart, [size * (BLOCK if own == axis else 1) for own, size in enumerate(spread.shape)])


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_along_either_axis_are_recognised(axis: int, has_zeros: bool, name: str) -> None:
    def turned(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x.T if axis == 0 else x)

    def make(b: Builder, x: Value) -> Value:
        middle = MIDDLES[name]
        weights = b.cast(b.constant(turned(CODES + middle).astype(TYPES[name])), F32)
        if has_zeros:
            weights = b.sub(weights, repeated(b, turned(ZEROS + middle).astype(np.float32), axis))
        weights = b.mul(weights, repeated(b, turned(SCALES), axis))
        return b.dot(x, weights, "mk,nk->mn" if axis else "mk,kn->mn")

    (op,), notes = products(make)
    assert (op.name, op.int("block"), op.int("bits")) == ("block_product", BLOCK, int(name[1:]))
    assert notes == []
    # Codes without sign are about a zero point of their own where the model says none.
    assert len(op.operands) == (4 if has_zeros or name[0] == "u" else 3)


def test_a_zero_point_in_the_middle_is_none() -> None:
    def make(b: Builder, x: Value) -> Value:
        weights = b.cast(b.constant((CODES + 8).astype(ml_dtypes.uint4)), F32)
        return b.dot(x, b.mul(b.sub(weights, 8), repeated(b, SCALES, 1)), "mk,nk->mn")

    (op,), _ = products(make)
    assert (op.name, len(op.operands)) == ("block_product", 3)


def test_scales_of_columns_are_those_of_one_block() -> None:
    def make(b: Builder, x: Value) -> Value:
        codes = b.cast(b.constant(CODES.astype(np.int8)), F32)
        return b.dot(x, b.mul(codes, b.broadcast(b.constant(SCALES[:, 0]), (0,), codes.shape)), "mk,nk->mn")

    (op,), _ = products(make)
    assert (op.name, op.int("block")) == ("block_product", K)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_matrix_of_several_is_recognised(index: int, is_shared: bool) -> None:
    """As of the directions of a recurrent layer: [directions, K, columns], with scales of each or of its columns."""
    both = np.stack([CODES.T, -CODES.T]).astype(np.int8)
    scales = np.stack([SCALES[:, 0], SCALES[:, 1]])[:, None]
    scales = scales[:, :, :1] if is_shared else scales

    def make(b: Builder, x: Value) -> Value:
        weights = b.mul(b.cast(b.constant(both), F32), b.broadcast_to(b.constant(scales), both.shape))
        turned = b.transpose(weights, (0, 2, 1))
        one = b.reshape(b.slice(turned, (index, 0, 0), (1, COLUMNS, K), (1, 1, 1)), (COLUMNS, K))
        return b.dot(x, one, "mk,gk->mg")

    (op,), _ = products(make)
    assert (op.name, op.int("block")) == ("block_product", K)


def test_a_part_of_blocks_is_left_alone() -> None:
    def make(b: Builder, x: Value) -> Value:
        weights = b.mul(b.cast(b.constant(CODES.astype(np.int8)), F32), repeated(b, SCALES, 1))
        return b.dot(x, b.concatenate([b.slice(weights, (0, 1), (COLUMNS, K - 1), (1, 1))] * 2, 1), "mk,nk->mn")

    def doubled(b: Builder, x: Value) -> Value:
        return make(b, b.concatenate([b.slice(x, (0, 1), (x.shape[0], K - 1), (1, 1))] * 2, 1))

    (op,), _ = products(doubled)
    assert op.name == "dot"


def test_rows_of_blocks_that_are_reshaped_and_cast_are_recognised() -> None:
    """As exporters write groups: [groups, block] with a scale for each row, then one matrix of half precision."""

    def make(b: Builder, x: Value) -> Value:
        codes = b.cast(b.constant(CODES.reshape(-1, BLOCK).astype(ml_dtypes.int4)), F32)
        weights = b.mul(codes, b.broadcast(b.constant(SCALES.reshape(-1)), (0,), codes.shape))
        half = b.cast(b.reshape(weights, (COLUMNS, K)), F16)
        return b.dot(x, b.cast(half, F32), "mk,nk->mn")

    # Weights are no longer rounded to f16 in between, so that only the form is compared.
    after = recognize_block_products(canonicalize(built([f32(N, K)], make)))
    (op,) = (op for op in walk(after.main.body) if op.name in ("dot", "block_product"))
    assert (op.name, op.int("block")) == ("block_product", BLOCK)
    scales = op.operands[2].op
    assert scales is not None
    np.testing.assert_array_equal(scales.array(), SCALES)


def test_what_a_kernel_could_not_read_is_left_with_a_reason() -> None:
    def make(b: Builder, x: Value, scales: np.ndarray) -> Value:
        codes = b.cast(b.constant(CODES.astype(np.int8)), F32)
        return b.dot(x, b.mul(codes, b.broadcast(b.constant(scales), (1,), codes.shape)), "mk,nk->mn")

    (op,), notes = products(lambda b, x: make(b, x, RANDOM.uniform(0.1, 1, K).astype(np.float32)))
    assert op.name == "dot"
    assert notes == ["scales of weights of few bits are for 1 elements, not 16 at least"]


def test_scales_of_blocks_of_columns_and_zero_points_of_other_blocks_are_left_with_a_reason() -> None:
    codes = RANDOM.integers(-8, 8, (2 * BLOCK, K)).astype(np.int8)

    def by_columns(b: Builder, x: Value) -> Value:
        scales = repeated(b, np.array([[2], [3]], np.float32), 0)
        return b.dot(x, b.mul(b.cast(b.constant(codes), F32), b.broadcast_to(scales, codes.shape)), "mk,nk->mn")

    def by_other_blocks(b: Builder, x: Value) -> Value:
        zeros = RANDOM.integers(1, 8, (len(codes), 2, 1)).astype(np.float32)
        apart = b.reshape(b.broadcast_to(b.constant(zeros), (len(codes), 2, K // 2)), codes.shape)
        scales = repeated(b, RANDOM.uniform(0.1, 1, (len(codes), K // BLOCK)).astype(np.float32), 1)
        return b.dot(x, b.mul(b.sub(b.cast(b.constant(codes), F32), apart), scales), "mk,nk->mn")

    for make in (by_columns, by_other_blocks):
        (op,), notes = products(make)
        assert op.name == "dot"
        assert notes == ["scales and zero points of weights of few bits are not those of the same blocks along k"]


def test_a_scale_that_is_not_finite_is_left_with_a_reason() -> None:
    infinite = np.where(np.arange(SCALES.size).reshape(SCALES.shape) == 0, np.float32(np.inf), SCALES)

    def make(b: Builder, x: Value) -> Value:
        return b.dot(x, b.mul(b.cast(b.constant(CODES.astype(np.int8)), F32), repeated(b, infinite, 1)), "mk,nk->mn")

    (op,), notes = products(make)
    assert op.name == "dot"
    assert notes == ["a scale or zero point of weights of few bits is not finite"]


@pytest.mark.parametrize("shape", [(), (COLUMNS,)], ids=["tensor", "columns"])
def test_uniform_scales_and_zero_points_are_constants_in_the_end(shape: tuple[int, ...]) -> None:
    """Canonicalisation makes broadcasts of them, which no kernel packs."""

    def make(b: Builder, x: Value) -> Value:
        codes = b.cast(b.constant(CODES.astype(np.int8)), F32)
        scales, zeros = (b.constant(np.full(shape, number, np.float32)) for number in (0.5, 3))
        axes = tuple(range(len(shape)))
        shifted = b.sub(codes, b.broadcast(zeros, axes, codes.shape))
        return b.dot(x, b.mul(shifted, b.broadcast(scales, axes, codes.shape)), "mk,nk->mn")

    before = canonicalize(built([f32(N, K)], make))
    after = hold_block_weights(canonicalize(recognize_block_products(before)))
    assert_same_meaning(before, after, (0, 1, 3), rounds=True)
    (op,) = (op for op in walk(after.main.body) if op.name == "block_product")
    arrays = [each.op.array() for each in op.operands[2:] if each.op is not None]
    assert [(array.shape, set(array.ravel().tolist())) for array in arrays] == [
        ((COLUMNS, 1), {0.5}),
        ((COLUMNS, 1), {3.0}),
    ]
