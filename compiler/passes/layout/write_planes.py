"""Convolutions that write their results as planes, one for each channel: where nothing reads them channels last.

Behind `choose_layout` such a result goes through pointwise ops into a transpose, which would read and write all of it
again. And where channels last no products of a sum lie side by side, as for one channel under taps along a column, or
filters are so few that most lanes of a vector have none: what is turned then is little.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.makers import constant_of, made_by
from onnxc.compiler.ir.module import Attribute, Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import channels_innermost, image_labels
from onnxc.compiler.ir.rewriter import Outcome, Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.layout.moved_layouts import Layout
from onnxc.compiler.passes.layout.plane_costs import is_faster_as_planes, is_faster_turned, multiplies_pixels
from onnxc.compiler.passes.layout.spread_columns import adds_columns
from onnxc.compiler.passes.layout.windows_apart import sums_of_windows, windows_lie_apart
from onnxc.compiler.passes.lower.pixel_products import is_pixel_product, multiplied_pixels
from onnxc.compiler.passes.simplify.rules.broadcasts import ELEMENTWISE
from onnxc.compiler.passes.simplify.rules.reshapes import reshape_broadcast, transpose_units
from onnxc.compiler.passes.simplify.rules.transposes import transpose_nothing

REGION_LIMIT = 64
"""The most values that are looked at behind a convolution: models have up to some thirty pointwise ops in a row."""

WINDOW_LIMIT = 1 << 18
"""The most elements that a unit of work of the kernel may copy of an image: 1 MiB of the stack."""

PACKED_LIMIT = 1 << 15
"""The most elements of the filters of a group that a thread packs: 128 KiB of the stack."""

SHORTEST_LINES = {False: 5, True: 16}
"""The shortest lines of results that fill enough lanes where filters are packed on the way, too, by whether windows
have steps: lines of 2 to 4 took 1.4 to 3.4 times as long as channels last, of 7 to 14 in steps of 2 1.1 to 1.4."""

UNIT_COLUMNS = 64
"""More columns than that of which it has at least."""

MOST_LANES = 16
"""Channels that the kernel has room for come in so many."""

MOST_STEPS = 2
"""Wider steps make parts of so few elements that copying them takes longest."""


def write_planes(module: Module) -> Module:
    """Has convolutions write planes whose results are only wanted so, and those that have no other fast kernel."""
    first = rewrite(module, [turn_first, transpose_nothing])
    behind = rewrite(first, [turn_behind, compute_planes, transpose_nothing])
    return rewrite(behind, [transpose_units, compute_products, reshape_broadcast])


@rule("transpose", "reshape")
def turn_first(op: Op, build: Rewriter) -> Outcome:
    """transpose(relu(convolution(x, w) + b)) = relu(planes(x, w) + transpose(b)), where that is less work"""
    value = op.operands[0]
    if not _turns(op):
        return None
    region = _region(value, build)
    if region is None or not _gains(region[0]):
        return None
    return _turned(region, build)


@rule("convolution")
def turn_behind(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w) = transpose(planes(x, w)), where channels last no products lie side by side, or few do"""
    if not _gains_behind(op):
        return None
    return _planes_of(op.result.rank).seen(_planes(op, build), build)


@rule(*ELEMENTWISE)
def compute_planes(op: Op, build: Rewriter) -> Outcome:
    """relu(transpose(planes) + b) = transpose(relu(planes + transpose(b))), where that turns nothing else"""
    if not any(_is_of_planes(operand) for operand in op.operands):
        return None
    computed = _as_planes(op, {}, build)
    return computed if isinstance(computed, Refusal) else _planes_of(op.result.rank).seen(computed, build)


@rule(*ELEMENTWISE)
def compute_products(op: Op, build: Rewriter) -> Outcome:
    """relu(reshape(product) + b) = reshape(relu(product + reshape(b))), which the kernel of the product computes"""
    reshaped = (made_by(operand, "reshape") for operand in op.operands)
    product_of_pixels = next(
        (each for each in reshaped if each is not None and _is_of_products(each.operands[0])), None
    )
    if product_of_pixels is None:
        return None
    shape = product_of_pixels.operands[0].shape
    operands = [_in_shape(operand, shape, build) for operand in op.operands]
    return build.reshape(build.op(op.name, operands, op.attributes)[0], op.result.shape)


def _in_shape(value: Value, shape: Sequence[Dim], build: Rewriter) -> Value:
    """`value` in another shape, which may be that of what it was made of."""
    before = made_by(value, "reshape")
    is_there = before is not None and before.operands[0].shape == tuple(shape)
    return before.operands[0] if before is not None and is_there else build.reshape(value, shape)


def _is_of_products(value: Value) -> bool:
    """Whether `value` is a product of pixels, or was computed of one."""
    op = value.op
    while op is not None and op.name in ELEMENTWISE:
        op = next((operand.op for operand in op.operands if made_by(operand, "broadcast") is None), None)
    return op is not None and is_pixel_product(op)


def _is_of_planes(value: Value) -> bool:
    """Whether `value` is a view of what a convolution wrote, or of what was computed of that."""
    moved = made_by(value, "transpose")
    makers = ("convolution", "reshape", *ELEMENTWISE)
    return moved is not None and _are_planes(value) and made_by(moved.operands[0], *makers) is not None


def _turns(op: Op) -> bool:
    """Whether channels that lie last are brought before the pixels; one channel is by another name."""
    lying, seen = op.operands[0].shape, op.result.shape
    if op.result.rank < 3:
        return False
    if op.name == "reshape":
        return len(lying) == len(seen) and lying[-1] == 1 and seen == (lying[0], 1, *lying[1:-1])
    return op.ints("permutation") == Layout(op.result.rank).permutation


def _region(value: Value, build: Rewriter) -> tuple[Op, ...] | None:
    """The one convolution and the pointwise ops that lead from it to `value`, in order, if nothing else uses them."""
    known: dict[Value, bool] = {}
    _leads(value, known)
    ops = tuple(each.op for each, leads in known.items() if leads and each.op is not None)
    if sum(op.name == "convolution" for op in ops) != 1:
        return None
    inside = Counter(operand for op in ops for operand in op.operands)
    inside[value] += 1
    is_closed = all(build.uses(op.result) == inside[op.result] for op in ops)
    return ops if is_closed else None


def _leads(value: Value, known: dict[Value, bool]) -> bool:
    """Whether `value` is made of a convolution by pointwise ops; all on the way come to be known before what they make.

    Beyond a limit none are, so that what uses them is seen to be used elsewhere.
    """
    if value not in known:
        op = value.op
        if op is None or len(known) >= REGION_LIMIT:
            return False
        known[value] = False
        leads = op.name == "convolution"
        if op.name in ELEMENTWISE:
            leads = sum(_leads(operand, known) for operand in op.operands) > 0
        del known[value]
        known[value] = leads
    return known[value]


def _turned(region: Sequence[Op], build: Rewriter) -> Value | Refusal:
    """The last result of a region whose convolution, the first op, writes planes."""
    convolution, *others = region
    turned = {convolution.result: _planes(convolution, build)}
    for op in others:
        computed = _as_planes(op, turned, build)
        if isinstance(computed, Refusal):
            return computed
        turned[op.result] = computed
    return turned[region[-1].result]


def _as_planes(op: Op, turned: Mapping[Value, Value], build: Rewriter) -> Value | Refusal:
    """The result of a pointwise op as planes; `turned` has operands that are planes by now."""
    inverse = _planes_of(op.result.rank)
    beside = [operand for operand in op.operands if operand not in turned]
    if any(inverse.costs(operand) and not _are_planes(operand) for operand in beside):
        return Refusal("what pointwise ops read beside a convolution lies channels last")
    operands = [turned.get(operand) or inverse.stored(operand, build) for operand in op.operands]
    return build.op(op.name, operands, op.attributes)[0]


def _planes_of(rank: int) -> Layout:
    """How planes lie that are seen with their channels last."""
    return Layout(rank, rank - 2)


def _are_planes(value: Value) -> bool:
    """Whether `value` is a view of planes."""
    op = made_by(value, "transpose")
    return op is not None and op.ints("permutation") == _planes_of(value.rank).permutation


def _planes(op: Op, build: Rewriter) -> Value:
    if _sums_windows(op):
        return sums_of_windows(op, build)
    if multiplies_pixels(op):
        planes = _planes_of(op.result.rank)
        shape = [op.result.shape[axis] for axis in planes.order]
        return multiplied_pixels(planes.stored(op.operands[0], build), op, shape, build)
    images, _ = op.text("dimensions").split("->")
    attributes: dict[str, Attribute] = {**op.attributes, "dimensions": f"{images}->{image_labels(op.result.rank - 2)}"}
    return build.op("convolution", op.operands, attributes)[0]


def _gains(op: Op) -> bool:
    """Whether turning the result takes longer than what the kernel of planes loses, and there is one for it."""
    return _has_own_planes(op) or (_has_planes(op) and (_is_scattered(op) or is_faster_as_planes(op)))


def _gains_behind(op: Op) -> bool:
    """The same where the planes are turned behind."""
    return _has_own_planes(op) or (_has_planes(op) and (_is_scattered(op) or is_faster_turned(op)))


def _has_own_planes(op: Op) -> bool:
    """Whether planes are not computed by windows."""
    return _sums_windows(op) or adds_columns(op)


def _sums_windows(op: Op) -> bool:
    """Whether planes are no convolution, but sums of what lies under its windows."""
    is_of_floats = {op.operands[0].dtype, op.operands[1].dtype, op.dtype()} <= {F32, F64}
    return op.text("dimensions") == channels_innermost(op.result.rank - 2) and is_of_floats and windows_lie_apart(op)


def _is_scattered(op: Op) -> bool:
    """Whether channels last no two products of a sum lie side by side: of one channel, the taps of a line must.

    The general kernel, which is left for these, takes 3 to 12 times as long as that of planes with what turns its
    result: 16 filters of 9 x 1 to 9 x 9 x 1 taps on an Intel Xeon with AVX-512.
    """
    x, w = op.operands
    *others, taps = w.shape[1:]
    is_apart = taps == 1 or op.ints("dilations")[-1] > 1
    return x.shape[-1] == 1 and x.shape[-2] != 1 and is_apart and product((*others, taps)) != 1


def _has_planes(op: Op) -> bool:
    """Whether there is a kernel of planes for a convolution whose channels lie last."""
    x, w = op.operands
    if op.text("dimensions") != channels_innermost(x.rank - 2) or not _has_packed_filters(op):
        return False
    if {x.dtype, op.dtype()} - {F32, F64} or product(w.shape) == 0:
        return False
    has_wide_steps = max(op.ints("strides")) > MOST_STEPS and not multiplies_pixels(op)
    if max(op.ints("input_dilations")) > 1 or has_wide_steps:
        return False
    return _window_elements(op) <= WINDOW_LIMIT


def _has_packed_filters(op: Op) -> bool:
    """Whether filters are a constant, or those of a group are few enough to be packed on the way, and lines are long
    enough for it."""
    w, line = op.operands[1], op.result.shape[-2]
    if constant_of(w) is not None:
        return True
    elements = product(w.shape)
    if not isinstance(elements, int) or not all(isinstance(size, int) for size in w.shape):
        return False
    shortest = SHORTEST_LINES[max(op.ints("strides")) > 1]
    is_long = not isinstance(line, int) or line >= shortest
    return is_long and elements <= PACKED_LIMIT * op.int("groups")


def _window_elements(op: Op) -> int:
    """How many elements of an image one line of a unit reads."""
    _, channels, *taps = (size for size in op.operands[1].shape if isinstance(size, int))
    reaches = [(count - 1) * step for count, step in zip(taps, op.ints("dilations"), strict=True)]
    *steps, last = op.ints("strides")
    lines = prod(reach + step for reach, step in zip(reaches[:-1], steps, strict=True))
    return -(-channels // MOST_LANES) * MOST_LANES * lines * (reaches[-1] + last * UNIT_COLUMNS)
