"""Sequences, which are tuples: making, changing, reading, splitting and joining them."""

from itertools import pairwise

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.runtime.host.attributes import flag, integer
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array, as_sequence


@function("sequence_construct")
def construct(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """values...  ->  the sequence of them"""
    return (tuple(operands),)


@function("sequence_length")
def length(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """sequence  ->  i64[]"""
    return (np.array(len(as_sequence(operands[0])), np.int64),)


@function("sequence_at")
def at(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """sequence, position: I[]  ->  the element there; negative positions count from the end"""
    sequence = as_sequence(operands[0])
    return (sequence[_position(operands[1], len(sequence), "SequenceAt")],)


@function("sequence_insert")
def insert(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """sequence, value, position: I[]?  ->  the sequence with the value before that position, or at its end"""
    sequence, value = as_sequence(operands[0]), operands[1]
    position = len(sequence)
    if len(operands) > 2:
        # One position more than there are elements: the end itself.
        wanted = int(as_array(operands[2]).item())
        position = wanted + len(sequence) if wanted < 0 else wanted
        if not 0 <= position <= len(sequence):
            raise _no_such(wanted, len(sequence), "SequenceInsert")
    return ((*sequence[:position], value, *sequence[position:]),)


@function("sequence_erase")
def erase(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """sequence, position: I[]?  ->  the sequence without the element there, or without its last"""
    sequence = as_sequence(operands[0])
    wanted = operands[1] if len(operands) > 1 else np.array(-1)
    position = _position(wanted, len(sequence), "SequenceErase")
    return ((*sequence[:position], *sequence[position + 1 :]),)


def _position(value: HostValue, count: int, operator: str) -> int:
    wanted = int(as_array(value).item())
    if not -count <= wanted < count:
        raise _no_such(wanted, count, operator)
    return wanted % count


def _no_such(wanted: int, count: int, operator: str) -> InputError:
    message = f"{operator}: position {wanted} is outside a sequence of {count} elements"
    return InputError(message, code="sequence-position")


@function("split_to_sequence")
def split(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...], split: I[] or I[n], absent for 1  ->  a sequence of parts along `axis`, which `keepdims` drops or not

    A scalar is the size of all parts but the last, a vector the size of each.
    """
    x, axis = as_array(operands[0]), integer(attributes, "axis")
    total = x.shape[axis]
    wanted = as_array(operands[1]) if len(operands) > 1 else np.array(1)
    if wanted.ndim == 0:
        size = int(wanted.item())
        if size <= 0:
            raise InputError(f"SplitToSequence: split is {size}, expected 1 or more", code="split-size")
        bounds = [*range(0, total, size), total]
    else:
        bounds = np.concatenate([[0], np.cumsum(wanted)]).tolist()
        if bounds[-1] != total or wanted.min(initial=0) < 0:
            message = f"SplitToSequence: split is {wanted.tolist()}, axis {axis} has {total} elements"
            raise InputError(message, code="split-size")
    before = (slice(None),) * axis
    parts = [x[(*before, slice(low, high))] for low, high in pairwise(bounds)]
    if not flag(attributes, "keepdims", default=True):
        parts = [np.squeeze(part, axis) for part in parts]
    return (tuple(parts),)


@function("concatenate_sequence")
def concatenate(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """sequence of tensors  ->  all of them along `axis`; along a new one with `new_axis`"""
    arrays = [as_array(value) for value in as_sequence(operands[0])]
    if not arrays:
        raise InputError("ConcatFromSequence: the sequence is empty", code="empty-sequence")
    axis = integer(attributes, "axis")
    try:
        joined = np.stack(arrays, axis) if flag(attributes, "new_axis", default=False) else np.concatenate(arrays, axis)
    except ValueError as problem:
        shapes = ", ".join(str(list(array.shape)) for array in arrays[:4])
        message = f"ConcatFromSequence: elements of shapes {shapes} cannot be joined along axis {axis}"
        raise InputError(message, code="sizes-disagree") from problem
    return (joined,)
