"""Weights of few bits that a model holds: integers less a zero point, times a scale, of blocks along an axis.

This is what DequantizeLinear comes to, whatever exporters put between it and the product. Nothing here knows of the
products that read it.
"""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import DTYPES, F32, DType
from onnxc.compiler.ir.makers import constant_of, made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.runtime.records import record

__all__ = ["BlockWeights", "PerBlock", "block_weights"]

CODES: tuple[DType, ...] = tuple(DTYPES[name] for name in ("i2", "u2", "i4", "u4", "i8", "u8"))
"""What weights are quantised to."""

FLOATS = ("f32", "f16", "bf16")


@record
class PerBlock:
    """Scales or zero points of several elements of a matrix each: [rows or 1, columns or 1], or blocks along one axis.

    blocks: for each axis how many elements of the matrix have one in common; an axis of size 1 has it for all.
    """

    array: np.ndarray
    blocks: tuple[int, ...]

    def turned(self, order: Sequence[int]) -> "PerBlock":
        """The same beside a matrix with its axes in another order."""
        return PerBlock(self.array.transpose(order), tuple(self.blocks[axis] for axis in order))


@record
class BlockWeights:
    """(codes - zeros) * scales: `codes` of an integer type, the others f32; no zeros where they are 0."""

    codes: np.ndarray
    dtype: DType
    scales: PerBlock
    zeros: PerBlock | None

    def turned(self, order: Sequence[int]) -> "BlockWeights":
        """The same with the axes in another order."""
        zeros = None if self.zeros is None else self.zeros.turned(order)
        return BlockWeights(self.codes.transpose(order), self.dtype, self.scales.turned(order), zeros)


def block_weights(value: Value) -> BlockWeights | None:
    """What `value` is as integers, zero points and scales that the model holds; None where it is not that."""
    op = value.op
    if op is None or value.dtype.name not in FLOATS:
        return None
    if op.name == "transpose":
        inner = block_weights(op.operands[0])
        return None if inner is None else inner.turned(op.ints("permutation"))
    if op.name == "cast":
        return block_weights(op.operands[0])
    if op.name == "reshape":
        inner = block_weights(op.operands[0])
        return None if inner is None else _flat(inner, op.result.shape) or _side_by_side(inner, op.result.shape)
    if op.name == "slice":
        inner = block_weights(op.operands[0])
        return None if inner is None else _part(inner, op)
    return _scaled(op) if op.name == "mul" and value.dtype == F32 else None


def _scaled(product: Op) -> BlockWeights | None:
    """The codes of a product with scales."""
    for shifted, factor in (product.operands, product.operands[::-1]):
        difference, zeros = made_by(shifted, "sub"), None
        if difference is not None:
            shifted, zeros = difference.operands[0], _spread(difference.operands[1])
        codes, scales = _codes(shifted), _spread(factor)
        if codes is not None and scales is not None and (difference is None or zeros is not None):
            return BlockWeights(*codes, scales, zeros)
    return None


def _part(weights: BlockWeights, op: Op) -> BlockWeights | None:
    """A slice along axes of which each index has scales and zero points of its own, or shares them with all."""
    bounds = zip(op.dims("starts"), op.result.shape, op.ints("steps"), strict=True)
    cuts = [
        slice(start, start + size * step, step)
        for start, size, step in bounds
        if isinstance(start, int) and isinstance(size, int) and step > 0
    ]
    spreads = [spread for spread in (weights.scales, weights.zeros) if spread is not None]
    if len(cuts) < weights.codes.ndim or any(set(spread.blocks) != {1} for spread in spreads):
        return None

    def cut(spread: PerBlock) -> PerBlock:
        own = (each if size > 1 else slice(None) for each, size in zip(cuts, spread.array.shape, strict=True))
        return PerBlock(spread.array[tuple(own)], spread.blocks)

    zeros = None if weights.zeros is None else cut(weights.zeros)
    return BlockWeights(weights.codes[tuple(cuts)], weights.dtype, cut(weights.scales), zeros)


def _flat(weights: BlockWeights, shape: Sequence[Dim]) -> BlockWeights | None:
    """The same without axes of size 1; None for other reshapes."""
    kept = [axis for axis, size in enumerate(weights.codes.shape) if size != 1]
    sizes = tuple(weights.codes.shape[axis] for axis in kept)
    if sizes != tuple(shape):
        return None

    def flat(spread: PerBlock) -> PerBlock:
        array = spread.array.reshape([spread.array.shape[axis] for axis in kept])
        return PerBlock(array, tuple(spread.blocks[axis] for axis in kept))

    zeros = None if weights.zeros is None else flat(weights.zeros)
    return BlockWeights(weights.codes.reshape(sizes), weights.dtype, flat(weights.scales), zeros)


def _side_by_side(weights: BlockWeights, shape: Sequence[Dim]) -> BlockWeights | None:
    """Rows [..., block] with a scale each as [rows, columns], whose blocks are neighbours; None for other reshapes."""
    *outer, block = weights.codes.shape
    sizes = tuple(size for size in shape if isinstance(size, int))
    if len(sizes) != 2 or len(shape) != 2 or not block or sizes[1] % block:
        return None
    blocks = (sizes[0], sizes[1] // block)

    def side_by_side(spread: PerBlock) -> PerBlock | None:
        is_fit = spread.array.shape == (*outer, 1) and set(spread.blocks) == {1}
        return PerBlock(spread.array.reshape(blocks), (1, block)) if is_fit else None

    scales = side_by_side(weights.scales)
    zeros = None if weights.zeros is None else side_by_side(weights.zeros)
    if scales is None or (zeros is None and weights.zeros is not None):
        return None
    return BlockWeights(weights.codes.reshape(sizes), weights.dtype, scales, zeros)


def _codes(value: Value) -> tuple[np.ndarray, DType] | None:
    """The integers that are cast, where the model holds them, and their type."""
    cast = made_by(value, "cast")
    array = None if cast is None else constant_of(cast.operands[0])
    if cast is None or array is None or cast.operands[0].dtype not in CODES:
        return None
    return array, cast.operands[0].dtype


def _spread(value: Value) -> PerBlock | None:
    """Constants through casts, broadcasts, the reshape that repeats them in blocks, and the slice of a last one."""
    array, op = constant_of(value), value.op
    if array is not None:
        return PerBlock(array.astype(np.float32), (1,) * array.ndim)
    if op is None or not all(isinstance(size, int) for size in value.shape):
        return None
    match op.name:
        case "cast":
            return _spread(op.operands[0])
        case "transpose":
            inner = _spread(op.operands[0])
            return None if inner is None else inner.turned(op.ints("permutation"))
        case "slice" if not any(op.dims("starts")) and set(op.ints("steps")) == {1}:
            return _spread(op.operands[0])
        case "broadcast":
            return _broadcast(op)
        case "reshape":
            return _repeated(op)
    return None


def _broadcast(op: Op) -> PerBlock | None:
    """Axes of size 1 where a constant repeats."""
    inner, axes = _spread(op.operands[0]), op.ints("axes")
    if inner is None:
        return None
    sizes, blocks = [1] * op.result.rank, [1] * op.result.rank
    for axis, size, block in zip(axes, inner.array.shape, inner.blocks, strict=True):
        sizes[axis], blocks[axis] = size, block
    return PerBlock(inner.array.reshape(sizes), tuple(blocks))


def _repeated(op: Op) -> PerBlock | None:
    """[..., blocks, block, ...] as [..., blocks * block, ...], of what is one element for each block."""
    inner, before, after = _spread(op.operands[0]), op.operands[0].shape, op.result.shape
    if inner is None or set(inner.blocks) != {1} or len(before) != len(after) + 1:
        return None
    for axis, size in enumerate(after):
        block = before[axis + 1]
        merged = (*before[:axis], size, *before[axis + 2 :])
        if merged == after and inner.array.shape[axis + 1] == 1 and isinstance(block, int):
            blocks = tuple(block if other == axis else 1 for other in range(len(after)))
            return PerBlock(inner.array.squeeze(axis + 1), blocks)
    return None
