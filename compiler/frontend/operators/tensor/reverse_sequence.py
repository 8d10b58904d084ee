"""ReverseSequence: the first elements of each sequence of a batch backwards."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import known_integers, of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.makers import unbroadcast
from onnxc.compiler.ir.module import Value


@operator("ReverseSequence", since=(10, 28))
def reverse_sequence(node: Node, ir: Builder) -> Value:
    """input: T[time, batch, ...] or T[batch, time, ...], sequence_lens: i64[batch]  ->  as the input

    Source: https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
    """
    x, lengths = node.inputs("input", "sequence_lens")
    if x.rank < 2:
        node.fail("reverse-rank", f"input has rank {x.rank}, below 2", rule="ONNX ReverseSequence, input")
    time, batch = node.int("time_axis"), node.int("batch_axis")
    if (time, batch) not in ((0, 1), (1, 0)):
        message = f"time_axis and batch_axis are {time} and {batch}, not 0 and 1"
        node.fail("reverse-axes", message, rule="ONNX ReverseSequence, attribute time_axis")
    lengths = of_shape(lengths, (x.shape[batch],), "sequence_lens", node, ir, "reverse-lengths")
    for length in known_integers(lengths, ir) or ():
        if length < 0 or at_least(length, x.shape[time] + 1):
            message = f"sequence_lens has {length}, the axis of time {x.shape[time]} elements"
            node.fail("reverse-lengths", message, rule="ONNX ReverseSequence, sequence_lens")
    if _are_all(lengths, x.shape[time], ir):
        return ir.reverse(x, time)
    ends = ir.broadcast(lengths, (batch,), x.shape[:2])
    index = ir.iota(x.shape[:2], time, I64)
    source = ir.select(ir.less(index, ends), ir.sub(ir.sub(ends, 1), index), index)
    return ir.gather_along(x, ir.broadcast(source, (0, 1), x.shape), time)


def _are_all(lengths: Value, size: Dim, ir: Builder) -> bool:
    """Whether sequences are certainly whole, as those that stand for an axis backwards (tf2onnx writes these)."""
    known = ir.known(unbroadcast(lengths)[0])
    return known is not None and all(length == size for length in known)
