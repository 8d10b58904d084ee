"""Concatenations and paddings: what adds nothing, and what can be joined in one step."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import rule

MOST_PARTS = 32
"""Every part is a loop of its own in the kernel, or a test for every element: LLVM takes 0.3 s for 32, 2 s for 64."""


@rule("concatenate")
def drop_empty_parts(op: Op, build: Builder) -> Value | None:
    """concatenate(x, empty) = concatenate(x), and of one part that part"""
    parts = [part for part in op.operands if part.shape[op.int("axis")] != 0]
    if len(op.operands) == 1:
        return op.operands[0]
    if len(parts) == len(op.operands):
        return None
    return build.concatenate(parts, op.int("axis")) if parts else op.operands[0]


@rule("concatenate")
def merge_concatenations(op: Op, build: Builder) -> Value | None:
    """concatenate(concatenate(x, y), z) = concatenate(x, y, z) along one axis, up to MOST_PARTS parts"""
    parts: list[Value] = []
    for part in op.operands:
        inner = made_by(part, "concatenate")
        parts += inner.operands if inner is not None and inner.int("axis") == op.int("axis") else (part,)
    return build.concatenate(parts, op.int("axis")) if len(op.operands) < len(parts) <= MOST_PARTS else None


@rule("concatenate")
def split_concatenation(op: Op, build: Builder) -> Value | None:
    """concatenate(x1, ..., xn) = concatenate(concatenate(x1, ..., xm), ...) with at most m = MOST_PARTS parts each"""
    axis, parts = op.int("axis"), op.operands
    if len(parts) <= MOST_PARTS:
        return None
    runs = [parts[start : start + MOST_PARTS] for start in range(0, len(parts), MOST_PARTS)]
    return build.concatenate([build.concatenate(run, axis) if len(run) > 1 else run[0] for run in runs], axis)


@rule("concatenate")
def join_adjacent_slices(op: Op, build: Builder) -> Value | None:
    """concatenate(x[a:b], x[b:c]) = x[a:c]"""
    axis = op.int("axis")
    for ordinal in range(len(op.operands) - 1):
        joined = _joined(op.operands[ordinal], op.operands[ordinal + 1], axis, build)
        if joined is not None:
            return build.concatenate([*op.operands[:ordinal], joined, *op.operands[ordinal + 2 :]], axis)
    return None


def _joined(first: Value, second: Value, axis: int, build: Builder) -> Value | None:
    a, b = made_by(first, "slice"), made_by(second, "slice")
    if a is None or b is None or a.operands != b.operands or a.ints("steps") != b.ints("steps"):
        return None
    step = a.ints("steps")[axis]
    starts = list(a.dims("starts"))
    starts[axis] = starts[axis] + step * first.shape[axis]
    if tuple(starts) != b.dims("starts"):
        return None
    shape = list(first.shape)
    shape[axis] = shape[axis] + second.shape[axis]
    return build.slice(a.operands[0], a.dims("starts"), shape, a.ints("steps"))


@rule("pad")
def pad_nothing(op: Op, build: Builder) -> Value | None:
    """pad(x, 0, 0) = x"""
    return op.operands[0] if set(op.dims("low")) | set(op.dims("high")) <= {0} else None


@rule("pad")
def merge_paddings(op: Op, build: Builder) -> Value | None:
    """pad(pad(x, a), b) = pad(x, a + b) with one value"""
    inner = made_by(op.operands[0], "pad")
    if inner is None or inner.operands[1] != op.operands[1]:
        return None
    low, high = (
        [mine + theirs for mine, theirs in zip(op.dims(name), inner.dims(name), strict=True)]
        for name in ("low", "high")
    )
    return build.pad(inner.operands[0], low, high, op.operands[1])
