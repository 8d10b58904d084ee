"""Mutations: a model from another, by its structure or by its bytes; the same number always gives the same model."""

import copy
import random
import struct
from collections.abc import Callable, Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnxc.compiler.frontend.schemas import all_schemas
from tests.fuzz.seeds import seeds

Mutation = Callable[[ModelProto, random.Random], None]

INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    8,
    16,
    17,
    22,
    64,
    127,
    255,
    4096,
    1 << 20,
    1 << 31,
    -(1 << 31),
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "y", "w", "ai.onnx", "ai.onnx.ml", "own", "N", "\0", "ü", "a" * 300, "main", "-1", "LEFT", "linear")
OPERATORS = tuple(dict.fromkeys((schema.domain, schema.name) for schema in all_schemas()))


def mutated(number: int, seed: int) -> bytes:
    """The bytes of model `number` of a run."""
    draw = random.Random(f"{seed}:{number}")
    models = seeds()
    model = copy.deepcopy(draw.choice(models))
    for _ in range(draw.choice((1, 1, 1, 2, 3, 5))):
        draw.choice(MUTATIONS)(model, draw)
    data = model.SerializeToString()
    return _damaged(data, draw) if draw.random() < 0.1 else data


def _damaged(data: bytes, draw: random.Random) -> bytes:
    """Bytes changed, cut out, doubled or put in, or the end left away."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(changed) + 1)
        match draw.choice(("flip", "cut", "double", "insert", "truncate")):
            case "flip" if place < len(changed):
                changed[place] ^= 1 << draw.randrange(8)
            case "cut":
                del changed[place : place + draw.randint(1, 8)]
            case "double":
                changed[place:place] = changed[place : place + draw.randint(1, 40)]
            case "insert":
                changed[place:place] = draw.randbytes(draw.randint(1, 4))
            case "truncate":
                del changed[place:]
    return bytes(changed)


# What is in a model


def messages(message: Message) -> Iterator[Message]:
    """A message and all in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if isinstance(value, list) or hasattr(value, "add") else (value,):
                yield from messages(inner)


def graphs(model: ModelProto) -> list[GraphProto]:
    return [message for message in messages(model) if isinstance(message, GraphProto)]


def nodes(model: ModelProto) -> list[NodeProto]:
    return [message for message in messages(model) if isinstance(message, NodeProto)]


def names(model: ModelProto) -> list[str]:
    found = [name for node in nodes(model) for name in (*node.input, *node.output)]
    found += [info.name for graph in graphs(model) for info in (*graph.input, *graph.output)]
    return [*dict.fromkeys(found), ""]


# Mutations


def change_any_field(model: ModelProto, draw: random.Random) -> None:
    """One field of one message becomes another value, goes, comes, or is doubled."""
    message = draw.choice(list(messages(model)))
    field = draw.choice(message.DESCRIPTOR.fields)
    if field.default_value == []:
        _change_repeated(message, field, draw)
    elif draw.random() < 0.3:
        message.ClearField(field.name)
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _scalar(field, draw))


def _change_repeated(message: Message, field: FieldDescriptor, draw: random.Random) -> None:
    values = getattr(message, field.name)
    choice = draw.choice(("delete", "double", "swap", "add", "change"))
    if not len(values):
        choice = "add"
    if choice == "add":
        if field.message_type is not None:
            values.add()
        else:
            values.append(_scalar(field, draw))
        return
    place = draw.randrange(len(values))
    if choice == "delete":
        del values[place]
    elif choice == "double":
        values.append(copy.deepcopy(values[place]) if field.message_type is not None else values[place])
    elif choice == "swap":
        rest = list(values)
        draw.shuffle(rest)
        rest = [copy.deepcopy(value) for value in rest] if field.message_type is not None else rest
        del values[:]
        values.extend(rest)
    elif field.message_type is None:
        values[place] = _scalar(field, draw)


def _scalar(field: FieldDescriptor, draw: random.Random) -> object:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = draw.choice(TEXTS)
            return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return draw.choice(FLOATS)
        case FieldDescriptor.CPPTYPE_INT32:
            return draw.choice([number for number in INTEGERS if -(1 << 31) <= number < 1 << 31])
        case FieldDescriptor.CPPTYPE_UINT64:
            return draw.choice([number for number in INTEGERS if number >= 0])
        case FieldDescriptor.CPPTYPE_ENUM:
            return draw.randrange(30)
    return draw.choice(INTEGERS)


def swap_names(model: ModelProto, draw: random.Random) -> None:
    """An input or output of a node gets another name."""
    node = draw.choice(nodes(model) or [NodeProto()])
    side = draw.choice((node.input, node.output))
    if side:
        side[draw.randrange(len(side))] = draw.choice(names(model))


def change_operator(model: ModelProto, draw: random.Random) -> None:
    """A node calls another operator, with the same operands and attributes."""
    node = draw.choice(nodes(model) or [NodeProto()])
    node.domain, node.op_type = draw.choice(OPERATORS)
    if node.domain and all(imported.domain != node.domain for imported in model.opset_import):
        model.opset_import.add(domain=node.domain, version=draw.randint(1, 5))


def change_opset(model: ModelProto, draw: random.Random) -> None:
    """The operators get other versions."""
    for imported in model.opset_import:
        imported.version = draw.randint(1, 29)


def change_attribute(model: ModelProto, draw: random.Random) -> None:
    """The value of an attribute becomes another of its type."""
    attributes = [attribute for node in nodes(model) for attribute in node.attribute]
    if not attributes:
        return
    attribute = draw.choice(attributes)
    match attribute.type:
        case AttributeProto.INT:
            attribute.i = draw.choice(INTEGERS)
        case AttributeProto.FLOAT:
            attribute.f = draw.choice(FLOATS)
        case AttributeProto.STRING:
            attribute.s = draw.choice(TEXTS).encode()
        case AttributeProto.INTS if attribute.ints:
            attribute.ints[draw.randrange(len(attribute.ints))] = draw.choice(INTEGERS)
        case AttributeProto.FLOATS if attribute.floats:
            attribute.floats[draw.randrange(len(attribute.floats))] = draw.choice(FLOATS)


def add_attribute(model: ModelProto, draw: random.Random) -> None:
    """A node gets an attribute that its operator has in some version."""
    node = draw.choice(nodes(model) or [NodeProto()])
    versions = [schema for schema in all_schemas() if (schema.domain, schema.name) == (node.domain, node.op_type)]
    known = [attribute for schema in versions for attribute in schema.attributes.values()]
    if not known:
        return
    chosen = draw.choice(known)
    attribute = node.attribute.add(name=chosen.name, type=AttributeProto.AttributeType.Value(chosen.kind.upper()))
    match chosen.kind:
        case "int":
            attribute.i = draw.choice(INTEGERS)
        case "float":
            attribute.f = draw.choice(FLOATS)
        case "string":
            attribute.s = draw.choice(TEXTS).encode()
        case "ints":
            attribute.ints.extend(draw.choice(INTEGERS) for _ in range(draw.randrange(5)))
        case "floats":
            attribute.floats.extend(draw.choice(FLOATS) for _ in range(draw.randrange(5)))
        case "strings":
            attribute.strings.extend(draw.choice(TEXTS).encode() for _ in range(draw.randrange(5)))


def change_dims(model: ModelProto, draw: random.Random) -> None:
    """A declared size becomes another number, a name or nothing; or an axis comes or goes."""
    types = [message for message in messages(model) if message.DESCRIPTOR.name == "Tensor"]
    if not types:
        return
    dims = draw.choice(types).shape.dim
    choice = draw.choice(("number", "name", "nothing", "add", "delete"))
    if choice == "add" or not dims:
        dims.add(dim_value=draw.choice((0, 1, 2, 3, 5)))
        return
    place = draw.randrange(len(dims))
    if choice == "number":
        dims[place].dim_value = draw.choice((*INTEGERS, 1, 2, 3, 4, 5))
    elif choice == "name":
        dims[place].dim_param = draw.choice(("N", "M", "N + 1", "2*N", "N // 0", "(" * 50, "a-b", "?"))
    elif choice == "nothing":
        dims[place].Clear()
    else:
        del dims[place]


def change_element_type(model: ModelProto, draw: random.Random) -> None:
    """A declared element type becomes another."""
    types = [message for message in messages(model) if message.DESCRIPTOR.name == "Tensor"]
    if types:
        draw.choice(types).elem_type = draw.randrange(1, 29)


def change_tensor(model: ModelProto, draw: random.Random) -> None:
    """A constant gets other elements, another shape, or both."""
    tensors = [message for message in messages(model) if isinstance(message, TensorProto)]
    if not tensors:
        return
    tensor = draw.choice(tensors)
    if draw.random() < 0.3:
        del tensor.dims[:]
        tensor.dims.extend(draw.choice((0, 1, 1, 2, 3)) for _ in range(draw.randrange(4)))
        return
    for values in (tensor.int64_data, tensor.int32_data):
        if values:
            values[draw.randrange(len(values))] = draw.choice([n for n in INTEGERS if -(1 << 31) <= n < 1 << 31])
            return
    if tensor.float_data:
        tensor.float_data[draw.randrange(len(tensor.float_data))] = draw.choice(FLOATS)
    elif len(tensor.raw_data) >= 8:
        place = draw.randrange(len(tensor.raw_data) // 8) * 8
        number = struct.pack("<q", draw.choice(INTEGERS))
        tensor.raw_data = tensor.raw_data[:place] + number + tensor.raw_data[place + 8 :]


def make_constant(model: ModelProto, draw: random.Random) -> None:
    """A graph input becomes a constant, so that what is computed from it is known."""
    graph = model.graph
    candidates = [info for info in graph.input if info.type.tensor_type.elem_type in (1, 6, 7, 9)]
    if not candidates:
        return
    info = draw.choice(candidates)
    kind, shape = info.type.tensor_type.elem_type, [min(dim.dim_value, 4) for dim in info.type.tensor_type.shape.dim]
    count = 1
    for size in shape:
        count *= max(size, 0)
    tensor = graph.initializer.add(name=info.name, data_type=kind, dims=[max(size, 0) for size in shape])
    small = [number for number in INTEGERS if -(1 << 31) <= number < 1 << 31]
    if kind == TensorProto.FLOAT:
        tensor.float_data.extend(draw.choice(FLOATS) for _ in range(count))
    elif kind == TensorProto.INT64:
        tensor.int64_data.extend(draw.choice(INTEGERS) for _ in range(count))
    else:
        tensor.int32_data.extend(draw.choice(small) & (1 if kind == TensorProto.BOOL else -1) for _ in range(count))
    kept = [other for other in graph.input if other is not info]
    del graph.input[:]
    graph.input.extend(kept)


def remove_node(model: ModelProto, draw: random.Random) -> None:
    """A node goes."""
    body = draw.choice(graphs(model) or [GraphProto()]).node
    if body:
        del body[draw.randrange(len(body))]


def transplant(model: ModelProto, draw: random.Random) -> None:
    """Nodes, attributes, functions or all of a graph of another model come."""
    other = draw.choice(seeds())
    donors = nodes(other)
    node = draw.choice(nodes(model) or [NodeProto()])
    match draw.choice(("node", "attributes", "inputs", "graph", "functions")):
        case "node" if donors:
            draw.choice(graphs(model) or [GraphProto()]).node.append(draw.choice(donors))
        case "attributes" if donors:
            node.attribute.extend(draw.choice(donors).attribute)
        case "inputs" if donors:
            node.input.extend(draw.choice(donors).input)
        case "graph":
            model.graph.MergeFrom(other.graph)
        case "functions":
            model.functions.extend(other.functions)


def nest(model: ModelProto, draw: random.Random) -> None:
    """A graph attribute gets the main graph, or itself, into itself."""
    inner = [attribute for node in nodes(model) for attribute in node.attribute if attribute.HasField("g")]
    if not inner:
        return
    attribute = draw.choice(inner)
    source = copy.deepcopy(draw.choice((model.graph, attribute.g)))
    try:
        attribute.g.MergeFrom(source)
        ModelProto.FromString(model.SerializeToString())
    except DecodeError:
        attribute.g.Clear()


MUTATIONS: tuple[Mutation, ...] = (
    change_any_field,
    change_any_field,
    change_any_field,
    swap_names,
    change_operator,
    change_opset,
    change_attribute,
    change_attribute,
    add_attribute,
    change_dims,
    change_dims,
    change_element_type,
    change_tensor,
    change_tensor,
    make_constant,
    make_constant,
    remove_node,
    transplant,
    nest,
)
