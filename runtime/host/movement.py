"""Movement primitives: the same elements in another arrangement.

Only shapes and indices are touched, never an element, so these hold for arrays of Python objects too: the builder folds
integer tensors known in sizes through them. Results may be read-only views of operands.
"""

import numpy as np

from onnxc.runtime.host.attributes import integer, integers
from onnxc.runtime.host.prepared import Constants, HostCall, prepared
from onnxc.runtime.host.registry import Arrays, Attributes, meaning


@meaning("reshape")
def reshape(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  T[*shape], the elements in row-major order."""
    return (np.reshape(operands[0], integers(attributes, "shape")),)


@meaning("transpose")
def transpose(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[d0 ... dr-1]  ->  T[...], result axis i is operand axis permutation[i]."""
    return (np.transpose(operands[0], integers(attributes, "permutation")),)


@meaning("broadcast")
def broadcast(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  T[*shape], operand axis i is result axis axes[i], of the same size or stretched from 1."""
    (x,) = operands
    axes, shape = integers(attributes, "axes"), integers(attributes, "shape")
    order = sorted(range(x.ndim), key=lambda axis: axes[axis])
    sizes = dict(zip(axes, x.shape, strict=True))
    aligned = np.transpose(x, order).reshape(tuple(sizes.get(axis, 1) for axis in range(len(shape))))
    return (np.broadcast_to(aligned, shape),)


@meaning("slice")
def slice_(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  T[*shape], element i of an axis is x[start + i * step]; a step of -1 reverses."""
    (x,) = operands
    picks = _picks(attributes)
    result = x[picks] if picks else x
    assert result.shape == attributes["shape"], (x.shape, attributes)
    return (result,)


@prepared("slice")
def _slice_of_picks(constants: Constants, attributes: Attributes) -> HostCall | None:
    picks = _picks(attributes)
    return (lambda x: (x[picks],)) if picks else None


def _picks(attributes: Attributes) -> tuple[slice, ...]:
    starts, shape, steps = (integers(attributes, name) for name in ("starts", "shape", "steps"))
    return tuple(_pick(start, size, step) for start, size, step in zip(starts, shape, steps, strict=True))


def _pick(start: int, size: int, step: int) -> slice:
    if size == 0:
        return slice(0, 0)
    stop = start + (size - 1) * step + (1 if step > 0 else -1)
    # A reversed slice that ends at element 0 has no number for its stop.
    return slice(start, stop if stop >= 0 else None, step)


@meaning("pad")
def pad(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...], value: T[]  ->  T[low + d + high ...]"""
    x, value = operands
    low, high = integers(attributes, "low"), integers(attributes, "high")
    result = np.empty([sum(sizes) for sizes in zip(low, x.shape, high, strict=True)], x.dtype)
    result[...] = value
    result[tuple(slice(start, start + size) for start, size in zip(low, x.shape, strict=True))] = x
    return (result,)


@meaning("concatenate")
def concatenate(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """xs: T[... di ...]  ->  T[... Σ di ...] along axis."""
    return (np.concatenate(operands, axis=integer(attributes, "axis")),)
