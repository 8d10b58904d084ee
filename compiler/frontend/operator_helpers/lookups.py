"""Looking up elements among constant keys: numbers by code that compiles, texts on the host."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64, dtype_of
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType

FEW_KEYS = 4
"""Up to so many keys an element is compared with each; 50,000 of i64 took 61 us so, and 92 us by a table."""

COMPARED_KEYS = 16
"""The same where keys fit no table: 50,000 elements of f32 took 233 us so, and 810 us by a search."""

TABLE_PER_KEY = 8
"""How many places of a table there may be for each key."""

LARGEST_WHOLE = 2.0**53
"""Floats below it are integers of 64 bits, if they are whole numbers."""


def positions(x: Value, keys: np.ndarray, ir: Builder) -> Value:
    """i64[...]: the index of each element of x among `keys`, a vector of its type; their count where it is none.

    The last of equal keys counts; NaN is the key NaN, where there is one.
    """
    if x.dtype.is_string:
        type = TensorType(I64, x.shape)
        return ir.host("text_positions", (x, ir.constant(keys)), (type,), {})[0]
    return _of_keys(x, keys, np.arange(keys.size), np.array(keys.size), ir)


def _of_keys(x: Value, keys: np.ndarray, values: np.ndarray, default: np.ndarray, ir: Builder) -> Value:
    """`looked_up` for numbers: by comparisons, in a table, or by a binary search."""
    is_nan = keys != keys
    real_keys = keys[~is_nan]
    if real_keys.size > FEW_KEYS and _are_dense(real_keys):
        look_up = _in_table
    else:
        look_up = _by_search if real_keys.size > COMPARED_KEYS else _by_comparisons
    result = look_up(x, real_keys, values[~is_nan], default, ir)
    if is_nan.any():
        result = ir.select(ir.is_nan(x), _everywhere(x, values[is_nan][-1], ir), result)
    return result


def _by_comparisons(x: Value, keys: np.ndarray, values: np.ndarray, default: np.ndarray, ir: Builder) -> Value:
    """An element is compared with each key."""
    result = _everywhere(x, default, ir)
    for key, value in zip(keys, values, strict=True):
        is_key = ir.equal(x, _everywhere(x, key, ir))
        result = ir.select(is_key, _everywhere(x, value, ir), result)
    return result


def _are_dense(keys: np.ndarray) -> bool:
    """Whether keys are whole numbers that fill a fair part of the range between them."""
    if keys.dtype.kind == "f" and not ((abs(keys) < LARGEST_WHOLE) & (np.floor(keys) == keys)).all():
        return False
    return int(keys.max()) - int(keys.min()) < TABLE_PER_KEY * keys.size


def _in_table(x: Value, keys: np.ndarray, values: np.ndarray, default: np.ndarray, ir: Builder) -> Value:
    """What an element stands for lies where the element is counted from the least key; the default behind them all."""
    least, greatest = keys.min(), keys.max()
    entries = (keys.astype(object) - int(least)).astype(np.int64)
    table = np.full(entries.max() + 2, default)
    table[entries] = values
    is_inside = ir.and_(ir.less_equal(_everywhere(x, least, ir), x), ir.less_equal(x, _everywhere(x, greatest, ir)))
    bounded = ir.select(is_inside, x, _everywhere(x, least, ir))
    if x.dtype.is_float:
        is_inside = ir.and_(is_inside, ir.equal(ir.floor(bounded), bounded))
    entry = ir.sub(ir.cast(bounded, I64), int(least))
    return ir.gather(ir.constant(table), ir.select(is_inside, entry, table.size - 1), 0)


def _by_search(x: Value, keys: np.ndarray, values: np.ndarray, default: np.ndarray, ir: Builder) -> Value:
    """As many keys as are not above an element come before it: the last of equal ones is the last of them."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    last = ir.sub(_count_up_to(x, ordered, ir), 1)
    nearest = ir.max(last, 0)
    is_key = ir.and_(ir.equal(ir.gather(ir.constant(ordered), nearest, 0), x), ir.less_equal(0, last))
    return ir.select(is_key, ir.gather(ir.constant(values[order]), nearest, 0), _everywhere(x, default, ir))


def _everywhere(x: Value, scalar: np.ndarray, ir: Builder) -> Value:
    """A number of a NumPy type, in the shape of x."""
    return ir.broadcast(ir.constant(np.asarray(scalar)), [], x.shape)


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
    if x.dtype.is_string or values.dtype.hasobject:
        return picked(positions(x, keys, ir), values, default, ir)
    return _of_keys(x, keys, values, default, ir)


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
