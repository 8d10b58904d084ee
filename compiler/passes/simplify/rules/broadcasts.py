"""Broadcasts: merged with movements next to them, and put off until after the arithmetic that does not need them."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.makers import made_by, unbroadcast
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.rewriter import rule
from onnxc.compiler.passes.analysis.matching import moved_axes

POINTWISE = tuple(name for name, primitive in PRIMITIVES.items() if primitive.kind == "pointwise")
ELEMENTWISE = tuple(name for name, primitive in PRIMITIVES.items() if primitive.elementwise)


@rule("broadcast")
def broadcast_nothing(op: Op, build: Builder) -> Value | None:
    """broadcast(x) = x where it has the shape and its axes are in order"""
    x = op.operands[0]
    return x if x.shape == op.result.shape and op.ints("axes") == tuple(range(x.rank)) else None


@rule("broadcast")
def merge_broadcasts(op: Op, build: Builder) -> Value | None:
    """broadcast(broadcast(x, a), b) = broadcast(x, b∘a)"""
    inner = made_by(op.operands[0], "broadcast")
    if inner is None:
        return None
    axes = [op.ints("axes")[axis] for axis in inner.ints("axes")]
    return build.broadcast(inner.operands[0], axes, op.result.shape)


@rule("broadcast")
def broadcast_transposed(op: Op, build: Builder) -> Value | None:
    """broadcast(transpose(x, p), a) = broadcast(x, a∘p⁻¹)"""
    inner = made_by(op.operands[0], "transpose")
    if inner is None:
        return None
    targets = dict(zip(inner.ints("permutation"), op.ints("axes"), strict=True))
    x = inner.operands[0]
    return build.broadcast(x, [targets[axis] for axis in range(x.rank)], op.result.shape)


@rule("broadcast")
def broadcast_reshaped(op: Op, build: Builder) -> Value | None:
    """broadcast(reshape(x)) = broadcast(x) where the reshape only adds or drops axes of size 1"""
    inner = made_by(op.operands[0], "reshape")
    if inner is None:
        return None
    x, axes = inner.operands[0], op.ints("axes")
    target_of = moved_axes(x.shape, inner.result.shape)
    if target_of is None:
        return None
    kept = [axis for axis in range(x.rank) if axis in target_of]
    if len(kept) == x.rank:
        return build.broadcast(x, [axes[target_of[axis]] for axis in kept], op.result.shape)
    if len(kept) == inner.result.rank:
        return None
    dense = build.with_shape(x, [x.shape[axis] for axis in kept])
    return build.broadcast(dense, [axes[target_of[axis]] for axis in kept], op.result.shape)


@rule("transpose")
def transpose_broadcast(op: Op, build: Builder) -> Value | None:
    """transpose(broadcast(x, a), p) = broadcast(x, p⁻¹∘a)"""
    inner = made_by(op.operands[0], "broadcast")
    if inner is None:
        return None
    permutation = op.ints("permutation")
    return build.broadcast(inner.operands[0], [permutation.index(axis) for axis in inner.ints("axes")], op.result.shape)


@rule("slice")
def slice_broadcast(op: Op, build: Builder) -> Value | None:
    """slice(broadcast(x)) = broadcast(slice(x))"""
    inner = made_by(op.operands[0], "broadcast")
    if inner is None:
        return None
    x, axes = inner.operands[0], inner.ints("axes")
    starts: list[Dim] = [0] * x.rank
    shape, steps = list(x.shape), [1] * x.rank
    for inner_axis, axis in enumerate(axes):
        if x.shape[inner_axis] == 1:
            continue
        if x.shape[inner_axis] != inner.result.shape[axis]:
            return None
        starts[inner_axis], shape[inner_axis], steps[inner_axis] = (
            op.dims("starts")[axis],
            op.dims("shape")[axis],
            op.ints("steps")[axis],
        )
    return build.broadcast(build.slice(x, starts, shape, steps), axes, op.result.shape)


@rule(*POINTWISE)
def compute_before_broadcast(op: Op, build: Builder) -> Value | None:
    """f(broadcast(x), broadcast(y)) = broadcast(f(x, y)), over the axes that one of them has"""
    if any(made_by(operand, "broadcast") is None for operand in op.operands):
        return None
    shape = op.result.shape
    sources = [unbroadcast(operand) for operand in op.operands]
    varying = {axis for x, axes in sources for axis, size in zip(axes, x.shape, strict=True) if size != 1}
    if all(axis in varying for axis, size in enumerate(shape) if size != 1):
        return None
    kept = sorted(varying)
    operands = [_onto(x, axes, kept, [shape[axis] for axis in kept], build) for x, axes in sources]
    return build.broadcast(build.op(op.name, operands, op.attributes)[0], kept, shape)


def _onto(x: Value, axes: tuple[int, ...], kept: list[int], shape: list[Dim], build: Builder) -> Value:
    """`x` without its axes of size 1, broadcast to the axes `kept` of the whole."""
    own = [(axis, size) for axis, size in zip(axes, x.shape, strict=True) if size != 1]
    dense = build.with_shape(x, [size for _, size in own])
    return build.broadcast(dense, [kept.index(axis) for axis, _ in own], shape)
