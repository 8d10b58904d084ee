"""The meaning of products with weights of few bits."""

import numpy as np

from onnxc.runtime.host.attributes import integer
from onnxc.runtime.host.elements import narrow, widen
from onnxc.runtime.host.registry import Arrays, Attributes, meaning


@meaning("block_product")
def block_product(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[..., K], codes: i8[N, K], scales, zeros: U[N, ceil(K / block)]  ->  T[..., N], summed in f32, of f64 in f64

    x wᵀ of w = (codes - zeros) * scales, each of whose zeros and scales is that of a block of neighbours along K.
    """
    dtype = operands[0].dtype
    x, codes, *spreads = map(widen, operands)
    block, depth = integer(attributes, "block"), codes.shape[1]
    scales, *zeros = (np.repeat(each.astype(x.dtype), block, axis=1)[:, :depth] for each in spreads)
    weights = codes.astype(x.dtype)
    for each in zeros:
        weights -= each
    return (narrow(np.matmul(x, (weights * scales).T), dtype),)


@meaning("byte_block_product")
def byte_block_product(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: i8[..., K], steps: T[..., B], codes: i8[N, K], scales, zeros: T[N, B]  ->  T[..., N], summed in f64

    As block_product of x times steps, which are those of blocks.
    """
    x, steps, *weights = operands
    rows = x * np.repeat(steps.astype(np.float64), integer(attributes, "block"), axis=-1)
    return tuple(narrow(result, steps.dtype) for result in block_product([rows, *weights], attributes))
