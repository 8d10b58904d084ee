"""Split: consecutive parts of a tensor along an axis."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.module import Value

UNEVEN_SINCE = 18


@operator("Split", since=(1, 2, 11))
def split_by_attribute(node: Node, ir: Builder) -> tuple[Value, ...]:
    """input: T[... d ...]  ->  T[... si ...], s = split, an attribute and in version 1 also an input.

    By default the parts are equal.
    Source: https://onnx.ai/onnx/operators/onnx__Split.html
    """
    x, axis = _operand(node)
    lengths = node.optional("split") if node.since == 1 else None
    if lengths is not None:
        return _parts(x, axis, _lengths(lengths, node, ir), node, ir)
    if node.has("split"):
        return _parts(x, axis, node.ints("split"), node, ir)
    return _parts(x, axis, _equal_parts(x.shape[axis], node, ir), node, ir)


@operator("Split", since=(13, 18))
def split(node: Node, ir: Builder) -> tuple[Value, ...]:
    """input: T[... d ...], split: i64[n]?  ->  T[... si ...]; by default equal parts, since 18 the last may be smaller.

    Source: https://onnx.ai/onnx/operators/onnx__Split.html
    """
    x, axis = _operand(node)
    lengths = node.optional("split")
    if lengths is not None and node.has("num_outputs"):
        node.fail("split-twice", "both split and num_outputs are given", rule="ONNX Split, num_outputs")
    if lengths is not None:
        return _parts(x, axis, _lengths(lengths, node, ir), node, ir)
    if node.since >= UNEVEN_SINCE and not node.has("num_outputs"):
        node.fail("split-unspecified", "neither split nor num_outputs is given", rule="ONNX Split, num_outputs")
    if node.since < UNEVEN_SINCE:
        return _parts(x, axis, _equal_parts(x.shape[axis], node, ir), node, ir)
    count = node.int("num_outputs")
    if count != node.output_count:
        message = f"num_outputs is {count}, the node has {node.output_count} outputs"
        node.fail("split-count", message, rule="ONNX Split, num_outputs")
    return _parts(x, axis, _nearly_equal_parts(x.shape[axis], count), node, ir)


def _lengths(value: Value, node: Node, ir: Builder) -> tuple[Dim, ...]:
    """The input `split`: as many lengths as the node has outputs."""
    if value.rank == 1 and isinstance(value.shape[0], int):
        _expect_count(value.shape[0], node)
    return read_lengths(value, "split", node, ir, node.output_count, code="split-length")


def _expect_count(count: int, node: Node) -> None:
    if count != node.output_count:
        message = f"split has {count} lengths, the node has {node.output_count} outputs"
        node.fail("split-count", message, rule="ONNX Split, split")


def _operand(node: Node) -> tuple[Value, int]:
    x = node.input("input")
    return x, node.axis("axis", rank=x.rank, default=0)


def _equal_parts(size: Dim, node: Node, ir: Builder) -> list[Dim]:
    count = node.output_count
    part = floordiv(size, count)
    message = f"an axis of size {size} cannot be split into {count} equal parts"
    if isinstance(size, int) and size % count:
        node.fail("split-sum", message, rule="ONNX Split, split")
    ir.require_equal(part * count, size, message)
    return [part] * count


def _nearly_equal_parts(size: Dim, count: int) -> list[Dim]:
    """Parts of ceil(size / count), as far as they go."""
    part = floordiv(size + count - 1, count)
    return [maximum(0, minimum(part, size - part * ordinal)) for ordinal in range(count)]


def _parts(x: Value, axis: int, lengths: Sequence[Dim], node: Node, ir: Builder) -> tuple[Value, ...]:
    _expect_count(len(lengths), node)
    if any(isinstance(length, int) and length < 0 for length in lengths):
        node.fail("split-length", f"split is {list(lengths)}", rule="ONNX Split, split")
    total = sum(lengths)
    size = x.shape[axis]
    message = f"the lengths {', '.join(map(str, lengths))} do not add up to {size}"
    if isinstance(total, int) and isinstance(size, int) and total != size:
        node.fail("split-sum", message, rule="ONNX Split, split")
    ir.require_equal(total, size, message)
    starts = [sum(lengths[:ordinal]) for ordinal in range(len(lengths))]
    return tuple(ir.slice_axis(x, axis, start, length) for start, length in zip(starts, lengths, strict=True))
