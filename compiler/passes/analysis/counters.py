"""Counters: integer tensors whose elements are known from their index, start + Σ stride * coordinate."""

from collections.abc import Mapping

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.makers import made_by, splat_of
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.passes.analysis.matching import moved_axes
from onnxc.runtime.records import record


@record
class Counter:
    """The element at `i` is start + Σ strides[axis] * i[axis]; it is below `limit` where that is known."""

    start: Dim
    strides: Mapping[int, Dim]
    limit: Dim | None = None


def counter_of(value: Value) -> Counter | None:
    """How `value` counts, or None where data decides its elements."""
    op = value.op
    if op is None or not value.dtype.is_integer:
        return None
    splat = splat_of(value)
    if splat is not None:
        return Counter(int(splat), {})
    match op.name:
        case "sizes":
            return Counter(op.dims("values")[0], {}) if len(op.dims("values")) == 1 else None
        case "iota":
            return Counter(0, {op.int("axis"): 1}, op.result.shape[op.int("axis")])
        case "broadcast" | "reshape" | "slice":
            inner = counter_of(op.operands[0])
            return None if inner is None else _moved(op, inner)
        case "add" | "mul":
            first, second = (counter_of(operand) for operand in op.operands)
            return None if first is None or second is None else _combined(op.name, first, second)
    return None


def _moved(op: Op, inner: Counter) -> Counter | None:
    if op.name == "slice":
        return _sliced(op, inner)
    x = op.operands[0]
    targets = dict(enumerate(op.ints("axes"))) if op.name == "broadcast" else moved_axes(x.shape, op.result.shape)
    if targets is None:
        return None
    strides = {targets[axis]: stride for axis, stride in inner.strides.items() if x.shape[axis] != 1}
    undecided = op.name == "broadcast" and any(
        x.shape[axis] != op.result.shape[targets[axis]] for axis in inner.strides if x.shape[axis] != 1
    )
    return None if undecided else Counter(inner.start, strides, inner.limit)


def _sliced(op: Op, inner: Counter) -> Counter:
    start, steps = inner.start, op.ints("steps")
    for axis, stride in inner.strides.items():
        start = start + stride * op.dims("starts")[axis]
    strides = {axis: stride * steps[axis] for axis, stride in inner.strides.items()}
    return Counter(start, strides, inner.limit)


def _combined(name: str, first: Counter, second: Counter) -> Counter | None:
    if name == "add":
        axes = dict.fromkeys((*first.strides, *second.strides))
        strides = {axis: first.strides.get(axis, 0) + second.strides.get(axis, 0) for axis in axes}
        return Counter(first.start + second.start, strides)
    if first.strides and second.strides:
        return None
    counter, factor = (first, second.start) if first.strides else (second, first.start)
    return Counter(counter.start * factor, {axis: stride * factor for axis, stride in counter.strides.items()})


def counts_along(value: Value, size: Dim) -> int | None:
    """The axis of `value` along which it counts 0, 1, ... up to `size`, the same along all others."""
    counter = counter_of(value)
    if counter is None or counter.start != 0 or list(counter.strides.values()) != [1]:
        return None
    (axis,) = counter.strides
    return axis if value.shape[axis] == size else None


def made_of_counters(value: Value) -> tuple[Value, ...] | None:
    """The coordinates that `value`, with one of them at each index of its last axis, is joined from."""
    joined = made_by(value, "concatenate")
    if joined is None or joined.int("axis") != value.rank - 1:
        return None
    return joined.operands if all(part.shape[-1] == 1 for part in joined.operands) else None
