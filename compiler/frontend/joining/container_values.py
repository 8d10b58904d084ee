"""What comes out of sequences and optionals."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import ANY_SIZE, OptionalType, TensorType, Type


def taken_out(type: Type, ir: Builder) -> Type:
    """The type of a value that is taken out of a sequence or an optional: any size becomes one of its own."""
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    sizes = (ir.fresh_symbol("element") if dim == ANY_SIZE else dim for dim in type.shape)
    return TensorType(type.dtype, tuple(sizes))


def known_presence(value: Value) -> bool | None:
    """Whether a value is present, where that is known; what is no optional is."""
    if not isinstance(value.type, OptionalType):
        return True
    op = value.op
    if op is None or op.name != "host" or op.text("function") != "optional_construct":
        return None
    return bool(op.operands)


def with_element(value: Value, ir: Builder) -> Value:
    """The value of what is an optional, if that is present; anything else as it is."""
    if not isinstance(value.type, OptionalType):
        return value
    if known_presence(value) and value.op is not None:
        return value.op.operands[0]
    return ir.host("optional_get_element", (value,), (taken_out(value.type.element, ir),), {})[0]
