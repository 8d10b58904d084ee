"""ReverseSequence: the first elements of each sequence of a batch backwards."""

from compiler.frontend.operator import Node, operator
from compiler.frontend.operators.shape_inputs import of_shape
from compiler.ir.builder import Builder
from compiler.ir.dtypes import I64
from compiler.ir.module import Value


@operator("ReverseSequence", since=(10, 28))
def reverse_sequence(node: Node, ir: Builder) -> Value:
    """input: T[time, batch, ...] or T[batch, time, ...], sequence_lens: i64[batch]  ->  as the input

    Source: https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
    """
    x, lengths = node.inputs("input", "sequence_lens")
    time, batch = (node.axis(name, rank=x.rank) for name in ("time_axis", "batch_axis"))
    if {time, batch} != {0, 1}:
        message = f"time_axis and batch_axis are {time} and {batch}, not 0 and 1"
        node.fail("attribute-value", message, rule="ONNX ReverseSequence, attribute time_axis")
    lengths = of_shape(lengths, (x.shape[batch],), "sequence_lens", node, ir)
    ends = ir.broadcast(lengths, (batch,), x.shape[:2])
    place = ir.iota(x.shape[:2], time, I64)
    source = ir.select(ir.less(place, ends), ir.sub(ir.sub(ends, 1), place), place)
    return ir.gather_along(x, ir.broadcast(source, (0, 1), x.shape), time)
