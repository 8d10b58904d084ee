"""Contractions: the two-operand einsum, and convolution."""

import string
from collections.abc import Sequence
from typing import TypeVar

from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.primitives.movement import dims_of, int_of, ints_of
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.runtime.records import record


def parse_equation(equation: object) -> tuple[str, str, str]:
    """The letters of the left operand, the right operand and the result of "mk,kn->mn"."""
    if not isinstance(equation, str) or equation.count(",") != 1 or equation.count("->") != 1:
        raise TypeRuleError(f"equation is {equation}")
    operands, result = equation.split("->")
    left, right = operands.split(",")
    for letters in (left, right, result):
        if len(set(letters)) != len(letters):
            raise TypeRuleError(f"a letter is repeated within one term of {equation}")
    if not set(result) <= set(left + right):
        raise TypeRuleError(f"the result of {equation} has a letter of neither operand")
    return left, right, result


def _dtype(attributes: Attributes) -> DType:
    dtype = attributes.get("dtype")
    if not isinstance(dtype, DType):
        raise TypeRuleError(f"dtype is {dtype}")
    return dtype


def _dot(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """Letters that the result lacks are summed, in f32 or i32 at least."""
    a, b = tensors(operands, 2)
    left, right, result = parse_equation(attributes.get("equation"))
    if (len(left), len(right)) != (a.rank, b.rank):
        raise TypeRuleError(f"{attributes.get('equation')} does not fit {a} and {b}")
    sizes: dict[str, Dim] = {}
    for letter, size in zip(left + right, a.known_shape + b.known_shape, strict=True):
        if sizes.setdefault(letter, size) != size:
            raise TypeRuleError(f"axis {letter} of {attributes.get('equation')} is {sizes[letter]} and {size}")
    return (TensorType(_dtype(attributes), tuple(sizes[letter] for letter in result)),)


def _dot_axes(op: Op) -> tuple[AxisLink, ...]:
    left, right, result = parse_equation(op.attributes["equation"])
    links = []
    for letter in dict.fromkeys(left + right):
        operand_axes = tuple(term.index(letter) if letter in term else None for term in (left, right))
        if letter in result:
            links.append(AxisLink("map", operand_axes, (result.index(letter),)))
        else:
            links.append(AxisLink("reduce", operand_axes, (None,), "sum"))
    return tuple(links)


def window_size(size: Dim, window: Dim, stride: int, low: Dim, high: Dim, dilation: int) -> Dim:
    """How many windows fit along an axis, whole."""
    return floordiv(size + low + high - (window - 1) * dilation - 1, stride) + 1


T = TypeVar("T")

SPATIAL_LABELS = string.digits + string.ascii_uppercase
"""The label of each spatial axis: its digit, and a capital letter for those after the tenth."""


@record
class _Axes:
    """Where the axes of a tensor stand; `order` names two, which a subclass gives, and then the spatial axes."""

    order: tuple[int, ...]

    @property
    def spatial(self) -> tuple[int, ...]:
        """The spatial axes, in the order in which attributes list them."""
        return self.order[2:]

    @property
    def inverse(self) -> tuple[int, ...]:
        """The permutation that undoes a transpose by `order`."""
        return tuple(self.order.index(axis) for axis in range(len(self.order)))

    def arranged(self, first: T, second: T, spatial: Sequence[T]) -> tuple[T, ...]:
        """What belongs to each axis, in the order of the axes; first that of the two that are named."""
        entries = (first, second, *spatial)
        return tuple(entries[position] for position in self.inverse)


class ImageAxes(_Axes):
    """The axes of images, and of what is computed for each window over them; labels n, c and digits."""

    @property
    def batch(self) -> int:
        """The axis of the images."""
        return self.order[0]

    @property
    def channel(self) -> int:
        """The axis of the channels."""
        return self.order[1]


class FilterAxes(_Axes):
    """The axes of the filters of a convolution; labels o, i and digits."""

    @property
    def output(self) -> int:
        """The axis of the filters, which are the channels of the result."""
        return self.order[0]

    @property
    def input(self) -> int:
        """The axis of the channels that a filter reads: those of one group."""
        return self.order[1]


@record
class ConvolutionDimensions:
    """Which axis is which, in the operands and the result of a convolution."""

    x: ImageAxes
    w: FilterAxes
    result: ImageAxes


def parse_dimensions(dimensions: object) -> ConvolutionDimensions:
    """The axes that "nc01,oi01->nc01" labels: images, channels, output and input channels of filters, spatial axes."""
    if not isinstance(dimensions, str) or dimensions.count(",") != 1 or dimensions.count("->") != 1:
        raise TypeRuleError(f"dimensions is {dimensions}")
    operands, result = dimensions.split("->")
    x, w = operands.split(",")
    rank = len(x) - 2
    return ConvolutionDimensions(
        ImageAxes(_order(x, "nc", rank)), FilterAxes(_order(w, "oi", rank)), ImageAxes(_order(result, "nc", rank))
    )


def parse_image_labels(dimensions: object) -> ImageAxes:
    """The axes that "nc01" labels."""
    if not isinstance(dimensions, str):
        raise TypeRuleError(f"dimensions is {dimensions}")
    return ImageAxes(_order(dimensions, "nc", len(dimensions) - 2))


def _order(term: str, leading: str, spatial_rank: int) -> tuple[int, ...]:
    """Where the labels stand in `term`, each once: first `leading`, then those of the spatial axes."""
    labels = leading + SPATIAL_LABELS[: max(spatial_rank, 0)]
    if sorted(term) != sorted(labels):
        raise TypeRuleError(f"the labels {term} are not {labels} in some order")
    return tuple(term.index(label) for label in labels)


def image_labels(spatial_rank: int) -> str:
    """The labels "nc01": images, channels, and that many spatial axes."""
    return "nc" + SPATIAL_LABELS[:spatial_rank]


def channels_first(spatial_rank: int) -> str:
    """The labels "nc01,oi01->nc01", of as many spatial axes: the order of ONNX."""
    spatial = SPATIAL_LABELS[:spatial_rank]
    return f"nc{spatial},oi{spatial}->nc{spatial}"


def channels_innermost(spatial_rank: int) -> str:
    """The labels "n01c,oi01->n01c", of as many spatial axes: the channels of each pixel lie side by side."""
    spatial = SPATIAL_LABELS[:spatial_rank]
    return f"n{spatial}c,oi{spatial}->n{spatial}c"


def all_channels_innermost(spatial_rank: int) -> str:
    """The labels "n01c,o01i->n01c", of as many spatial axes: the channels of each tap lie side by side, too."""
    spatial = SPATIAL_LABELS[:spatial_rank]
    return f"n{spatial}c,o{spatial}i->n{spatial}c"


def _convolution(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[N, C, *S], w: T[M, C/groups, *K] -> [N, M, *O], cross-correlation, axes in the order of `dimensions`.

    `input_dilations` puts that many minus one zeros between the elements of x, which makes it the transpose of a
    strided convolution. A dimension O that would be negative is a TypeRuleError where it is decided. Where these zeros
    and those of the padding meet an infinity or NaN of w, a kernel may add the NaN or leave it out.
    """
    x, w = tensors(operands, 2)
    labels, groups = parse_dimensions(attributes.get("dimensions")), int_of(attributes, "groups")
    if (len(labels.x.order), len(labels.w.order)) != (x.rank, w.rank):
        raise TypeRuleError(f"{attributes.get('dimensions')} does not fit {x} and {w}")
    channels, own = x.known_shape[labels.x.channel], w.known_shape[labels.w.input]
    filters = w.known_shape[labels.w.output]
    sizes = _result_sizes(x, w, labels, attributes)
    if groups < 1:
        raise TypeRuleError(f"groups is {groups}, not at least 1")
    if channels != own * groups:
        raise TypeRuleError(f"{x} has {channels} channels, {w} in {groups} groups takes {own * groups}")
    if isinstance(filters, int) and filters % groups:
        raise TypeRuleError(f"{filters} filters cannot be split into {groups} groups")
    shape = labels.result.arranged(x.known_shape[labels.x.batch], filters, sizes)
    return (TensorType(_dtype(attributes), shape),)


def _result_sizes(x: TensorType, w: TensorType, labels: ConvolutionDimensions, attributes: Attributes) -> list[Dim]:
    """The spatial sizes of the result."""
    spatial = len(labels.x.spatial)
    strides, dilations = ints_of(attributes, "strides"), ints_of(attributes, "dilations")
    spread, low, high = ints_of(attributes, "input_dilations"), dims_of(attributes, "low"), dims_of(attributes, "high")
    if {len(strides), len(dilations), len(spread), len(low), len(high)} != {spatial}:
        raise TypeRuleError(f"strides, dilations and padding do not all have {spatial} entries")
    if min((1, *strides, *dilations, *spread)) < 1:
        raise TypeRuleError("strides and dilations are at least 1")
    sizes: list[Dim] = []
    for axis, (of_x, of_w) in enumerate(zip(labels.x.spatial, labels.w.spatial, strict=True)):
        length, taps = x.known_shape[of_x], w.known_shape[of_w]
        spread_length = (length - 1) * spread[axis] + 1 if spread[axis] != 1 else length
        sizes.append(window_size(spread_length, taps, strides[axis], low[axis], high[axis], dilations[axis]))
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise TypeRuleError(f"the window of {w} is larger than the padded {x}")
    return sizes


def _convolution_axes(op: Op) -> tuple[AxisLink, ...]:
    labels = parse_dimensions(op.attributes["dimensions"])
    x, w, result = labels.x, labels.w, labels.result
    links = [AxisLink("map", (x.batch, None), (result.batch,))]
    if op.int("groups") == 1:
        links.append(AxisLink("map", (None, w.output), (result.channel,)))
        links.append(AxisLink("reduce", (x.channel, w.input), (None,), "sum"))
    windows = zip(x.spatial, w.spatial, result.spatial, strict=True)
    return (*links, *(AxisLink("window", (of_x, of_w), (axis,)) for of_x, of_w, axis in windows))


define(Primitive("dot", "contraction", _dot, _dot_axes, kernel=Anchor("contraction"), takes="numbers"))
define(Primitive("convolution", "contraction", _convolution, _convolution_axes, kernel=Anchor("convolution")))
