"""Rules that compute in the order in which tensors lie: transposes of stored tensors move from operands to the result.

Only transposes that bring trailing channels to the front are moved, so that no other rule of a model is disturbed.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.makers import constant_of, made_by
from onnxc.compiler.ir.module import Attribute, Op, Value
from onnxc.compiler.ir.primitives.contractions import image_labels
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, Rule, rule
from onnxc.compiler.passes.analysis.matching import AxisGroup, axis_groups
from onnxc.compiler.passes.simplify.rules.broadcasts import ELEMENTWISE
from onnxc.runtime.records import record

FEW_CHANNELS = 64
"""Beside so many channels lines along pixels are as fast as lines of planes, with what turns these. Softmax of 384 x
384 scores of three heads, which a convolution mixes, took a fifth of the time as planes; of scores of 16 to 64 heads,
between two products, 0.65 to 0.75; along 250 frames of 16 to 64 channels between convolutions 1, of 128 channels 1.25.
"""


@record
class Layout:
    """Tensors of `rank` that lie as [N, *S, *C] and are seen as [N, *C, *S], with `channels` axes in C."""

    rank: int
    channels: int = 1

    @property
    def permutation(self) -> tuple[int, ...]:
        """Axis i that is seen is axis permutation[i] that lies there."""
        spatial = self.rank - self.channels
        return (0, *range(spatial, self.rank), *range(1, spatial))

    @property
    def order(self) -> tuple[int, ...]:
        """Axis i that lies there is axis order[i] that is seen."""
        return tuple(self.permutation.index(axis) for axis in range(self.rank))

    @property
    def turns(self) -> bool:
        """Whether another turn in the same way does not undo it: of two such views the rules would never settle."""
        return self.order != self.permutation and self.channels == 1

    def seen(self, x: Value, build: Builder) -> Value:
        """`x`, that lies so, as the program sees it."""
        return build.transpose(x, self.permutation)

    def stored(self, value: Value, build: Builder) -> Value:
        """What lies there where the program sees `value`; constants are moved here and now."""
        array = constant_of(value)
        if array is not None:
            return build.constant(np.ascontiguousarray(array.transpose(self.order)))
        op = value.op
        if op is not None and op.name == "transpose":
            inner = op.ints("permutation")
            return build.transpose(op.operands[0], [inner[axis] for axis in self.order])
        if op is not None and op.name == "broadcast":
            axes = [self.permutation[axis] for axis in op.ints("axes")]
            return build.broadcast(op.operands[0], axes, self.of(value.shape))
        if op is not None and op.name == "iota":
            return build.iota(self.of(value.shape), self.permutation[op.int("axis")], op.dtype())
        return build.transpose(value, self.order)

    def of(self, entries: Sequence[Dim]) -> tuple[Dim, ...]:
        """`entries`, one for each axis that is seen, for those that lie there."""
        return tuple(entries[axis] for axis in self.order)

    def reorders(self, value: Value) -> bool:
        """Whether the elements of `value` lie so in another order than they are seen in."""
        dense = [axis for axis in self.order if value.shape[axis] != 1]
        return dense != sorted(dense)

    def costs(self, value: Value) -> bool:
        """Whether elements must be moved to have `value` lie so."""
        return not _is_made_anew(value) and layout_of(value) != self and self.reorders(value)


def layout_of(value: Value) -> Layout | None:
    """How `value` lies, if it is a view of channels that lie last."""
    op = made_by(value, "transpose")
    if op is None:
        return None
    permutation = op.ints("permutation")
    for channels in range(1, max(2, value.rank - 2)):
        layout = Layout(value.rank, channels)
        if permutation == layout.permutation and value.rank > 2:
            return layout
    return None


def _is_made_anew(value: Value) -> bool:
    """Whether `value` is made in any order as well as in this one."""
    return made_by(value, "constant", "broadcast", "iota") is not None


def _is_turned_anew(value: Value) -> bool:
    """Whether what a view turns is made so."""
    turned = made_by(value, "transpose")
    return turned is not None and _is_made_anew(turned.operands[0])


def _common(operands: Sequence[Value]) -> Layout | None:
    """The layout that most of `operands` lie in; one that costs more moves than it saves is none.

    Transposes that move no element count where those that do are as many: else rules would undo each other. What is
    repeated counts nowhere, as it is in the order in which it is read: an image that a gate of each channel is
    multiplied by would be turned for that, and back.
    """
    layout = next((layout for layout in map(layout_of, operands) if layout is not None), None)
    if layout is None:
        return None
    lying = [operand for operand in operands if layout_of(operand) == layout and not _is_turned_anew(operand)]
    others = [operand for operand in operands if layout_of(operand) != layout and not _is_made_anew(operand)]
    saved, added = sum(map(layout.reorders, lying)), sum(map(layout.reorders, others))
    if saved == added:
        saved, added = len(lying), len(others)
    return layout if added < saved or (added == saved and layout.turns) else None


# Ops whose result has the axes of the operands


@rule(*ELEMENTWISE)
def compute_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """f(transpose(x), y) = transpose(f(x, transpose(y)))"""
    layout = _common(op.operands)
    if layout is None:
        return None
    operands = [layout.stored(operand, build) for operand in op.operands]
    return layout.seen(build.op(op.name, operands, op.attributes)[0], build)


@rule("concatenate")
def concatenate_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """concatenate(transpose(x), transpose(y)) = transpose(concatenate(x, y))"""
    layout = _common(op.operands)
    if layout is None:
        return None
    operands = [layout.stored(operand, build) for operand in op.operands]
    return layout.seen(build.concatenate(operands, layout.permutation[op.int("axis")]), build)


def _entries(*names: str) -> Callable[[Op, Layout], dict[str, Attribute]]:
    """Attributes with an entry for each axis, in the order in which the axes lie."""
    return lambda op, layout: {name: layout.of(op.dims(name)) for name in names}


def _axis(op: Op, layout: Layout) -> dict[str, Attribute]:
    return {"axis": layout.permutation[op.int("axis")]}


MOVED_ATTRIBUTES: Mapping[str, Callable[[Op, Layout], dict[str, Attribute]]] = {
    "slice": _entries("starts", "shape", "steps"),
    "pad": _entries("low", "high"),
    "reduce_window": _entries("window", "strides", "low", "high", "dilations"),
    **dict.fromkeys(("softmax", "masked_softmax", "log_softmax", "scan_axis", "sort", "top_k"), _axis),
}


@rule(*MOVED_ATTRIBUTES)
def apply_as_it_lies(op: Op, build: Rewriter) -> tuple[Value, ...] | Refusal | None:
    """f(transpose(x), axes) = transpose(f(x, moved axes))"""
    layout = layout_of(op.operands[0])
    if layout is None:
        return None
    if MOVED_ATTRIBUTES[op.name] is _axis and _has_few_lanes(op, layout):
        return Refusal("lines lie beside each other by channels, of which there are few")
    x, *others = op.operands
    attributes = {**op.attributes, **MOVED_ATTRIBUTES[op.name](op, layout)}
    results = build.op(op.name, [layout.stored(x, build), *others], attributes)
    return tuple(layout.seen(result, build) for result in results)


def _has_few_lanes(op: Op, layout: Layout) -> bool:
    """Whether the lines of an op along pixels would have too few channels beside them for a vector."""
    axis, channels = op.int("axis"), product(op.operands[0].shape[1 : 1 + layout.channels])
    return not 1 <= axis <= layout.channels and isinstance(channels, int) and channels < FEW_CHANNELS


@rule("layer_norm", "rms_norm")
def normalize_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """norm(transpose(x), scale) = transpose(norm(x, transpose(scale))) where the normalised axes lie last too"""
    layout, axis = layout_of(op.operands[0]), op.int("axis")
    if layout is None or sorted(layout.permutation[axis:]) != list(range(axis, layout.rank)):
        return None
    order = [stored - axis for stored in layout.order[axis:]]
    x, *factors = op.operands
    moved = [_transposed(factor, order, build) for factor in factors]
    return layout.seen(build.op(op.name, [layout.stored(x, build), *moved], op.attributes)[0], build)


def _transposed(value: Value, order: Sequence[int], build: Builder) -> Value:
    array = constant_of(value)
    return (
        build.transpose(value, order) if array is None else build.constant(np.ascontiguousarray(array.transpose(order)))
    )


# Ops that drop, add or regroup axes


@rule("reduce")
def reduce_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """reduce(transpose(x)) = transpose(reduce(x)); sums may be rounded in another order"""
    layout = layout_of(op.operands[0])
    if layout is None:
        return None
    x = layout.stored(op.operands[0], build)
    reduced = build.reduce(x, op.text("kind"), [layout.permutation[axis] for axis in op.ints("axes")])
    return _in_order(reduced, [axis for axis in range(layout.rank) if axis not in op.ints("axes")], layout, build)


@rule("arg_reduce")
def arg_reduce_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """arg_reduce(transpose(x)) = transpose(arg_reduce(x))"""
    layout, axis = layout_of(op.operands[0]), op.int("axis")
    if layout is None:
        return None
    x = layout.stored(op.operands[0], build)
    indices = build.arg_reduce(x, op.text("kind"), layout.permutation[axis], op.flag("last"))
    return _in_order(indices, [other for other in range(layout.rank) if other != axis], layout, build)


def _in_order(x: Value, kept: Sequence[int], layout: Layout, build: Builder) -> Value:
    """`x`, of which the axes that are seen as `kept` are left, as it is seen."""
    lying = sorted(layout.permutation[axis] for axis in kept)
    return build.transpose(x, [lying.index(layout.permutation[axis]) for axis in kept])


@rule("arg_reduce_window")
def arg_reduce_window_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """arg_reduce_window(transpose(x)) = transpose(arg_reduce_window(x as [N, 1, *S, C]) / C)

    Indices are counted over all axes after 1 inside too, C among them: kernels read no other order.
    """
    layout = layout_of(op.operands[0])
    if layout is None or layout.channels != 1 or op.ints("window")[1] != 1 or op.ints("strides")[1] != 1:
        return None
    if op.dims("low")[1] != 0 or op.dims("high")[1] != 0 or op.text("dimensions") != image_labels(layout.rank - 2):
        return None
    x = layout.stored(op.operands[0], build)
    attributes: dict[str, Attribute] = {**op.attributes, "dimensions": image_labels(layout.rank - 1)}
    for name, unit in (("window", 1), ("strides", 1), ("dilations", 1), ("low", 0), ("high", 0)):
        first, *rest = layout.of(op.dims(name))
        attributes[name] = (first, unit, *rest)
    indices = build.op("arg_reduce_window", [build.unsqueeze(x, [1])], attributes)[0]
    count = build.size(x.shape[-1])
    return layout.seen(build.squeeze(build.div(indices, count), [1]), build)


@rule("gather")
def gather_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """gather(transpose(x), i) = transpose(gather(x, i)), and gather(x, transpose(i)) so for x of one axis"""
    (data, indices), axis = op.operands, op.int("axis")
    looked_up = layout_of(indices)
    if data.rank == 1 and looked_up is not None:
        return looked_up.seen(build.gather(data, looked_up.stored(indices, build), 0), build)
    layout = layout_of(data)
    if layout is None or (axis == 0 and indices.rank != 1):
        return None
    added = indices.rank - 1 if 1 <= axis <= layout.channels else 0
    gathered = build.gather(layout.stored(data, build), indices, layout.permutation[axis])
    return Layout(gathered.rank, layout.channels + added).seen(gathered, build)


@rule("broadcast")
def broadcast_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """broadcast(transpose(x)) = transpose(broadcast(x)) where the axes stay in order"""
    (value,), axes, shape = op.operands, op.ints("axes"), op.result.shape
    layout = layout_of(value)
    if layout is None or axes[0] != 0 or list(axes) != sorted(axes):
        return None
    wider = Layout(len(shape), axes[layout.channels + 1] - 1)
    targets = [wider.permutation[axes[axis]] for axis in layout.order]
    repeated = build.broadcast(layout.stored(value, build), targets, wider.of(shape))
    return wider.seen(repeated, build)


@rule("reshape")
def reshape_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """reshape(transpose(x)) = transpose(reshape(x)) where no axes are joined that do not lie side by side"""
    moved, shape = made_by(op.operands[0], "transpose"), op.result.shape
    if moved is None:
        return None
    layout, groups = layout_of(moved.result), axis_groups(moved.result.shape, shape)
    if groups is None:
        return None
    x, permutation = moved.operands[0], moved.ints("permutation")
    if layout is None:
        shuffled = _shuffled_channels(permutation)
        if shuffled is None:
            return None
        layout, inner = shuffled
        x, permutation = build.transpose(x, inner), layout.permutation
    lying = _lying(groups, permutation)
    for channels in range(len(shape)):
        target = Layout(len(shape), channels)
        if lying is not None and lying == [axis for axis in target.order if shape[axis] != 1]:
            return target.seen(build.with_shape(x, target.of(shape)), build)
    return None


def _lying(groups: Sequence[AxisGroup], permutation: Sequence[int]) -> list[int] | None:
    """The new axes in the order in which their elements lie; None where a group does not lie together and in order."""
    moved = sorted(permutation[old] for before, _ in groups for old in before)
    positions = {axis: position for position, axis in enumerate(moved)}
    runs = []
    for before, after in groups:
        run = [positions[permutation[axis]] for axis in before]
        if run != list(range(run[0], run[0] + len(run))):
            return None
        runs.append((run[0], after))
    return [axis for _, after in sorted(runs) for axis in after]


def _shuffled_channels(permutation: Sequence[int]) -> tuple[Layout, tuple[int, ...]] | None:
    """For a view that also changes the order of the axes of channels: the layout without that, and that by itself."""
    rank = len(permutation)
    for channels in range(2, rank - 1):
        layout = Layout(rank, channels)
        spatial = rank - channels
        if permutation[0] == 0 and tuple(permutation[1 + channels :]) == tuple(range(1, spatial)):
            return layout, (*range(spatial), *permutation[1 : 1 + channels])
    return None


MOVED: Sequence[Rule] = (
    compute_as_it_lies,
    concatenate_as_it_lies,
    apply_as_it_lies,
    normalize_as_it_lies,
    reduce_as_it_lies,
    arg_reduce_as_it_lies,
    arg_reduce_window_as_it_lies,
    gather_as_it_lies,
    broadcast_as_it_lies,
    reshape_as_it_lies,
)
"""All of them; each looks only at what is above an op, so one walk down a block is enough."""
