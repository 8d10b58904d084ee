"""Contractions: dot and convolution, sums of products over shared axes.

Floats accumulate in f32 or wider; integers in i64, whose low bits are those of any narrower accumulator.
"""

import itertools
import math

import numpy as np

from onnxc.runtime.host.attributes import element_type, integer, integers, text
from onnxc.runtime.host.dimension_labels import axis_order
from onnxc.runtime.host.elements import F32, F64, is_integer, narrow, widen, wider
from onnxc.runtime.host.registry import Arrays, Attributes, meaning

# The elements a convolution gathers at a time: 64 MiB in f32, of which some ten channels of a large image are made.
COLUMN_ELEMENTS = 1 << 24


@meaning("dot")
def dot(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """a: T[...], b: U[...]  ->  dtype[...] by an equation like "bmk,bkn->bmn"; letters the result lacks are summed."""
    a, b = operands
    inputs, _, result_letters = text(attributes, "equation").replace(" ", "").partition("->")
    a_letters, b_letters = inputs.split(",")
    a, b = _for_accumulation(a, b, element_type(attributes))
    a, a_letters = _simplify(a, a_letters, keep=b_letters + result_letters)
    b, b_letters = _simplify(b, b_letters, keep=a_letters + result_letters)
    sizes = dict(zip(a_letters + b_letters, a.shape + b.shape, strict=True))

    batch = [letter for letter in a_letters if letter in b_letters and letter in result_letters]
    summed = [letter for letter in a_letters if letter in b_letters and letter not in result_letters]
    rows = [letter for letter in a_letters if letter not in b_letters]
    columns = [letter for letter in b_letters if letter not in a_letters]
    product = np.matmul(
        _grouped(a, a_letters, (batch, rows, summed), sizes),
        _grouped(b, b_letters, (batch, summed, columns), sizes),
    )
    letters = [*batch, *rows, *columns]
    result = product.reshape(tuple(sizes[letter] for letter in letters))
    ordered = np.transpose(result, tuple(letters.index(letter) for letter in result_letters))
    return (_from_accumulation(ordered, element_type(attributes)),)


def _for_accumulation(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Both operands in the type their products are summed in."""
    types = (a.dtype, b.dtype, dtype)
    accumulator: np.dtype
    if any(each.kind == "c" for each in types):
        accumulator = np.dtype(np.complex128)
    elif not (is_integer(a.dtype) and is_integer(b.dtype)):
        accumulator = F64 if F64 in types else F32
    elif a.itemsize == 1 and b.itemsize == 1:
        # f64 holds 2^37 products of bytes exactly, and its matrix product is some fifty times faster than that of i64.
        accumulator = F64
    else:
        accumulator = np.dtype(np.int64)
    return widen(a).astype(accumulator, copy=False), widen(b).astype(accumulator, copy=False)


def _from_accumulation(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Sums in the result's type: floats round, integers wrap."""
    if is_integer(dtype):
        return x.astype(np.int64).astype(wider(dtype)).astype(dtype)
    return narrow(x, dtype)


def _simplify(x: np.ndarray, letters: str, keep: str) -> tuple[np.ndarray, str]:
    """The diagonal over repeated letters, summed over the letters that nothing else mentions."""
    distinct = "".join(dict.fromkeys(letters))
    if distinct != letters:
        x = np.einsum(f"{letters}->{distinct}", x)
    alone = tuple(axis for axis, letter in enumerate(distinct) if letter not in keep)
    return x.sum(axis=alone) if alone else x, "".join(letter for letter in distinct if letter in keep)


def _grouped(x: np.ndarray, letters: str, groups: tuple[list[str], ...], sizes: dict[str, int]) -> np.ndarray:
    """`x` with each group of letters as one axis."""
    order = tuple(letters.index(letter) for letter in itertools.chain(*groups))
    return np.transpose(x, order).reshape(tuple(math.prod(sizes[letter] for letter in group) for group in groups))


@meaning("convolution")
def convolution(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[N, C, *S], w: U[M, C/groups, *K]  ->  dtype[N, M, *O], cross-correlation.

    Their axes are in the order of the labels `dimensions`, as in "nc01,oi01->nc01".
    """
    operand_labels, _, result_labels = text(attributes, "dimensions").partition("->")
    x_labels, w_labels = operand_labels.split(",")
    x, w = (
        np.transpose(operand, axis_order(labels, leading))
        for operand, labels, leading in zip(operands, (x_labels, w_labels), ("nc", "oi"), strict=True)
    )
    y = _convolve(x, w, attributes)
    return (np.transpose(y, np.argsort(axis_order(result_labels, "nc"))),)


def _convolve(x: np.ndarray, w: np.ndarray, attributes: Attributes) -> np.ndarray:
    """x: T[N, C, *S], w: U[M, C/groups, *K]  ->  dtype[N, M, *O]

    input_dilations puts zeros between the elements of x, before low and high pad it with zeros. These are multiplied
    like any others, so an infinity in w makes them NaN; a kernel may leave them out.
    """
    dtype, groups = element_type(attributes), integer(attributes, "groups", 1)
    x, w = _for_accumulation(x, w, dtype)
    spread = integers(attributes, "input_dilations") if "input_dilations" in attributes else (1,) * (x.ndim - 2)
    low, high = integers(attributes, "low"), integers(attributes, "high")
    padded = _spread_and_pad(x, spread, low, high)
    strides, dilations = integers(attributes, "strides"), integers(attributes, "dilations")
    batch, channels, kernel = x.shape[0], w.shape[1], w.shape[2:]
    extents = zip(_padded_sizes(x, spread, low, high), kernel, strides, dilations, strict=True)
    lengths = tuple(
        max((size - (taps - 1) * dilation - 1) // stride + 1, 0) for size, taps, stride, dilation in extents
    )

    weights = w.reshape(groups, w.shape[0] // groups, channels, math.prod(kernel))
    taps = list(np.ndindex(*kernel))
    taps_at_once = max(1, COLUMN_ELEMENTS // max(1, batch * groups * channels * math.prod(lengths)))
    result = np.zeros((groups, weights.shape[1], batch * math.prod(lengths)), x.dtype)
    for start in range(0, len(taps), taps_at_once):
        chunk = taps[start : start + taps_at_once]
        columns = np.empty((groups, channels, len(chunk), batch, *lengths), x.dtype)
        for position, tap in enumerate(chunk):
            view = padded[(slice(None), slice(None), *_tap_slices(tap, lengths, strides, dilations))]
            columns[:, :, position] = np.moveaxis(view.reshape(batch, groups, channels, *lengths), 0, 2)
        inner = channels * len(chunk)
        filters = weights[..., start : start + len(chunk)].reshape(groups, weights.shape[1], inner)
        result += filters @ columns.reshape(groups, inner, batch * math.prod(lengths))
    by_group = result.reshape(w.shape[0], batch, *lengths)
    return _from_accumulation(np.moveaxis(by_group, 0, 1), dtype)


def _spread_and_pad(x: np.ndarray, spread: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...]) -> np.ndarray:
    sizes = [max(size, 0) for size in _padded_sizes(x, spread, low, high)]
    padded = np.zeros((*x.shape[:2], *sizes), x.dtype)
    if x.size:
        ends = [start + (size - 1) * step + 1 for start, size, step in zip(low, x.shape[2:], spread, strict=True)]
        inside = [slice(start, end, step) for start, end, step in zip(low, ends, spread, strict=True)]
        padded[(slice(None), slice(None), *inside)] = x
    return padded


def _padded_sizes(x: np.ndarray, spread: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...]) -> list[int]:
    """The size of each spatial axis once it is spread and padded.

    An axis of size 0 counts as 1 - step, as the formula of ConvTranspose has it, so the sizes may be below 0.
    """
    return [
        before + (size - 1) * step + 1 + after
        for before, size, step, after in zip(low, x.shape[2:], spread, high, strict=True)
    ]


def _tap_slices(
    tap: tuple[int, ...], lengths: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> list[slice]:
    """The elements that one tap of the kernel meets, one for each element of the result."""
    return [
        slice(offset * dilation, offset * dilation + max((size - 1) * stride + 1, 0), stride)
        for offset, size, stride, dilation in zip(tap, lengths, strides, dilations, strict=True)
    ]
