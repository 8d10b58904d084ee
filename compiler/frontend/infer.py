"""Type and shape inference: the types that lowering finds, and a model that declares them.

Lowering types every value as it builds it, so there is nothing to infer here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from compiler.frontend.element_types import number_of
from compiler.frontend.graph import CheckedModel
from compiler.frontend.lower import InputOptions, lower_typed
from compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, TypeProto, ValueInfoProto
from compiler.frontend.read import LoadedModel
from compiler.ir.types import MapType, OptionalType, SequenceType, TensorType, Type

__all__ = ["annotate_model", "infer_types"]


def infer_types(model: CheckedModel, options: InputOptions | None = None) -> Mapping[str, Type]:
    """The type of every value of the model, functions inlined, by name.

    Raises ModelError where types contradict each other, UnsupportedError where a node cannot be lowered yet.
    """
    return lower_typed(model, options).types


def annotate_model(model: LoadedModel, types: Mapping[str, Type]) -> ModelProto:
    """A copy of the model that declares these types for its values; inputs, and complete outputs, stay as they are."""
    annotated = ModelProto()
    annotated.CopyFrom(model.proto)
    definitions = Counter(name for graph in _graphs(annotated.graph) for name in _defined(graph))
    # Branches may use one name for values of different types.
    unique = {name: types[name] for name, times in definitions.items() if times == 1 and name in types}
    for graph in _graphs(annotated.graph):
        _annotate(graph, unique)
    return annotated


def _annotate(graph: GraphProto, types: Mapping[str, Type]) -> None:
    outputs = {info.name for info in graph.output}
    for info in graph.output:
        if info.name in types and not _is_complete(info):
            write_type(types[info.name], info.type)
    declared = {info.name: info for info in graph.value_info}
    for name in _defined(graph):
        if name in types and name not in outputs:
            info = declared.get(name) or graph.value_info.add(name=name)
            info.type.Clear()
            write_type(types[name], info.type)


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph, and those in the attributes of its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graphs(inner)


def _defined(graph: GraphProto) -> list[str]:
    return [name for node in graph.node for name in node.output if name]


def _is_complete(info: ValueInfoProto) -> bool:
    """Whether the element type, and for a tensor every size, is declared."""
    if info.type.WhichOneof("value") != "tensor_type":
        return info.type.WhichOneof("value") is not None
    tensor = info.type.tensor_type
    return bool(tensor.elem_type) and tensor.HasField("shape") and all(d.WhichOneof("value") for d in tensor.shape.dim)


def write_type(type: Type, proto: TypeProto) -> None:
    """Sets `proto` to the type; sizes that are no numbers become names."""
    match type:
        case TensorType(dtype, shape):
            proto.tensor_type.elem_type = number_of(dtype)
            if shape is None:
                proto.tensor_type.ClearField("shape")
                return
            proto.tensor_type.shape.SetInParent()
            del proto.tensor_type.shape.dim[:]
            for dim in shape:
                added = proto.tensor_type.shape.dim.add()
                if isinstance(dim, int):
                    added.dim_value = dim
                else:
                    added.dim_param = str(dim)
        case SequenceType(element):
            write_type(element, proto.sequence_type.elem_type)
        case OptionalType(element):
            write_type(element, proto.optional_type.elem_type)
        case MapType(key, value):
            proto.map_type.key_type = number_of(key)
            write_type(value, proto.map_type.value_type)
