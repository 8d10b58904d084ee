"""Inputs, outputs and the model as ONNX Runtime describes them: types such as "tensor(float)", declared sizes."""

from collections.abc import Collection, Iterator, Mapping

from onnxc.compiler.frontend.about import free_text
from onnxc.compiler.frontend.element_types import ELEMENT_TYPES, code_of
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, TypeProto, ValueInfoProto
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.types import MapType, OptionalType, SequenceType, ShapedType, SparseTensorType, Type
from onnxc.runtime.records import record

__all__ = ["ModelMetadata", "NodeArg", "declared_arg", "inferred_arg", "metadata_of", "tensor_text"]

Size = int | str | None

UNSET_VERSION = (1 << 63) - 1
"""What ONNX Runtime gives where a model does not say its version."""


@record
class NodeArg:
    """An input or output. A size is a number, the name of a symbol, or None where nothing is known; `shape` is empty
    for what is no tensor.
    """

    name: str
    type: str
    shape: list[Size]

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


@record
class ModelMetadata:
    """What a model says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


def metadata_of(model: ModelProto) -> ModelMetadata:
    """What the model says of itself."""
    return ModelMetadata(
        free_text(model.producer_name),
        model.graph.name,
        model.domain,
        free_text(model.doc_string),
        free_text(model.graph.doc_string),
        model.model_version if model.HasField("model_version") else UNSET_VERSION,
        {free_text(entry.key): free_text(entry.value) for entry in model.metadata_props},
    )


def declared_arg(info: ValueInfoProto, sizes: Mapping[str, int]) -> NodeArg:
    """The input or output as it is declared, with numbers for the symbols that `sizes` fixes."""
    return NodeArg(info.name, _declared_text(info.type), [*_declared_sizes(info.type, sizes)])


def inferred_arg(name: str, type: Type, symbols: Collection[str]) -> NodeArg:
    """The output in the type that was found; sizes that are no symbol of the model are None."""
    shape = type.shape if isinstance(type, ShapedType) else None
    return NodeArg(name, _text(type), [_size(dim, symbols) for dim in shape or ()])


def tensor_text(code: int) -> str:
    """The type of tensors of an element type, by its number in the standard."""
    return f"tensor({ELEMENT_TYPES[code].name})"


def _size(dim: Dim, symbols: Collection[str]) -> Size:
    if isinstance(dim, int):
        return dim
    return str(dim) if str(dim) in symbols else None


def _declared_sizes(type: TypeProto, sizes: Mapping[str, int]) -> Iterator[Size]:
    if type.WhichOneof("value") not in ("tensor_type", "sparse_tensor_type"):
        return
    shape = type.tensor_type.shape if type.HasField("tensor_type") else type.sparse_tensor_type.shape
    for dim in shape.dim:
        if dim.WhichOneof("value") == "dim_param":
            yield sizes.get(dim.dim_param, dim.dim_param)
        else:
            yield dim.dim_value if dim.WhichOneof("value") == "dim_value" else None


def _declared_text(type: TypeProto) -> str:
    match type.WhichOneof("value"):
        case "tensor_type":
            return tensor_text(type.tensor_type.elem_type)
        case "sparse_tensor_type":
            return f"sparse_{tensor_text(type.sparse_tensor_type.elem_type)}"
        case "sequence_type":
            return f"seq({_declared_text(type.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({_declared_text(type.optional_type.elem_type)})"
        case "map_type":
            key = ELEMENT_TYPES[type.map_type.key_type].name
            return f"map({key},{_declared_text(type.map_type.value_type)})"
    return ""


def _text(type: Type) -> str:
    match type:
        case SequenceType():
            return f"seq({_text(type.element)})"
        case OptionalType():
            return f"optional({_text(type.element)})"
        case MapType():
            return f"map({ELEMENT_TYPES[code_of(type.key)].name},{_text(type.value)})"
        case SparseTensorType():
            return f"sparse_{tensor_text(code_of(type.dtype))}"
        case ShapedType():
            return tensor_text(code_of(type.dtype))
    raise AssertionError(type)
