"""Derivatives of indexed access: what was picked adds where it came from; what was placed is picked up again."""

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
    places = [*range(axis, axis + rank), *range(axis), *range(axis + rank, gradient.rank)]
    updates = build.transpose(gradient, places)
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


class _Places:
    """The places that a scatter updates: picking what is there, and placing something else."""

    def __init__(self, step: Step, build: Builder) -> None:
        self.op, self.build = step.op, build
        self.indices = step.operands[1]

    def picked(self, x: Value) -> Value:
        """For each update, what `x`, of the shape of the data, has at its place."""
        if self.op.name == "scatter_along":
            return self.build.gather_along(x, self.indices, self.op.int("axis"))
        return self.build.gather_nd(x, self.indices)

    def placed(self, x: Value, updates: Value, kind: str) -> Value:
        """`x` with `updates` at the places."""
        if self.op.name == "scatter_along":
            return self.build.scatter_along(x, self.indices, updates, self.op.int("axis"), kind)
        return self.build.scatter_nd(x, self.indices, updates, kind)


@derivative("scatter_along", "scatter_nd")
def scatter(step: Step, build: Builder) -> Gradients:
    """By kind: add passes g on, set only to what stays, mul the product of the others, min and max to the extrema"""
    places = _Places(step, build)
    match step.op.text("kind"):
        case "add":
            return step.gradient, None, places.picked(step.gradient)
        case "set":
            return _set(step, places, build)
        case "mul":
            return _multiplied(step, places, build)
    return _extremum(step, places, build)


def _set(step: Step, places: _Places, build: Builder) -> Gradients:
    """g outside the places; of the updates of one place the last has it all."""
    updates = step.operands[2]
    covered = places.placed(step.gradient, zeros_like(updates, build), "set")
    if not step.wanted[2]:
        return covered, None, None
    number = build.reshape(build.iota((product(updates.shape),), 0, I64), updates.shape)
    owner = places.placed(build.full(step.x.shape, -1, I64), number, "set")
    is_last = build.equal(places.picked(owner), number)
    return covered, None, build.select(is_last, places.picked(step.gradient), 0)


def _multiplied(step: Step, places: _Places, build: Builder) -> Gradients:
    """g times the product of the other factors of its place, zeros among them counted."""
    data, _, updates = step.operands
    factors = places.placed(build.full(data.shape, 1, data.dtype), updates, "mul")
    is_zero = build.equal(updates, 0)
    zeros = places.placed(build.full(data.shape, 0, I64), build.cast(is_zero, I64), "add")
    others = build.select(is_zero, 1, updates)
    nonzero = places.placed(data, others, "mul")
    has_another = build.less(build.cast(is_zero, I64), places.picked(zeros))
    rest = build.select(has_another, 0, build.div(places.picked(nonzero), others))
    return build.mul(step.gradient, factors), None, build.mul(places.picked(step.gradient), rest)


def _extremum(step: Step, places: _Places, build: Builder) -> Gradients:
    """g in equal shares to the data and the updates that are the extremum of their place."""
    data, _, updates = step.operands
    data_is = build.cast(build.equal(data, step.y), data.dtype)
    update_is = build.cast(build.equal(updates, places.picked(step.y)), data.dtype)
    share = build.div(step.gradient, places.placed(data_is, update_is, "add"))
    return build.mul(share, data_is), None, build.mul(places.picked(share), update_is)
