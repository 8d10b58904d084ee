"""Products with weights of few bits, in whatever form an exporter wrote them, as `block_product`.

(codes - zeros) * scales beside one matrix of activations: the weights stay as narrow as they are, and a scale is
multiplied once for a block rather than for each weight, which rounds once where each weight was rounded.
"""

import numpy as np

from onnxc.compiler.ir.dtypes import BF16, F16, F32
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.block_weights import BlockWeights, PerBlock, block_weights
from onnxc.compiler.passes.notes import note_refusal
from onnxc.runtime.records import record

LEAST_BLOCK = 16
"""The smallest blocks of any exporter; of smaller ones the scales take as much memory as bytes would."""


def recognize_block_products(module: Module) -> Module:
    """Makes products with weights of few bits of products with what these stand for."""
    return rewrite(module, [multiply_blocks], note_refusal)


@record
class _Matrix:
    """Weights [N, K] whose scales and zero points are [N, blocks] of `block` elements along K."""

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    bits: int
    block: int


@rule("dot")
def multiply_blocks(op: Op, build: Rewriter) -> Value | Refusal | None:
    """dot(x, (codes - zeros) scales) = block_product(x, codes, scales, zeros), where the model holds the weights"""
    if op.dtype() not in (F32, F16, BF16):
        return None
    x, w = op.operands
    weights = block_weights(w)
    if weights is None:
        return None
    order = _order(op)
    if order is None:
        return Refusal("weights of few bits are multiplied along more than one axis, or not by rows")
    matrix = _matrix(weights.turned(order))
    if isinstance(matrix, Refusal):
        return matrix
    zeros = None if matrix.zeros is None else build.constant(matrix.zeros)
    codes, scales = build.constant(matrix.codes), build.constant(matrix.scales)
    total = build.block_product(build.cast(x, F32), codes, scales, zeros, matrix.bits, matrix.block)
    return build.cast(total, op.dtype())


def _order(op: Op) -> tuple[int, int] | None:
    """The axes of the right operand as (n, k), where the product is one of rows [..., k] by a matrix."""
    left, right, result = parse_equation(op.text("equation"))
    if len(right) != 2 or not left or left[-1] not in right:
        return None
    k = left[-1]
    n = right.replace(k, "")
    return (right.index(n), right.index(k)) if n not in left and result == left[:-1] + n else None


def _matrix(weights: BlockWeights) -> _Matrix | Refusal:
    """The weights as a kernel takes them, or why they cannot be so."""
    columns, depth = weights.codes.shape
    spreads = [spread for spread in (weights.scales, weights.zeros) if spread is not None]
    sizes = {_block(spread, depth) for spread in spreads} - {depth}
    if len(sizes) > 1 or any(not _fits(spread, (columns, depth)) for spread in spreads):
        return Refusal("scales and zero points of weights of few bits are not those of the same blocks along k")
    block = sizes.pop() if sizes else max(depth, 1)
    if block < min(LEAST_BLOCK, depth):
        return Refusal(f"scales of weights of few bits are for {block} elements, not {LEAST_BLOCK} at least")
    narrow = np.int8 if weights.dtype.is_signed else np.uint8
    middle = 0 if weights.dtype.is_signed else 1 << weights.dtype.bits - 1
    codes = (np.ascontiguousarray(weights.codes.astype(narrow)).view(np.uint8) - np.uint8(middle)).view(np.int8)
    shape = (columns, -(-depth // block))
    zeros = np.float32(-middle) + np.zeros(shape, np.float32)
    if weights.zeros is not None:
        zeros = zeros + weights.zeros.array
    scales = np.ascontiguousarray(np.broadcast_to(weights.scales.array, shape))
    if not np.isfinite(scales).all() or not np.isfinite(zeros).all():
        return Refusal("a scale or zero point of weights of few bits is not finite")
    return _Matrix(codes, scales, zeros if zeros.any() else None, weights.dtype.bits, block)


def _block(spread: PerBlock, depth: int) -> int:
    """How many neighbours along k have a scale or zero point in common."""
    return depth if spread.array.shape[1] == 1 else spread.blocks[1]


def _fits(spread: PerBlock, shape: tuple[int, int]) -> bool:
    """Whether there is one for each block; blocks are along k alone."""
    counts = [-(-size // block) for size, block in zip(shape, spread.blocks, strict=True)]
    pairs = zip(spread.array.shape, counts, strict=True)
    return spread.blocks[0] == 1 and all(count in (1, wanted) for count, wanted in pairs)
