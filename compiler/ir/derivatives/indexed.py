"""Derivatives of indexed access: what was picked adds where it came from; what was written is picked up again."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import Gradients, Step, derivative, zeros_like
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value


@derivative("gather")
def gather(step: Step, build: Builder) -> Gradients:
    """g added at the indices"""
    data, indices = step.operands
    return added_at(data, indices, step.gradient, step.op.int("axis"), build), None


def added_at(data: Value, indices: Value, gradient: Value, axis: int, build: Builder) -> Value:
    """Zeros of the shape of `data`, with what flows to its elements at `indices` added along `axis`."""
    rank = indices.rank
    order = [*range(axis, axis + rank), *range(axis), *range(axis + rank, gradient.rank)]
    updates = build.transpose(gradient, order)
    shape = (data.shape[axis], *data.shape[:axis], *data.shape[axis + 1 :])
    zeros = build.full(shape, 0, data.dtype)
    added = build.scatter_nd(zeros, build.unsqueeze(indices, [rank]), updates, "add")
    return build.transpose(added, [*range(1, axis + 1), 0, *range(axis + 1, data.rank)])


@derivative("gather_along")
def gather_along(step: Step, build: Builder) -> Gradients:
    """g added at the indices"""
    data, indices = step.operands
    return build.scatter_along(zeros_like(data, build), indices, step.gradient, step.op.int("axis"), "add"), None


@derivative("gather_nd")
def gather_nd(step: Step, build: Builder) -> Gradients:
    """g added at the coordinates, before which those of the batch stand"""
    data, indices = step.operands
    batch = [build.iota((*indices.shape[:-1], 1), axis, I64) for axis in range(step.op.int("batch_dims"))]
    coordinates = build.concatenate([*batch, indices], indices.rank - 1)
    return build.scatter_nd(zeros_like(data, build), coordinates, step.gradient, "add"), None


class _Targets:
    """The elements that a scatter updates: picking what is there, and writing something else."""

    def __init__(self, step: Step, build: Builder) -> None:
        self.op, self.build = step.op, build
        self.indices = step.operands[1]

    def picked(self, x: Value) -> Value:
        """For each update, what `x`, of the shape of the data, has at its index."""
        if self.op.name == "scatter_along":
            return self.build.gather_along(x, self.indices, self.op.int("axis"))
        return self.build.gather_nd(x, self.indices)

    def updated(self, x: Value, updates: Value, kind: str) -> Value:
        """`x` updated with `updates` at the indices."""
        if self.op.name == "scatter_along":
            return self.build.scatter_along(x, self.indices, updates, self.op.int("axis"), kind)
        return self.build.scatter_nd(x, self.indices, updates, kind)


@derivative("scatter_along", "scatter_nd")
def scatter(step: Step, build: Builder) -> Gradients:
    """By kind: add passes g on, set only to what stays, mul the product of the others, min and max to the extrema"""
    targets = _Targets(step, build)
    match step.op.text("kind"):
        case "add":
            return step.gradient, None, targets.picked(step.gradient)
        case "set":
            return _set(step, targets, build)
        case "mul":
            return _multiplied(step, targets, build)
    return _extremum(step, targets, build)


def _set(step: Step, targets: _Targets, build: Builder) -> Gradients:
    """g where nothing is written; of the updates of one element the last has it all."""
    updates = step.operands[2]
    covered = targets.updated(step.gradient, zeros_like(updates, build), "set")
    if not step.wanted[2]:
        return covered, None, None
    ordinal = build.reshape(build.iota((product(updates.shape),), 0, I64), updates.shape)
    owner = targets.updated(build.full(step.x.shape, -1, I64), ordinal, "set")
    is_last = build.equal(targets.picked(owner), ordinal)
    return covered, None, build.select(is_last, targets.picked(step.gradient), 0)


def _multiplied(step: Step, targets: _Targets, build: Builder) -> Gradients:
    """g times the product of the other factors of its element, zeros among them counted."""
    data, _, updates = step.operands
    factors = targets.updated(build.full(data.shape, 1, data.dtype), updates, "mul")
    is_zero = build.equal(updates, 0)
    zeros = targets.updated(build.full(data.shape, 0, I64), build.cast(is_zero, I64), "add")
    others = build.select(is_zero, 1, updates)
    nonzero = targets.updated(data, others, "mul")
    has_another = build.less(build.cast(is_zero, I64), targets.picked(zeros))
    rest = build.select(has_another, 0, build.div(targets.picked(nonzero), others))
    return build.mul(step.gradient, factors), None, build.mul(targets.picked(step.gradient), rest)


def _extremum(step: Step, targets: _Targets, build: Builder) -> Gradients:
    """g in equal shares to the data and the updates that are the extremum of their element."""
    data, _, updates = step.operands
    data_is = build.cast(build.equal(data, step.y), data.dtype)
    update_is = build.cast(build.equal(updates, targets.picked(step.y)), data.dtype)
    share = build.div(step.gradient, targets.updated(data_is, update_is, "add"))
    return build.mul(share, data_is), None, build.mul(targets.picked(share), update_is)
