"""Contractions: the two-operand einsum, and convolution."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.primitives.movement import dims_of, int_of, ints_of
from onnxc.compiler.ir.types import TensorType, Type


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
        places = tuple(term.index(letter) if letter in term else None for term in (left, right))
        if letter in result:
            links.append(AxisLink("map", places, (result.index(letter),)))
        else:
            links.append(AxisLink("reduce", places, (None,), "sum"))
    return tuple(links)


def window_size(size: Dim, window: Dim, stride: int, low: Dim, high: Dim, dilation: int) -> Dim:
    """How many windows fit along an axis, whole."""
    return floordiv(size + low + high - (window - 1) * dilation - 1, stride) + 1


def channel_axis(op: Op) -> int:
    """The axis of the channels in the input and the result of a convolution."""
    return op.results[0].rank - 1 if op.flag("channels_last") else 1


def spatial_axes(op: Op) -> tuple[int, ...]:
    """The spatial axes of the input and the result of a convolution; those of its filters begin at 2."""
    return tuple(axis for axis in range(1, op.results[0].rank) if axis != channel_axis(op))


def _convolution(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[N, C, *S], w: T[M, C/groups, *K] -> [N, M, *O], cross-correlation.

    With `channels_last` x is T[N, *S, C] and the result [N, *O, M]; w is the same. `input_dilations` puts that many
    minus one zeros between the elements of x, which makes it the transpose of a strided convolution. A dimension O that
    would be negative is a TypeRuleError where it is decided.
    """
    x, w = tensors(operands, 2)
    spatial, groups = x.rank - 2, int_of(attributes, "groups")
    if spatial < 0 or w.rank != x.rank:
        raise TypeRuleError(f"{x} and {w} differ in rank")
    strides, dilations = ints_of(attributes, "strides"), ints_of(attributes, "dilations")
    spread, low, high = ints_of(attributes, "input_dilations"), dims_of(attributes, "low"), dims_of(attributes, "high")
    if {len(strides), len(dilations), len(spread), len(low), len(high)} != {spatial}:
        raise TypeRuleError(f"strides, dilations and padding do not all have {spatial} entries")
    if min((groups, *strides, *dilations, *spread)) < 1:
        raise TypeRuleError("groups, strides and dilations are at least 1")
    channels_last = attributes.get("channels_last")
    if not isinstance(channels_last, bool):
        raise TypeRuleError(f"channels_last is {channels_last}, not true or false")
    batch, *rest = x.known_shape
    channels, lengths = (rest[-1], rest[:-1]) if channels_last else (rest[0], rest[1:])
    filters = w.known_shape[0]
    if channels != w.known_shape[1] * groups:
        raise TypeRuleError(f"{x} has {channels} channels, {w} in {groups} groups takes {w.known_shape[1] * groups}")
    if isinstance(filters, int) and filters % groups:
        raise TypeRuleError(f"{filters} filters cannot be split into {groups} groups")
    sizes: list[Dim] = []
    for axis, length in enumerate(lengths):
        spread_length = (length - 1) * spread[axis] + 1 if spread[axis] != 1 else length
        sizes.append(
            window_size(spread_length, w.known_shape[2 + axis], strides[axis], low[axis], high[axis], dilations[axis])
        )
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise TypeRuleError(f"the window of {w} is larger than the padded {x}")
    shape = (batch, *sizes, filters) if channels_last else (batch, filters, *sizes)
    return (TensorType(_dtype(attributes), shape),)


def _convolution_axes(op: Op) -> tuple[AxisLink, ...]:
    links, channels = [AxisLink("map", (0, None), (0,))], channel_axis(op)
    if op.int("groups") == 1:
        links += [AxisLink("map", (None, 0), (channels,)), AxisLink("reduce", (channels, 1), (None,), "sum")]
    windows = enumerate(spatial_axes(op), start=2)
    return (*links, *(AxisLink("window", (axis, place), (axis,)) for place, axis in windows))


define(Primitive("dot", "contraction", _dot, _dot_axes, kernel=Anchor("contraction")))
define(Primitive("convolution", "contraction", _convolution, _convolution_axes, kernel=Anchor("convolution")))
