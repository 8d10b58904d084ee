"""The fields that protobuf knows of a message."""

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

__all__ = ["fields_of"]


def fields_of(message: Message) -> tuple[FieldDescriptor, ...]:
    """All fields, whether the message has them or not, in the order of the definition."""
    # The classes of protobuf's C library are registered as these, which mypy cannot see.
    return tuple(field for field in message.DESCRIPTOR.fields if isinstance(field, FieldDescriptor))
