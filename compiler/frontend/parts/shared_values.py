"""Inputs and constants that two models have by one name, and that are one where the models are merged."""

from collections.abc import Collection, Iterable

from onnxc.compiler.frontend.checks.findings import listed
from onnxc.compiler.frontend.parts.equal_definitions import named_constant
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, SparseTensorProto, TensorProto, TypeProto
from onnxc.runtime.errors import InputError

__all__ = ["expect_shared", "leave_out"]

Definition = TypeProto | TensorProto | SparseTensorProto


def expect_shared(first: GraphProto, second: GraphProto, names: Iterable[str], *, linked: Collection[str]) -> None:
    """Raises InputError for a name that is not the same in both: an input of one type, or a constant of equal elements.

    linked: inputs of the second that are outputs of the first instead.
    """
    ours, theirs = ({name: _definitions(graph, name) for name in names} for graph in (first, second))
    wrong = [name for name in ours if not ours[name] or ours[name] != theirs[name] or name in linked]
    if wrong:
        message = f"{listed(wrong)} are not inputs of one type, or equal constants, of both models"
        raise InputError(message, code="merge-shared")


def leave_out(graph: GraphProto, names: Collection[str]) -> None:
    """Takes the inputs and constants of these names from the graph, and what it says of them."""
    for items, own in (
        (graph.input, [info.name for info in graph.input]),
        (graph.initializer, [tensor.name for tensor in graph.initializer]),
        (graph.sparse_initializer, [tensor.values.name for tensor in graph.sparse_initializer]),
        (graph.value_info, [info.name for info in graph.value_info]),
        (graph.quantization_annotation, [each.tensor_name for each in graph.quantization_annotation]),
        (graph.node, [tensor.name if (tensor := named_constant(node)) else "" for node in graph.node]),
    ):
        for index in reversed([index for index, name in enumerate(own) if name in names]):
            del items[index]


def _definitions(graph: GraphProto, name: str) -> list[Definition]:
    """What makes a value of that name: the type of an input, and a tensor, its default where both are there."""
    definitions: list[Definition] = [info.type for info in graph.input if info.name == name]
    definitions += [tensor for tensor in graph.initializer if tensor.name == name]
    definitions += [tensor for tensor in graph.sparse_initializer if tensor.values.name == name]
    constants = (named_constant(node) for node in graph.node if name in node.output)
    return definitions + [tensor for tensor in constants if tensor is not None]
