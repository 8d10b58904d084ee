"""Collectives along the first axis: what goes to a device, or comes from one, then lies in one piece of memory.

NCCL moves pieces of memory and knows no axes; the movements that this adds are strides of the kernels around it, or one
copy. What has one element along the axes before is in one piece already.
"""

from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.module import Attributes, Module, Op, Value
from onnxc.compiler.ir.rewriter import Rewriter, rewrite, rule

__all__ = ["collectives_in_front"]


def collectives_in_front(module: Module) -> Module:
    """Has collectives divide and join along the first axis."""
    return rewrite(module, [gather_in_front, scatter_in_front, exchange_in_front])


@rule("all_gather")
def gather_in_front(op: Op, build: Rewriter) -> Value | None:
    """all_gather(x, axis) = the blocks of all_gather([x], 0), joined along axis"""
    axis = op.int("axis")
    return None if axis == 0 else _joined(_exchanged(op, _front(op.operands[0], build), build), axis, build)


@rule("reduce_scatter")
def scatter_in_front(op: Op, build: Rewriter) -> Value | None:
    """reduce_scatter(x, axis) = reduce_scatter(the blocks of x along axis, 0)"""
    axis = op.int("axis")
    if axis == 0:
        return None
    scattered = _exchanged(op, _blocks(op.operands[0], axis, _group(op), build), build)
    return build.reshape(scattered, op.results[0].shape)


@rule("all_to_all")
def exchange_in_front(op: Op, build: Rewriter) -> Value | None:
    """all_to_all(x, split, concat) = blocks of all_to_all(the blocks of x along split, 0, 0), joined along concat"""
    split, concat = op.int("split_axis"), op.int("concat_axis")
    if split == concat == 0:
        return None
    return _joined(_exchanged(op, _blocks(op.operands[0], split, _group(op), build), build), concat, build)


_FIRST_AXIS = {"axis": 0, "split_axis": 0, "concat_axis": 0}


def _exchanged(op: Op, value: Value, build: Rewriter) -> Value:
    """The collective of another value, along its first axis."""
    attributes: Attributes = {name: _FIRST_AXIS.get(name, given) for name, given in op.attributes.items()}
    return build.op(op.name, [value], attributes)[0]


def _group(op: Op) -> int:
    """How many devices exchange with each other."""
    groups = op.attributes["groups"]
    assert isinstance(groups, tuple), op
    assert isinstance(groups[0], tuple), op
    return len(groups[0])


def _front(x: Value, build: Rewriter) -> Value:
    """T[d0, ...]  ->  T[1, d0, ...]"""
    return build.reshape(x, (1, *x.shape))


def _blocks(x: Value, axis: int, count: int, build: Rewriter) -> Value:
    """T[..., n·d, ...]  ->  T[n, ..., d, ...]"""
    sizes: tuple[Dim, ...] = (*x.shape[:axis], count, floordiv(x.shape[axis], count), *x.shape[axis + 1 :])
    split = build.reshape(x, sizes)
    return build.transpose(split, (axis, *(k for k in range(split.rank) if k != axis)))


def _joined(x: Value, axis: int, build: Rewriter) -> Value:
    """T[n, ..., d, ...]  ->  T[..., n·d, ...]"""
    order = [*range(1, x.rank)]
    order.insert(axis, 0)
    sizes = x.shape[1:]
    joined = (*sizes[:axis], sizes[axis] * x.shape[0], *sizes[axis + 1 :])
    return build.reshape(build.transpose(x, order), joined)
