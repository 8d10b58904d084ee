"""Declared types: from the wire format to the IR's types, and to the text in which schemas speak of types."""

import re
from collections.abc import Callable, Iterable

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorShapeProto, TypeProto, ValueInfoProto
from onnxc.compiler.frontend.size_names import identifier
from onnxc.compiler.ir.dim_symbols import substitute, symbols_of
from onnxc.compiler.ir.dim_text import DimSyntaxError, parse_dim
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.types import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from onnxc.runtime.records import record

# Deeper types exist only in hostile models.
TYPE_DEPTH_LIMIT = 16

# What exporters write where they know nothing; equal texts of these do not mean equal sizes.
_UNKNOWN_NAMES = frozenset({"", "?", "*", "None", "none"})

# An expression of more terms than this, multiplied out, is kept as one symbol.
_TERM_LIMIT = 64

OTHER_TYPE_ADVICE = (
    "put a Cast to the declared type behind it, or declare what it gives where all that reads it takes that"
)
"""What to do where an element type is declared that a node does not give; other tools refuse such a model too."""


def names_a_size(text: str) -> bool:
    """Whether a dim_param tells anything."""
    return text.strip() not in _UNKNOWN_NAMES and not re.match(r"\?|-\d+$", text.strip())


def renamed_size(text: str, rename: Callable[[str], str]) -> str:
    """A dim_param in other symbols; one that is no expression is a symbol as it stands."""
    if not names_a_size(text):
        return text
    expression = _expression(text)
    if expression is None:
        return rename(text)
    return str(
        substitute(expression, {symbol: Size.symbol(rename(symbol)) for symbol in sorted(symbols_of(expression))})
    )


def type_text(proto: TypeProto, depth: int = TYPE_DEPTH_LIMIT) -> str | None:
    """The type as schemas write it, tensor(float) or seq(map(int64, float)); None where it is not told in full."""
    if depth == 0:
        return None
    match proto.WhichOneof("value"):
        case "tensor_type":
            return _element_text("tensor", proto.tensor_type.elem_type)
        case "sparse_tensor_type":
            return _element_text("sparse_tensor", proto.sparse_tensor_type.elem_type)
        case "sequence_type":
            return _wrapped_text("seq", type_text(proto.sequence_type.elem_type, depth - 1))
        case "optional_type":
            return _wrapped_text("optional", type_text(proto.optional_type.elem_type, depth - 1))
        case "map_type":
            key = ELEMENT_TYPES.get(proto.map_type.key_type)
            value = type_text(proto.map_type.value_type, depth - 1)
            # Schemas leave the word tensor out of the values of maps.
            bare = value and re.sub(r"^tensor\((\w+)\)$", r"\1", value)
            return f"map({key}, {bare})" if key and bare else None
    return None


def _element_text(word: str, code: int) -> str | None:
    element = ELEMENT_TYPES.get(code)
    return f"{word}({element})" if element else None


def _wrapped_text(word: str, inner: str | None) -> str | None:
    return f"{word}({inner})" if inner else None


@record
class TypeReader:
    """Reads types whose sizes are named by the symbols of one scope.

    `names` are the symbols that graph inputs bind; a text is an expression if it is made of these alone, else one
    symbol: `s0 + 1` beside an input of size `s0`, but not `batch-size`. A reader without a scope (`local`) trusts no
    name: within a function the same name may stand for another size at each call.
    """

    names: frozenset[str] = frozenset()
    local: bool = False

    @staticmethod
    def of_inputs(inputs: Iterable[ValueInfoProto]) -> "TypeReader":
        """The reader for a model with these graph inputs."""
        types = [info.type for info in inputs]
        shapes = (kind.shape for type in types for kind in (type.tensor_type, type.sparse_tensor_type))
        return TypeReader(frozenset(dim.dim_param.strip() for shape in shapes for dim in shape.dim if dim.dim_param))

    def read(self, name: str, proto: TypeProto, depth: int = TYPE_DEPTH_LIMIT) -> Type | None:
        """The type of the value `name`; None where it is not told in full, or is opaque."""
        if depth == 0:
            return None
        match proto.WhichOneof("value"):
            case "tensor_type":
                return self._tensor(TensorType, name, proto.tensor_type)
            case "sparse_tensor_type":
                return self._tensor(SparseTensorType, name, proto.sparse_tensor_type)
            case "sequence_type":
                inner = self.read(name, proto.sequence_type.elem_type, depth - 1)
                return SequenceType(inner) if inner else None
            case "optional_type":
                inner = self.read(name, proto.optional_type.elem_type, depth - 1)
                return OptionalType(inner) if inner else None
            case "map_type":
                key = ELEMENT_TYPES.get(proto.map_type.key_type)
                value = self.read(name, proto.map_type.value_type, depth - 1)
                return MapType(key.dtype, value) if key and value else None
        return None

    def _tensor(
        self, kind: type[TensorType | SparseTensorType], name: str, proto: TypeProto.Tensor | TypeProto.SparseTensor
    ) -> Type | None:
        element = ELEMENT_TYPES.get(proto.elem_type)
        shape = self._shape(name, proto.shape) if proto.HasField("shape") else None
        return kind(element.dtype, shape) if element else None

    def _shape(self, name: str, shape: TensorShapeProto) -> tuple[Dim, ...]:
        return tuple(self._dim(name, axis, dim) for axis, dim in enumerate(shape.dim))

    def _dim(self, name: str, axis: int, dim: TensorShapeProto.Dimension) -> Dim:
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
            return dim.dim_value
        named = None if self.local else self._named(dim.dim_param.strip())
        return self._fresh(name, axis) if named is None else named

    def _named(self, text: str) -> Dim | None:
        """The size that a dim_param stands for; None where it stands for nothing."""
        if not names_a_size(text):
            return None
        expression = _expression(text)
        if expression is not None and symbols_of(expression) <= self.names:
            return expression
        return _symbol(text)

    def _fresh(self, name: str, axis: int) -> Dim:
        text = identifier(f"{name}_dim{axis}")
        while text in self.names:
            text += "_"
        return _symbol(text)


def _symbol(text: str) -> Size:
    # Texts of sizes quote odd symbols with backticks; a leading question mark would mean a number of any sign.
    return Size.symbol(("_" + text if text.startswith("?") else text).replace("`", "'"))


def _expression(text: str) -> Size | None:
    """What `text` says as an expression of symbols; None where it is none, or would grow out of bounds multiplied out.

    A number is a name as any other: a size that is fixed has a field of its own.
    """
    factors, sums = text.count("*") + 1, text.count("+") + text.count("-")
    if (sums / factors + 1) ** factors > _TERM_LIMIT or len(text) > 256:
        return None
    try:
        expression = parse_dim(text)
    except DimSyntaxError:
        return None
    return expression if isinstance(expression, Size) else None
