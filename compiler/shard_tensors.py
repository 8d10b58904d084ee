"""The tensors of nodes that annotations are to speak of: what a choice, made of ops, is in the graph of the model."""

from collections.abc import Iterator, Sequence

from onnxc.compiler.frontend.devices.write import Wanted
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto
from onnxc.compiler.ir.module import Block
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.sharding.choose.choose import Choice
from onnxc.runtime.errors import InputError

__all__ = ["batch_tensors", "matrix_of", "weight_tensors"]


def batch_tensors(body: Block, graph: GraphProto, parts: int) -> Iterator[Wanted]:
    """The inputs of the model at the nodes that read them, where their first axis is that of the first input."""
    if parts == 1:
        return
    types = {value.producer.name: value.type for value in body.parameters}
    shapes = {name: type_.shape for name, type_ in types.items() if isinstance(type_, TensorType) and type_.shape}
    size = next((shape[0] for shape in shapes.values()), None)
    if size is None or (isinstance(size, int) and size < parts):
        reason = "no input has an axis" if size is None else f"the first axis of the first input has the size {size}"
        raise InputError(f"dp is {parts}, and {reason}", code="shard-count")
    batched = {name for name, shape in shapes.items() if shape[0] == size}
    for index, node in enumerate(graph.node):
        yield from (Wanted(index, name, None, 0) for name in dict.fromkeys(node.input) if name in batched)


def weight_tensors(choices: Sequence[Choice], graph: GraphProto, path: str, *, is_batched: bool) -> Iterator[Wanted]:
    """The matrices that are divided, and results that are whole behind them; `path` is that of the graph.

    Where the batch is divided, too, nothing is said of results: which of their axes is the batch is for propagation.
    """
    for choice in choices:
        matrix = matrix_of(choice, graph, path)
        if matrix is None or choice.division == "whole":
            continue
        yield matrix
        if choice.is_gathered and not is_batched:
            yield Wanted(matrix.node, graph.node[matrix.node].output[0], None, None)


def matrix_of(choice: Choice, graph: GraphProto, path: str) -> Wanted | None:
    """The tensor of a node that the matrix of a choice is, and its axis; None where no node of the graph has it so."""
    where = choice.op.location
    if where is None or where.graph != path or where.index is None:
        return None
    node = graph.node[where.index]
    is_turned = any(each.name == "transB" and each.i for each in node.attribute)
    axis = 0 if choice.division == "rows" else 1
    tensors = {("gather", "Gather"): (0, 1), ("dot", "MatMul"): (1, axis), ("dot", "Gemm"): (1, axis ^ is_turned)}
    operand, divided = tensors.get((choice.op.name, node.op_type), (None, 0))
    if operand is None or node.domain not in ("", "ai.onnx") or node.input[operand] not in _constants(graph):
        return None
    return Wanted(where.index, node.input[operand], divided, None)


def _constants(graph: GraphProto) -> set[str]:
    """The initializers, and what nodes make of them alone."""
    names = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if names.issuperset(filter(None, node.input)):
            names.update(node.output)
    return names
