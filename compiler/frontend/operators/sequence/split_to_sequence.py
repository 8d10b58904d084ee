"""SplitToSequence and ConcatFromSequence: between a tensor and the sequence of its parts along an axis."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.host_values import (
    LONGEST_KNOWN,
    construct,
    element_type,
    known_elements,
    sequence_input,
)
from onnxc.compiler.frontend.operator_helpers.shape_inputs import known_integers
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import ANY_SIZE, SequenceType, TensorType


@operator("SplitToSequence", since=(11, 24))
def split_to_sequence(node: Node, ir: Builder) -> Value:
    """input: T[... d ...], split: I[] or I[n]  ->  seq(T[... s ...]), parts along `axis`

    A scalar is the size of every part but the last, a vector the size of each. Without one, the parts are of size 1,
    an axis that is dropped where `keepdims` is 0.
    Source: https://onnx.ai/onnx/operators/onnx__SplitToSequence.html
    """
    x, lengths = node.input("input"), node.optional("split")
    axis = node.axis("axis", rank=x.rank)
    keeps = lengths is not None or node.flag("keepdims")
    if lengths is not None and lengths.rank > 1:
        node.fail("not-a-vector", f"split is {lengths.type}, of rank over 1", rule="ONNX SplitToSequence, split")
    parts = _known_parts(x.shape[axis], lengths, node, ir)
    if parts is not None and 0 < len(parts) <= LONGEST_KNOWN:
        starts = [sum(parts[:ordinal]) for ordinal in range(len(parts))]
        slices = [ir.slice_axis(x, axis, start, size) for start, size in zip(starts, parts, strict=True)]
        return construct(slices if keeps else [ir.squeeze(part, (axis,)) for part in slices], node, ir)
    shape: list[Dim] = list(x.shape)
    shape[axis] = _size_of_each(lengths, ir)
    if not keeps:
        del shape[axis]
    operands = (x,) if lengths is None else (x, ir.cast(lengths, I64))
    type = SequenceType(TensorType(x.dtype, tuple(shape)))
    return ir.host("split_to_sequence", operands, (type,), {"axis": axis, "keepdims": keeps})[0]


def _size_of_each(lengths: Value | None, ir: Builder) -> Dim:
    """The size that all parts have, ANY_SIZE where they may differ.

    Exporters write the repetition of each row by a split into parts of 1, as many as there are rows.
    """
    if lengths is None:
        return 1
    repeated = lengths.op.operands[0] if lengths.op is not None and lengths.op.name == "broadcast" else lengths
    sizes = set(known_integers(repeated, ir) or ())
    # The last part that a scalar asks for may be smaller, but none is smaller than 1.
    return sizes.pop() if len(sizes) == 1 and (lengths.rank == 1 or sizes == {1}) and min(sizes) >= 0 else ANY_SIZE


def _known_parts(total: Dim, lengths: Value | None, node: Node, ir: Builder) -> Sequence[int] | None:
    """The size of each part, where all are known and not too many to be listed."""
    if not isinstance(total, int):
        return None
    given = (1,) if lengths is None else known_integers(lengths, ir)
    if given is None:
        return None
    if lengths is not None and lengths.rank == 1:
        if min(given, default=0) < 0:
            message = f"split is {list(given)}, which has a negative length"
            node.fail("split-length", message, rule="ONNX SplitToSequence, split")
        if sum(given) != total:
            message = f"split is {list(given)}, the axis has {total} elements"
            node.fail("split-sum", message, rule="ONNX SplitToSequence, split")
        return given
    (size,) = given
    if size <= 0:
        node.fail("split-length", f"split is {size}, not positive", rule="ONNX SplitToSequence, split")
    whole, rest = divmod(total, size)
    if whole > LONGEST_KNOWN:
        return None
    return [size] * whole + [rest] * (rest > 0)


@operator("ConcatFromSequence", since=(11,))
def concat_from_sequence(node: Node, ir: Builder) -> Value:
    """input_sequence: seq(T[... d ...])  ->  T[... sum of d ...] along `axis`, or T[... n, d ...] with `new_axis`

    Source: https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html
    """
    sequence, is_new = sequence_input("input_sequence", node), node.flag("new_axis")
    if node.int("new_axis") not in (0, 1):
        message = f"new_axis is {node.int('new_axis')}, not 0 or 1"
        node.fail("attribute-range", message, rule="ONNX ConcatFromSequence, attribute new_axis")
    element = element_type(sequence)
    if not isinstance(element, TensorType):
        node.fail("element-types", f"the elements are {element}, not tensors", rule="ONNX ConcatFromSequence")
    elements = known_elements(sequence)
    ranks = {x.rank for x in elements or () if isinstance(x.type, TensorType) and x.type.shape is not None}
    if len(ranks) > 1:
        message = f"the elements have ranks {', '.join(map(str, sorted(ranks)))}"
        node.fail("concat-rank", message, rule="ONNX ConcatFromSequence, input_sequence")
    attributes = {"axis": node.int("axis"), "new_axis": is_new}
    if element.shape is None:
        return ir.host("concatenate_sequence", (sequence,), (TensorType(element.dtype, None),), attributes)[0]
    axis = node.axis("axis", rank=len(element.shape) + is_new)
    if elements:
        return ir.concatenate([ir.unsqueeze(value, (axis,)) for value in elements] if is_new else elements, axis)
    shape = [ir.fresh_symbol("joined") if dim == ANY_SIZE else dim for dim in element.shape]
    if is_new:
        shape.insert(axis, ir.fresh_symbol("count"))
    else:
        shape[axis] = ir.fresh_symbol("joined")
    type = TensorType(element.dtype, tuple(shape))
    return ir.host("concatenate_sequence", (sequence,), (type,), {**attributes, "axis": axis})[0]
