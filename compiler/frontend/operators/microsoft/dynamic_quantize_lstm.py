"""DynamicQuantizeLSTM of com.microsoft: an LSTM with quantised weights."""

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.recurrent_cells import Direction, of_floats
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operator_helpers.standard_nodes import standard_node
from onnxc.compiler.frontend.operators.microsoft.block_quantized import rounded_to_bytes
from onnxc.compiler.frontend.operators.recurrent.lstm import lower_lstm
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

CODE = "recurrent-shape"
OTHERS = ("B", "sequence_lens", "initial_h", "initial_c", "P")

BLOCK = 16
"""Kernels add up so many bytes at once: there are zeros behind rows that are no multiple."""


@operator("DynamicQuantizeLSTM", since=(1,), domain=MICROSOFT)
def dynamic_quantize_lstm(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """X: f32[L, B, I], W: T2[D, I, 4 H], R: T2[D, H, 4 H], scales and zero points: [D] or [D, 4 H], as LSTM from there

    ONNX Runtime rounds what the weights are multiplied with to bytes in every step, all rows with one scale. Here each
    row is rounded to 127 steps of its largest element, where the model holds the weights, and stays f32 elsewhere.
    """
    held = {name: _held(name, node, ir) for name in ("W", "R")}

    def by_weights(name: str, direction: Direction, rows: Value, ir: Builder) -> Value:
        weights = held[name]
        if weights is None:
            return of_floats(name, direction, rows, ir)
        return _of_bytes(weights, direction.ordinal, rows, ir)

    operands = (node.input("X"), *(_real(name, node, ir) for name in ("W", "R")), *map(node.optional, OTHERS))
    return lower_lstm(standard_node(node, "LSTM", 7, operands), by_weights, ir)


def _real(name: str, node: Node, ir: Builder) -> Value:
    """f32[D, 4 H, I]: the weights, dequantised, with the axes that LSTM has"""
    weights = of_shape(node.input(name), (None, None, None), name, node, ir, CODE)
    scale, zero = (ir.cast(_per_column(f"{name}_{part}", weights, node, ir), F32) for part in ("scale", "zero_point"))
    return ir.transpose(ir.mul(ir.sub(ir.cast(weights, F32), zero), scale), (0, 2, 1))


def _per_column(name: str, weights: Value, node: Node, ir: Builder) -> Value:
    """T[D, 1, 1] or T[D, 1, 4 H]"""
    value = node.input(name)
    if value.rank == 2:
        return ir.unsqueeze(of_shape(value, (weights.shape[0], weights.shape[2]), name, node, ir, CODE), (1,))
    return ir.unsqueeze(of_shape(value, (weights.shape[0],), name, node, ir, CODE), (1, 2))


@record
class _HeldWeights:
    """W or R where the model holds it: signed codes [D, I, 4 H], scales and zero points that broadcast with them."""

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray


def _held(name: str, node: Node, ir: Builder) -> _HeldWeights | None:
    """Weights with their scales and zero points, None where the model does not hold them."""
    weights = of_shape(node.input(name), (None, None, None), name, node, ir, CODE)
    scale, zero = (_per_column(f"{name}_{part}", weights, node, ir) for part in ("scale", "zero_point"))
    codes, scales, zeros = (ir.known_array(each) for each in (weights, scale, zero))
    if codes is None or scales is None or zeros is None or 0 in codes.shape or not np.isfinite(scales).all():
        return None
    middle = 0 if codes.dtype == np.int8 else 128
    signed = (codes.view(np.uint8) - np.uint8(middle)).view(np.int8)
    return _HeldWeights(signed, scales.astype(np.float32), zeros.astype(np.float32) - np.float32(middle))


def _of_bytes(held: _HeldWeights, ordinal: int, rows: Value, ir: Builder) -> Value:
    """[..., I] -> [..., 4 H]: rows, rounded, by the weights of a direction."""
    _, depth, columns = held.codes.shape
    size = -(-depth // BLOCK) * BLOCK
    codes = np.pad(held.codes[ordinal].T, ((0, 0), (0, size - depth)))
    scales, zeros = (
        np.broadcast_to(each[ordinal, 0], columns).reshape(columns, 1) for each in (held.scales, held.zeros)
    )
    shifted = ir.constant(np.ascontiguousarray(zeros)) if zeros.any() else None
    spreads = ir.constant(np.ascontiguousarray(scales)), shifted
    return ir.byte_block_product(*rounded_to_bytes(rows, depth, size, ir), ir.constant(codes), *spreads, 8, size)
