"""Looking up elements among constant keys: integers and floats by a binary search that compiles, texts on the host."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64, dtype_of
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType


def positions(x: Value, keys: np.ndarray, ir: Builder) -> Value:
    """i64[...]: the index of each element of x among `keys`, a vector of its type; their count where it is none.

    The last of equal keys counts; NaN is the key NaN, where there is one.
    """
    if x.dtype.is_string:
        type = TensorType(I64, x.shape)
        return ir.host("text_positions", (x, ir.constant(keys)), (type,), {})[0]
    missing = ir.full(x.shape, keys.size, I64)
    is_nan = keys != keys
    order = np.argsort(keys[~is_nan], kind="stable")
    original = np.flatnonzero(~is_nan)[order]
    ordered = keys[original]
    if ordered.size:
        # As many keys as are not above the element come before: the last of equal ones is the last of them.
        last = ir.sub(_count_up_to(x, ordered, ir), 1)
        nearest = ir.max(last, 0)
        is_key = ir.equal(ir.gather(ir.constant(ordered), nearest, 0), x)
        is_key = ir.and_(is_key, ir.less_equal(0, last))
        missing = ir.select(is_key, ir.gather(ir.constant(original.astype(np.int64)), nearest, 0), missing)
    if is_nan.any():
        missing = ir.select(ir.is_nan(x), int(np.flatnonzero(is_nan)[-1]), missing)
    return missing


def _count_up_to(x: Value, ordered: np.ndarray, ir: Builder) -> Value:
    """i64[...]: how many of the ascending keys are at most each element."""
    count = ordered.size
    width = 1 << (count - 1).bit_length()
    padded = ir.constant(np.concatenate([ordered, np.repeat(ordered[-1:], width - count)]))
    below = ir.full(x.shape, 0, I64)
    step = width
    while step:
        probe = ir.add(below, step)
        key = ir.gather(padded, ir.sub(ir.min(probe, width), 1), 0)
        reaches = ir.and_(ir.less_equal(probe, count), ir.less_equal(key, x))
        below = ir.select(reaches, probe, below)
        step //= 2
    return below


def looked_up(x: Value, keys: np.ndarray, values: np.ndarray, default: np.ndarray, ir: Builder) -> Value:
    """T[...]: the element of `values` at the index of the key that each element of x is, `default` where there is none.

    `default` has rank 0.
    """
    return picked(positions(x, keys, ir), values, default, ir)


def picked(indices: Value, values: np.ndarray, default: np.ndarray, ir: Builder) -> Value:
    """T[...]: the elements of `values` at indices of which the one after the last stands for `default`."""
    table = np.concatenate([values, default.reshape(1)])
    assert dtype_of(table.dtype) is not None, table.dtype
    return ir.gather(ir.constant(table), indices, 0)


def texts(values: tuple[str, ...] | list[str]) -> np.ndarray:
    """The texts as a vector."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
