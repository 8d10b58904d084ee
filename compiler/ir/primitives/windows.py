"""Windows: a fold over each of the windows that slide over a tensor, padded with the identity of the fold."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.primitives.contractions import parse_image_labels, window_size
from onnxc.compiler.ir.primitives.movement import dims_of, ints_of
from onnxc.compiler.ir.types import TensorType, Type


def _windows(value: TensorType, attributes: Attributes, kinds: Sequence[str]) -> tuple[Dim, ...]:
    if attributes.get("kind") not in kinds:
        raise TypeRuleError(f"kind is {attributes.get('kind')}, not one of {', '.join(kinds)}")
    window, strides, dilations = (ints_of(attributes, name) for name in ("window", "strides", "dilations"))
    low, high = dims_of(attributes, "low"), dims_of(attributes, "high")
    if {len(window), len(strides), len(dilations), len(low), len(high)} != {value.rank}:
        raise TypeRuleError(f"window, strides, dilations and padding do not all have {value.rank} entries")
    if min((1, *window, *strides, *dilations)) < 1:
        raise TypeRuleError("windows, strides and dilations are at least 1")
    sizes = tuple(
        window_size(size, window[axis], strides[axis], low[axis], high[axis], dilations[axis])
        for axis, size in enumerate(value.known_shape)
    )
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise TypeRuleError(f"the window {list(window)} is larger than the padded {value}")
    return sizes


def _reduce_window(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    return (TensorType(value.dtype, _windows(value, attributes, ("sum", "max", "min"))),)


def _arg_reduce_window(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """T[N, C, *S] -> i64: the row-major index, within S, of the extremum of each window; the first of equals.

    The axes lie in the order of the labels `dimensions`; S is in the order of its digits.
    """
    (value,) = tensors(operands, 1)
    if len(parse_image_labels(attributes.get("dimensions")).order) != value.rank:
        raise TypeRuleError(f"{attributes.get('dimensions')} does not fit {value}")
    return (TensorType(I64, _windows(value, attributes, ("max",))),)


def _window_axes(op: Op) -> tuple[AxisLink, ...]:
    links = []
    for axis in range(op.operands[0].rank):
        single = (op.ints("window")[axis], op.ints("strides")[axis], op.dims("low")[axis], op.dims("high")[axis])
        links.append(AxisLink("map" if single == (1, 1, 0, 0) else "window", (axis,), (axis,)))
    return tuple(links)


def _arg_window_axes(op: Op) -> tuple[AxisLink, ...]:
    """As `reduce_window`, but the indices in a window are counted over all of S, so no axis of S can be split."""
    labels = parse_image_labels(op.attributes["dimensions"])
    others = (labels.batch, labels.channel)
    return tuple(link for link in _window_axes(op) if link.kind == "window" or link.results[0] in others)


define(Primitive("reduce_window", "window", _reduce_window, _window_axes, kernel=Anchor("window")))
define(Primitive("arg_reduce_window", "window", _arg_reduce_window, _arg_window_axes, kernel=Anchor("window")))
