"""Weights of com.microsoft that are quantised in blocks: MatMulNBits and GatherBlockQuantized.

Elements of fewer than 8 bits lie packed in bytes, the first in the lowest bits.
"""

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.linear_quantization import granular
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operators.microsoft.activations import with_last_axis_bias
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import F32, I8, I64, U8
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

CODE = "quantization-blocks"
BYTE = 8

BYTES_SUFFICE = 4
"""The accuracy_level of what may be computed in bytes."""


def unpacked(x: Value, bits: int, ir: Builder) -> Value:
    """u8[..., n] -> u8[..., n * 8 / bits]: the elements of `bits` bits in each byte"""
    if bits == BYTE:
        return x
    count = BYTE // bits
    offsets = ir.mul(ir.iota((count,), 0, U8), bits)
    bytes_, offsets = ir.broadcast_together(ir.unsqueeze(x, (x.rank,)), offsets)
    return ir.reshape(_part(bytes_, offsets, bits, ir), (*x.shape[:-1], x.shape[-1] * count))


def _part(bytes_: Value, offsets: Value, bits: int, ir: Builder) -> Value:
    """u8[...], u8[...] -> u8[...]: the `bits` bits of each byte that begin at an offset"""
    return bytes_ if bits == BYTE else ir.and_(ir.shift_right(bytes_, offsets), (1 << bits) - 1)


def _expect_bits(node: Node) -> int:
    bits = node.int("bits")
    if bits not in (2, 4, BYTE):
        node.unsupported(f"bits is {bits}, and elements of 2, 4 and 8 bits are known")
    return bits


# MatMulNBits


@record
class _Blocks:
    """B is [N, K]; each of its N columns has `count` blocks of `size` elements, the last of which may be cut.

    is_rounded: whether A may be rounded to bytes.
    """

    n: int
    k: int
    size: int
    count: int
    bits: int
    is_rounded: bool

    @property
    def packed_count(self) -> int:
        """How many bytes the zero points of a column take."""
        return -(-self.count * self.bits // BYTE)


@operator("MatMulNBits", since=(1,), domain=MICROSOFT)
def matmul_n_bits(node: Node, ir: Builder) -> Value:
    """A: T1[..., K], B: u8[N, blocks, bytes], scales: T1[N, blocks], zero_points: u8, packed, or T1  ->  T1[..., N]

    A B' + bias[N], where B is (element - zero point) * scale; the zero point is 2^(bits - 1) where none is given. With
    g_idx: i32[K] the scale and zero point of element k are those of block g_idx[k].

    With accuracy_level 4 A may be rounded to 8 bits, which is done in blocks as ONNX Runtime does it; with others, and
    where the model does not hold B, products are those of floats.
    """
    a = node.input("A")
    if node.flag("weight_prepacked", False):
        node.unsupported("weight_prepacked is set: the weights lie as one device wants them")
    n, k, size = node.int("N"), node.int("K"), node.int("block_size")
    if min(n, k, size) < 1:
        node.fail("attribute-range", f"N, K and block_size are {n}, {k}, {size}", rule="ONNX Runtime MatMulNBits")
    is_rounded = node.int("accuracy_level", 0) == BYTES_SUFFICE
    blocks = _Blocks(n, k, size, -(-k // size), _expect_bits(node), is_rounded)
    known = _known_weights(blocks, node, ir)
    if known is not None:
        product_ = _product_of_codes(ir.cast(a, F32), blocks, known, ir)
    else:
        weights = ir.cast(_weights(blocks, node, ir), a.dtype)
        product_ = ir.matmul(a, ir.transpose(weights, (1, 0)), wide_type(a.dtype))
    return ir.cast(with_last_axis_bias(product_, "bias", node, ir), a.dtype)


@record
class _Weights:
    """Weights that the model holds: signed codes i8[N, K], scales and zero points f32[N, blocks].

    order: the elements of K, those of a block side by side.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray
    order: np.ndarray


def _known_weights(blocks: _Blocks, node: Node, ir: Builder) -> _Weights | None:
    """The weights where the model holds them; None where it does not, scales are not finite, or groups no blocks."""
    shape, middle = (blocks.n, blocks.count), 1 << blocks.bits - 1
    packed = _known("B", (*shape, blocks.size * blocks.bits // BYTE), node, ir)
    scales, zeros, order = (
        _known("scales", shape, node, ir),
        _known_zero_points(blocks, node, ir),
        _order(blocks, node, ir),
    )
    if packed is None or scales is None or zeros is None or order is None:
        return None
    if not (np.isfinite(scales).all() and np.isfinite(zeros).all()):
        return None
    elements = _elements(packed, blocks.bits).reshape(blocks.n, -1)[:, : blocks.k] - np.uint8(middle)
    return _Weights(elements.view(np.int8), scales.astype(np.float32), zeros - np.float32(middle), order)


def _known(name: str, shape: tuple[int, ...], node: Node, ir: Builder) -> np.ndarray | None:
    """The elements of an input at `shape`, where the model holds them."""
    _sized(node.input(name), name, shape, node, ir)
    array = ir.known_array(node.input(name))
    return None if array is None else array.reshape(shape)


def _known_zero_points(blocks: _Blocks, node: Node, ir: Builder) -> np.ndarray | None:
    """f32[N, blocks]"""
    given, shape = node.optional("zero_points"), (blocks.n, blocks.count)
    if given is None:
        return np.full(shape, 1 << blocks.bits - 1, np.float32)
    if given.dtype != U8:
        zeros = _known("zero_points", shape, node, ir)
        return None if zeros is None else zeros.astype(np.float32)
    packed = _known("zero_points", (blocks.n, blocks.packed_count), node, ir)
    return None if packed is None else _elements(packed, blocks.bits)[:, : blocks.count].astype(np.float32)


def _order(blocks: _Blocks, node: Node, ir: Builder) -> np.ndarray | None:
    """The elements of K, those of a block side by side; None where a group is not as large as its block."""
    if node.optional("g_idx") is None:
        return np.arange(blocks.k)
    groups = _known("g_idx", (blocks.k,), node, ir)
    if groups is None:
        return None
    order = np.argsort(groups, kind="stable")
    return order if np.array_equal(groups[order], np.arange(blocks.k) // blocks.size) else None


def _elements(packed: np.ndarray, bits: int) -> np.ndarray:
    """u8[..., n] -> u8[..., n * 8 / bits]"""
    parts = np.empty((*packed.shape, BYTE // bits), np.uint8)
    for ordinal in range(BYTE // bits):
        np.bitwise_and(packed >> np.uint8(ordinal * bits), np.uint8((1 << bits) - 1), out=parts[..., ordinal])
    return parts.reshape(*packed.shape[:-1], -1)


def _product_of_codes(a: Value, blocks: _Blocks, weights: _Weights, ir: Builder) -> Value:
    """A B' of weights that the model holds."""
    codes = weights.codes
    if not np.array_equal(weights.order, np.arange(blocks.k)):
        a, codes = ir.gather(a, ir.constant(weights.order), a.rank - 1), codes[:, weights.order]
    zeros = ir.constant(weights.zeros) if weights.zeros.any() else None
    scales = ir.constant(weights.scales)
    if not blocks.is_rounded or a.rank == 0:
        held = ir.constant(np.ascontiguousarray(codes))
        return ir.block_product(a, held, scales, zeros, blocks.bits, blocks.size)
    held = ir.constant(np.pad(codes, ((0, 0), (0, blocks.count * blocks.size - blocks.k))))
    depth = ir.require_equal(a.shape[-1], blocks.k, "contracted or shared sizes differ", "inner-dimensions")
    rows = rounded_to_bytes(ir.with_shape(a, (*a.shape[:-1], depth)), blocks.k, blocks.size, ir)
    return ir.byte_block_product(*rows, held, scales, zeros, blocks.bits, blocks.size)


def rounded_to_bytes(a: Value, depth: int, size: int, ir: Builder) -> tuple[Value, Value]:
    """f32[..., depth] -> i8[..., count * size], f32[..., count]: the steps of a block are 127 to its largest element"""
    count = -(-depth // size)
    outer, missing = a.shape[:-1], count * size - depth
    padded = ir.pad(a, (0,) * a.rank, (*(0,) * len(outer), missing))
    apart = ir.reshape(padded, (*outer, count, size))
    steps = ir.div(ir.reduce(ir.abs(apart), "max", (a.rank,), keepdims=True), 127.0)
    # Elements that small are 0, as their inverse would be infinite.
    is_tiny = ir.less(steps, float(np.finfo(np.float32).tiny))
    inverse = ir.select(is_tiny, 0.0, ir.div(ir.full(steps.shape, 1, F32), steps))
    codes = ir.cast(ir.round(ir.mul(*ir.broadcast_together(apart, inverse))), I8)
    return ir.reshape(codes, padded.shape), ir.squeeze(steps, (a.rank,))


def _weights(blocks: _Blocks, node: Node, ir: Builder) -> Value:
    """f32[N, K]"""
    shape = (blocks.n, blocks.count, blocks.size * blocks.bits // BYTE)
    elements = ir.cast(unpacked(_sized(node.input("B"), "B", shape, node, ir), blocks.bits, ir), F32)
    scales = ir.cast(_sized(node.input("scales"), "scales", shape[:2], node, ir), F32)
    zeros = _zero_points(blocks, node, ir)
    groups = node.optional("g_idx")
    if groups is None:
        shifted = ir.sub(elements, ir.unsqueeze(zeros, (2,)))
        return _cut(ir.mul(shifted, ir.unsqueeze(scales, (2,))), blocks, ir)
    groups = _sized(groups, "g_idx", (blocks.k,), node, ir)
    expect_in_range(groups, blocks.count, node, ir)
    groups = ir.cast(groups, I64)
    return ir.mul(ir.sub(_cut(elements, blocks, ir), ir.gather(zeros, groups, 1)), ir.gather(scales, groups, 1))


def _cut(x: Value, blocks: _Blocks, ir: Builder) -> Value:
    """T[N, blocks, size] -> T[N, K]"""
    return ir.slice(ir.reshape(x, (blocks.n, blocks.count * blocks.size)), (0, 0), (blocks.n, blocks.k))


def _zero_points(blocks: _Blocks, node: Node, ir: Builder) -> Value:
    """f32[N, blocks]"""
    given, shape = node.optional("zero_points"), (blocks.n, blocks.count)
    if given is None:
        return ir.full(shape, 1 << blocks.bits - 1, F32)
    if given.dtype != U8:
        return ir.cast(_sized(given, "zero_points", shape, node, ir), F32)
    packed = _sized(given, "zero_points", (blocks.n, blocks.packed_count), node, ir)
    return ir.cast(ir.slice(unpacked(packed, blocks.bits, ir), (0, 0), shape), F32)


def _sized(value: Value, name: str, shape: tuple[int, ...], node: Node, ir: Builder) -> Value:
    """The input at `shape`; older models have it flat."""
    if value.rank != len(shape) and product(value.shape) == product(shape):
        return ir.reshape(value, shape)
    return of_shape(value, shape, name, node, ir, CODE)


# GatherBlockQuantized


@operator("GatherBlockQuantized", since=(1,), domain=MICROSOFT)
def gather_block_quantized(node: Node, ir: Builder) -> Value:
    """data: T1[d...], indices: I[i...], scales: T2[d... / block_size], zero_points: T1 as scales  ->  T2

    As Gather along gather_axis of (data - zero point) * scale, quantised in blocks along quantize_axis.
    """
    data, indices, scales = node.inputs("data", "indices", "scales")
    zeros = node.optional("zero_points")
    axis, along = node.axis("gather_axis", rank=data.rank), node.axis("quantize_axis", rank=data.rank)
    expect_in_range(indices, data.shape[axis], node, ir)
    wrapped = ir.cast(ir.wrap_negative(indices, data.shape[axis]), I64)
    if axis == along:
        return ir.gather(_real(data, scales, zeros, along, node, ir), wrapped, axis)
    moved = along + (indices.rank - 1 if along > axis else 0)

    def rows(x: Value) -> Value:
        """Those of a scale that is the same for all are that scale"""
        return ir.gather(x, wrapped if x.shape[axis] == data.shape[axis] else ir.mul(wrapped, 0), axis)

    return _real(rows(data), rows(scales), None if zeros is None else rows(zeros), moved, node, ir)


def _real(data: Value, scales: Value, zeros: Value | None, along: int, node: Node, ir: Builder) -> Value:
    """(data - zeros) * scales, in the type of the scales"""
    middle = 0
    if data.dtype == U8:
        bits = _expect_bits(node)
        data, middle = unpacked(data, bits, ir), 1 << bits - 1
        if zeros is not None:
            zeros = unpacked(zeros, bits, ir)
            zeros = ir.slice(zeros, (0,) * zeros.rank, scales.shape)
    block = node.int("block_size")
    if block < 1:
        node.unsupported(f"block_size is {block}")
    target = [scales.shape[axis] if axis == along else size for axis, size in enumerate(data.shape)]
    factor = granular(ir.broadcast_to(ir.cast(scales, F32), target), data.shape, along, block, node, ir)
    wide = ir.cast(data, F32)
    if zeros is not None:
        shift = granular(ir.cast(zeros, F32), data.shape, along, block, node, ir)
    else:
        shift = ir.full(data.shape, middle, F32)
    return ir.cast(ir.mul(ir.sub(wide, shift), factor), scales.dtype)
