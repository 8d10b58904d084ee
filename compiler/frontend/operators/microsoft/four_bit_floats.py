"""MatMulBnb4 of com.microsoft: a product with weights of 4-bit floats, in the two formats of bitsandbytes."""

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value

RULE = "ONNX Runtime MatMulBnb4"
CODE = "quantization-blocks"
FP4_MAGNITUDES = (0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
# Quantiles of the normal distribution, of which 0 and both ends are exact.
# Source: Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, appendix E.
NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
# quant_type: what each code stands for
FORMATS = {0: (*FP4_MAGNITUDES, *(-magnitude for magnitude in FP4_MAGNITUDES)), 1: NF4}


@operator("MatMulBnb4", since=(1,), domain=MICROSOFT)
def matmul_bnb4(node: Node, ir: Builder) -> Value:
    """A: T1[..., K], B: u8[ceil(N K / 2)], absmax: T1[ceil(N K / block_size)]  ->  T1[..., N], A times the transpose

    of B: [N, K], whose elements follow each other in nibbles, the high one of a byte first, and in blocks of one
    scale, whatever the rows are. With transB = 0, A: T1[..., N]  ->  T1[..., K].
    """
    a = node.input("A")
    weights = ir.cast(_weights(node, ir), a.dtype)
    if node.flag("transB"):
        weights = ir.transpose(weights, (1, 0))
    return ir.cast(ir.matmul(a, weights, wide_type(a.dtype)), a.dtype)


def _weights(node: Node, ir: Builder) -> Value:
    """f32[N, K]"""
    n, k, size = node.int("N"), node.int("K"), node.int("block_size")
    if min(n, k, size) < 1:
        node.fail("attribute-range", f"N, K and block_size are {n}, {k}, {size}", rule=RULE)
    if node.int("quant_type") not in FORMATS:
        node.fail("attribute-value", f"quant_type is {node.int('quant_type')}, not 0 or 1", rule=RULE)
    count = -(-n * k // size)
    packed = of_shape(node.input("B"), (-(-n * k // 2),), "B", node, ir, CODE)
    scales = of_shape(node.input("absmax"), (count,), "absmax", node, ir, CODE)
    known = ir.known_array(packed), ir.known_array(scales)
    if known[0] is not None and known[1] is not None:
        return ir.constant(_known_weights(known[0], known[1].astype(np.float32), node))
    halves = ir.concatenate([ir.unsqueeze(x, (1,)) for x in (ir.shift_right(packed, 4), ir.and_(packed, 15))], 1)
    codes = ir.slice_axis(ir.reshape(halves, (packed.shape[0] * 2,)), 0, 0, n * k)
    table = ir.constant(np.array(FORMATS[node.int("quant_type")], np.float32))
    factors = ir.broadcast(ir.cast(scales, F32), (0,), (count, size))
    factors = ir.slice_axis(ir.reshape(factors, (count * size,)), 0, 0, n * k)
    return ir.reshape(ir.mul(ir.gather(table, ir.cast(codes, I64), 0), factors), (n, k))


def _known_weights(packed: np.ndarray, scales: np.ndarray, node: Node) -> np.ndarray:
    """The same where the model holds them: a call would look each element up again."""
    n, k = node.int("N"), node.int("K")
    table = np.array(FORMATS[node.int("quant_type")], np.float32)
    codes = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[: n * k]
    weights: np.ndarray = table[codes] * np.repeat(scales, node.int("block_size"))[: n * k]
    return weights.reshape(n, k)
