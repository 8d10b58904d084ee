"""The tensors of a model, wherever in its message they are: initializers, attributes, graphs in nodes, functions."""

from collections.abc import Iterator

from google.protobuf.message import Message

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto

__all__ = ["all_tensors"]


def all_tensors(message: Message) -> Iterator[tuple[TensorProto, bool]]:
    """All tensors of a message, each with whether it is an initializer of a graph."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for inner in (value,) if isinstance(value, Message) else value:
            if isinstance(inner, TensorProto):
                yield inner, field.name == "initializer"
            else:
                yield from all_tensors(inner)
