"""Slices: merged with each other and with what they cut."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import Rewriter, rule
from onnxc.compiler.passes.analysis.matching import moved_axes


@rule("slice")
def slice_nothing(op: Op, build: Builder) -> Value | None:
    """slice(x) = x where it takes everything in order"""
    x = op.operands[0]
    whole = x.shape == op.result.shape and set(op.dims("starts")) <= {0} and set(op.ints("steps")) <= {1}
    return x if whole else None


@rule("slice")
def merge_slices(op: Op, build: Builder) -> Value | None:
    """slice(slice(x, s, step m), t, step n) = slice(x, s + m t, step m n)"""
    inner = made_by(op.operands[0], "slice")
    if inner is None:
        return None
    strides = inner.ints("steps")
    parts = zip(inner.dims("starts"), strides, op.dims("starts"), strict=True)
    starts = [first + stride * second for first, stride, second in parts]
    steps = [stride * step for stride, step in zip(strides, op.ints("steps"), strict=True)]
    return build.slice(inner.operands[0], starts, op.result.shape, steps)


@rule("slice")
def slice_transposed(op: Op, build: Rewriter) -> Value | None:
    """slice(transpose(x, p)) = transpose(slice(x), p), where nothing else uses the transpose"""
    inner = made_by(op.operands[0], "transpose")
    if inner is None or build.uses(inner.result) > 1:
        return None
    permutation = inner.ints("permutation")
    order = [permutation.index(axis) for axis in range(len(permutation))]
    starts, shape, steps = op.dims("starts"), op.dims("shape"), op.ints("steps")
    sliced = build.slice(
        inner.operands[0],
        [starts[axis] for axis in order],
        [shape[axis] for axis in order],
        [steps[axis] for axis in order],
    )
    return build.transpose(sliced, permutation)


@rule("slice")
def slice_reshaped(op: Op, build: Builder) -> Value | None:
    """slice(reshape(x)) = reshape(slice(x)) where the reshape only adds axes of size 1"""
    inner = made_by(op.operands[0], "reshape")
    if inner is None:
        return None
    x = inner.operands[0]
    targets = moved_axes(x.shape, inner.result.shape)
    if targets is None or len(targets) != x.rank:
        return None
    if any(size != 1 for axis, size in enumerate(op.result.shape) if axis not in targets.values()):
        return None
    order = [targets[axis] for axis in range(x.rank)]
    starts, shape, steps = op.dims("starts"), op.dims("shape"), op.ints("steps")
    sliced = build.slice(
        x, [starts[axis] for axis in order], [shape[axis] for axis in order], [steps[axis] for axis in order]
    )
    return build.with_shape(sliced, op.result.shape)


@rule("slice")
def slice_part_of_concatenation(op: Op, build: Rewriter) -> Value | None:
    """slice(concatenate(..., x, ...)) = slice(x) where it only reads x"""
    joined = made_by(op.operands[0], "concatenate")
    if joined is None:
        return None
    axis, bounds = joined.int("axis"), build.symbols.ranges
    start, size, step = op.dims("starts")[axis], op.dims("shape")[axis], op.ints("steps")[axis]
    if step < 0:
        return None
    offset: Dim = 0
    for x in joined.operands:
        end = offset + x.shape[axis]
        last = start + (size - 1) * step + 1
        if at_least(start, offset, bounds) and at_least(end, last, bounds):
            starts = list(op.dims("starts"))
            starts[axis] = start - offset
            return build.slice(x, starts, op.result.shape, op.ints("steps"))
        offset = end
    return None


@rule("slice")
def slice_inside_padding(op: Op, build: Rewriter) -> Value | None:
    """slice(pad(x)) = slice(x) where it reads no padding"""
    padded = made_by(op.operands[0], "pad")
    if padded is None:
        return None
    x, bounds = padded.operands[0], build.symbols.ranges
    for axis, low in enumerate(padded.dims("low")):
        start, size, step = op.dims("starts")[axis], op.dims("shape")[axis], op.ints("steps")[axis]
        if step < 0 or not at_least(start, low, bounds):
            return None
        if not at_least(low + x.shape[axis], start + (size - 1) * step + 1, bounds):
            return None
    starts = [start - low for start, low in zip(op.dims("starts"), padded.dims("low"), strict=True)]
    return build.slice(x, starts, op.result.shape, op.ints("steps"))
