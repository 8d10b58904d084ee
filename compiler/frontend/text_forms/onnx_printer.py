"""ONNX's own text syntax, written: one line for each node, as the standard's printer has it.

Where the syntax has no word for something, what is nearest is written, and `beyond_syntax.py` says the rest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from onnxc.compiler.frontend.attribute_fields import ATTRIBUTE_FIELDS, AttributeType
from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    StringStringEntryProto,
    TensorProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
)
from onnxc.compiler.frontend.size_names import identifier
from onnxc.compiler.frontend.text_forms.packed_elements import entries_of
from onnxc.compiler.frontend.text_forms.syntax import (
    ATTRIBUTE_TYPES,
    FLOAT_WORD,
    FUNCTION_HEADER,
    MODEL_HEADER,
    PLAIN,
    TYPE_WORDS,
)

__all__ = ["print_syntax"]

_INDENT = "   "
_NAMES = {code: name for name, code in ATTRIBUTE_TYPES.items()}


def print_syntax(model: ModelProto) -> str:
    """The model in the syntax, as much of it as that can say."""
    parts = [_header(model, MODEL_HEADER), *_graph_lines(model.graph, "")]
    for function in model.functions:
        parts += [_header(function, FUNCTION_HEADER), *_function_lines(function)]
    return "\n".join(part for part in parts if part) + "\n"


# Words


def _quoted(text: str) -> str:
    return '"' + _text(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _text(text: str | bytes) -> str:
    """The text; free text that is not UTF-8 comes as bytes, and bytes that are not UTF-8 cannot be said."""
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError:
        return ""


def _name(name: str) -> str:
    """A name, in quotes where it could be read as something else."""
    return name if PLAIN.fullmatch(name) and name not in TYPE_WORDS else _quoted(name)


def _word(text: str) -> str:
    """What cannot be in quotes: the name itself, or one like it."""
    return text if PLAIN.fullmatch(text) else identifier(text)


def _listed(opening: str, items: Iterable[str], closing: str) -> str:
    return f"{opening}{', '.join(items)}{closing}"


def _number(value: float) -> str:
    return str(np.float32(value))


# Types


def _type(type: TypeProto) -> str:
    """The type, and a space behind it; empty where there is none."""
    kind = type.WhichOneof("value")
    return "" if kind is None else f"{_TYPES[kind](type)} "


def _bare(type: TypeProto) -> str:
    """A type within another; of none, any."""
    return _type(type).rstrip() or "opaque()"


def _shaped(type: TypeProto.Tensor | TypeProto.SparseTensor) -> str:
    element = _element(type.elem_type)
    if not type.HasField("shape"):
        return f"{element}[]"
    return element + (_listed("[", map(_size, type.shape.dim), "]") if type.shape.dim else "")


def _element(code: int) -> str:
    return ELEMENT_TYPES[code].name if code in ELEMENT_TYPES else "float"


def _size(size: TensorShapeProto.Dimension) -> str:
    if size.HasField("dim_value"):
        return str(size.dim_value)
    return _dimension(size.dim_param) if size.HasField("dim_param") else "?"


def _dimension(name: str) -> str:
    return name if PLAIN.fullmatch(name) else _quoted(name)


def _opaque(type: TypeProto.Opaque) -> str:
    name = ".".join(map(_word, type.name.split("."))) if type.name else ""
    domain = ".".join(map(_word, type.domain.split("."))) if type.domain else ""
    return _listed("opaque(", filter(None, (domain, _word(name) if domain else name)), ")")


_TYPES = {
    "tensor_type": lambda type: _shaped(type.tensor_type),
    "sparse_tensor_type": lambda type: f"sparse_tensor({_shaped(type.sparse_tensor_type)})",
    "sequence_type": lambda type: f"seq({_bare(type.sequence_type.elem_type)})",
    "optional_type": lambda type: f"optional({_bare(type.optional_type.elem_type)})",
    "map_type": lambda type: f"map({_element(type.map_type.key_type)}, {_bare(type.map_type.value_type)})",
    "opaque_type": lambda type: _opaque(type.opaque_type),
}


# Values


def _value_info(info: ValueInfoProto) -> str:
    return _type(info.type) + _name(info.name)


def _tensor(tensor: TensorProto, separator: str) -> str:
    """A tensor: its type, its name where it has one, and behind the separator its elements."""
    sizes = _listed("[", map(str, tensor.dims), "]") if tensor.dims else ""
    name = f" {_name(tensor.name)}" if tensor.name or separator.strip() else ""
    # Without a sign between them, entries behind a type without sizes would be read as sizes.
    is_elsewhere = tensor.data_location == TensorProto.EXTERNAL and bool(sizes or separator.strip())
    data = _entries(tensor.external_data) if is_elsewhere else _elements(tensor)
    return f"{_element(tensor.data_type)}{sizes}{name}{separator}{data}"


def _elements(tensor: TensorProto) -> str:
    element = ELEMENT_TYPES.get(tensor.data_type, ELEMENT_TYPES[TensorProto.FLOAT])
    if element.field == "string_data":
        return _listed("{", (_quoted(_text(text)) for text in tensor.string_data), "}")
    entries = entries_of(tensor, element)
    if element.field == "float_data":
        return _listed("{", map(str, np.array(entries, np.float32)), "}")
    return _listed("{", map(str, entries), "}")


def _entries(entries: Iterable[StringStringEntryProto]) -> str:
    return _listed("[", (f"{_quoted(entry.key)}: {_quoted(entry.value)}" for entry in entries), "]")


# Headers, graphs and functions


def _header(message: ModelProto | FunctionProto, kinds: Mapping[str, str]) -> str:
    fields = [_header_field(message, name, kind) for name, kind in kinds.items()]
    given = [field for field in fields if field]
    return "<\n" + ",\n".join(_INDENT + field for field in given) + "\n>" if given else ""


def _header_field(message: ModelProto | FunctionProto, name: str, kind: str) -> str:
    """A field as `name: value`; empty where it is absent."""
    value = getattr(message, name)
    if kind == "entries":
        return f"{name}: {_entries(value)}" if value else ""
    if kind == "versions":
        versions = (f"{_quoted(opset.domain)} : {opset.version}" for opset in value)
        return f"{name}: {_listed('[', versions, ']')}" if value else ""
    if not message.HasField(name):
        return ""
    return f"{name}: {_quoted(value) if kind == 'text' else value}"


def _graph_lines(graph: GraphProto, indent: str) -> Iterator[str]:
    inputs, outputs = (_listed("(", map(_value_info, infos), ")") for infos in (graph.input, graph.output))
    yield f"{indent}{_graph_name(graph.name, is_inner=bool(indent))} {inputs} => {outputs}"
    values = [*(_tensor(tensor, " = ") for tensor in graph.initializer), *map(_value_info, graph.value_info)]
    if values:
        separator = f",\n{indent} "
        yield f"{indent}<{separator.join(values)}>"
    yield from _node_lines(graph.node, indent)


def _graph_name(name: str, *, is_inner: bool) -> str:
    """The name of a graph; in an attribute a quoted one would be a text, and some words a type or a number."""
    if not is_inner:
        return _name(name)
    is_taken = name in TYPE_WORDS or FLOAT_WORD.match(name)
    return f"{name}_" if is_taken else _word(name)


def _function_lines(function: FunctionProto) -> Iterator[str]:
    parameters = [*map(_name, function.attribute), *(_attribute(each, "") for each in function.attribute_proto)]
    shown = _listed(" <", parameters, ">") if parameters else ""
    inputs, outputs = (_listed("(", map(_name, names), ")") for names in (function.input, function.output))
    yield f"{_name(function.name)}{shown} {inputs} => {outputs}"
    if function.value_info:
        yield _listed("<", map(_value_info, function.value_info), ">")
    yield from _node_lines(function.node, "")


def _node_lines(nodes: Iterable[NodeProto], indent: str) -> Iterator[str]:
    yield f"{indent}{{"
    for node in nodes:
        yield _node(node, indent + _INDENT)
    yield f"{indent}}}"


def _node(node: NodeProto, indent: str) -> str:
    label = f"[{_name(node.name)}] " if node.HasField("name") else ""
    domain = "".join(f"{_word(part)}." for part in node.domain.split(".")) if node.domain else ""
    overload = f":{_word(node.overload)}" if node.overload else ""
    outputs, inputs = (", ".join(map(_name, names)) for names in (node.output, node.input))
    attributes = _listed(" <", (_attribute(each, indent) for each in node.attribute), ">") if node.attribute else ""
    call = f"{label}{outputs}{' ' if outputs else ''}= {domain}{_word(node.op_type)}{overload}"
    # Behind the operands stand attributes that take more than a line.
    if any(each.HasField("g") or each.graphs for each in node.attribute):
        return f"{indent}{call} ({inputs}){attributes}"
    return f"{indent}{call}{attributes} ({inputs})"


def _attribute(attribute: AttributeProto, indent: str) -> str:
    type = attribute.type if attribute.type in ATTRIBUTE_FIELDS else _guessed(attribute)
    label = f"{_word(attribute.name)}: {_NAMES[type]} = "
    if attribute.ref_attr_name:
        return f"{label}@{_name(attribute.ref_attr_name)}"
    value = getattr(attribute, ATTRIBUTE_FIELDS[type])
    if type in (AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS):
        # The syntax has no constants of this type.
        return f"{_word(attribute.name)}: sparse_tensors = []"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return label + _listed("[", (_value(each, indent) for each in value), "]")
    return label + _value(value, indent)


def _guessed(attribute: AttributeProto) -> AttributeType:
    """The type of an attribute that does not say it: that of its value."""
    given = {field.name for field, _ in attribute.ListFields()}
    return next((type for type, field in ATTRIBUTE_FIELDS.items() if field in given), AttributeProto.INT)


def _value(value: object, indent: str) -> str:
    match value:
        case bytes():
            return _quoted(_text(value))
        case float():
            return _number(value)
        case TensorProto():
            return _tensor(value, " ")
        case TypeProto():
            return _bare(value)
        case GraphProto():
            return "\n".join(_graph_lines(value, indent + _INDENT)).lstrip()
    return str(value)
