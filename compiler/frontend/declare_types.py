"""Types written into a model: what is declared there stays unless it is wrong, what is missing is added.

Denotations, documentation, metadata and fields that are not known here stay where they are: a message is completed,
never replaced.
"""

from collections.abc import Mapping

from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorShapeProto, TypeProto
from onnxc.compiler.frontend.size_names import lone_symbol
from onnxc.compiler.frontend.value_types import names_a_size
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.types import (
    ANY_SIZE,
    MapType,
    OptionalType,
    SequenceType,
    ShapedType,
    SparseTensorType,
    TensorType,
    Type,
)

__all__ = ["complete_type", "write_type"]

AnyTensorProto = TypeProto.Tensor | TypeProto.SparseTensor

_KINDS: Mapping[type, str] = {
    TensorType: "tensor_type",
    SparseTensorType: "sparse_tensor_type",
    SequenceType: "sequence_type",
    OptionalType: "optional_type",
    MapType: "map_type",
}


def write_type(type: Type, proto: TypeProto) -> None:
    """Completes `proto`, in which nothing need be told yet, by the type."""
    complete_type(type, proto, frozenset(), keeps=True)


def complete_type(inferred: Type, proto: TypeProto, bound: frozenset[str], *, keeps: bool) -> None:
    """Adds to `proto` what the type `found` tells beyond it.

    A name that no input binds gives way to a number. Unless it `keeps` all else that is declared, a declared size gives
    way to one in the symbols that inputs `bind`, which tells more; a number that inference does not know is kept.
    """
    kind = proto.WhichOneof("value")
    if kind is not None and kind != _KINDS[type(inferred)]:
        return
    match inferred:
        case TensorType():
            _complete_tensor(inferred, proto.tensor_type, bound, keeps=keeps)
        case SparseTensorType():
            _complete_tensor(inferred, proto.sparse_tensor_type, bound, keeps=keeps)
        case SequenceType(element):
            complete_type(element, proto.sequence_type.elem_type, bound, keeps=keeps)
        case OptionalType(element):
            complete_type(element, proto.optional_type.elem_type, bound, keeps=keeps)
        case MapType(key, value):
            proto.map_type.key_type = proto.map_type.key_type or code_of(key)
            complete_type(value, proto.map_type.value_type, bound, keeps=keeps)


def _complete_tensor(inferred: ShapedType, proto: AnyTensorProto, bound: frozenset[str], *, keeps: bool) -> None:
    if not keeps or not proto.elem_type:
        proto.elem_type = code_of(inferred.dtype)
    if inferred.shape is not None:
        _complete_shape(inferred.shape, proto, bound, keeps=keeps)


def _complete_shape(shape: tuple[Dim, ...], proto: AnyTensorProto, bound: frozenset[str], *, keeps: bool) -> None:
    if not proto.HasField("shape") or len(proto.shape.dim) != len(shape):
        proto.ClearField("shape")
        proto.shape.SetInParent()
        for _ in shape:
            proto.shape.dim.add()
    for size, dim in zip(shape, proto.shape.dim, strict=True):
        if isinstance(size, int):
            # A number that is declared otherwise is wrong.
            tells_more = not keeps or _is_free(dim, bound) or dim.WhichOneof("value") == "dim_value"
        else:
            tells_more = not keeps and symbols_of(size) <= bound
        if not _is_declared(dim) or tells_more:
            _write_size(size, dim)


def _is_free(dim: TensorShapeProto.Dimension, bound: frozenset[str]) -> bool:
    """Whether a size is declared as a name that no input binds."""
    return dim.dim_param.isidentifier() and dim.dim_param not in bound


def _write_size(size: Dim, dim: TensorShapeProto.Dimension) -> None:
    if isinstance(size, int):
        dim.dim_value = size
    elif size != ANY_SIZE:
        dim.dim_param = lone_symbol(size) or str(size)


def _is_declared(dim: TensorShapeProto.Dimension) -> bool:
    """Whether a size is declared: a number, or a name."""
    return dim.dim_value >= 0 if dim.WhichOneof("value") == "dim_value" else names_a_size(dim.dim_param)
