"""Tensors of the wire format as constants: every element type in every form of storage, sparse ones made dense.

Reading validates everything at once and decodes nothing but strings and the indices of sparse tensors; elements are
decoded when asked for. Byte order is little-endian, in files as in memory.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import partial

import numpy as np

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES, ElementType
from onnxc.compiler.frontend.external.data_files import ExternalFiles, WantedTensor
from onnxc.compiler.frontend.graph import Tensor
from onnxc.compiler.frontend.proto.onnxc_pb2 import SparseTensorProto, TensorProto
from onnxc.compiler.frontend.tensor_error import TensorError
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits
from onnxc.runtime.records import record
from onnxc.runtime.sparse_tensor import SparseIndexError, linear_indices

Buffer = bytes | memoryview

# Smaller tensors are copied where the file keeps them unaligned.
MAPPED_FROM_BYTES = 1 << 20

_FIELDS = ("float_data", "int32_data", "int64_data", "uint64_data", "double_data", "string_data")
_DEFAULT, _EXTERNAL = TensorProto.DEFAULT, TensorProto.EXTERNAL


@record
class TensorStore:
    """Where bytes outside the messages are: in other files, or lifted out of the model by read_model, by token."""

    files: ExternalFiles = field(default_factory=lambda: ExternalFiles(None))
    lifted: Mapping[bytes, memoryview] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS

    def raw_data(self, proto: TensorProto) -> Buffer:
        """The raw bytes of `proto`, wherever they are kept."""
        data = proto.raw_data
        return self.lifted.get(data, data)


def read_tensor(proto: TensorProto, store: TensorStore) -> Tensor:
    """The constant that `proto` stores; TensorError says what is wrong with it."""
    element = _element_type(proto.data_type)
    shape = _shape(proto.dims, element, store.limits)
    if proto.HasField("segment"):
        raise TensorError("tensor-segment", "it holds a segment of a larger tensor")
    if proto.data_location not in (_DEFAULT, _EXTERNAL):
        raise TensorError(
            "tensor-data-location", f"its data location is {proto.data_location}, which ONNX does not know"
        )
    fields = [name for name in _FIELDS if len(getattr(proto, name))]
    has_raw = proto.HasField("raw_data") and len(proto.raw_data) > 0
    used = fields + ["raw_data"] * has_raw + ["external data"] * (proto.data_location == _EXTERNAL)
    if len(used) > 1:
        raise TensorError("tensor-data-ambiguous", f"it has data in {' and in '.join(used)}")
    if element.dtype.is_string and used and used != ["string_data"]:
        raise TensorError("tensor-storage", f"strings are in {used[0]} instead of string_data")
    if proto.data_location == _EXTERNAL:
        return _from_external(proto, element, shape, store)
    if fields:
        return _from_field(proto, element, shape, fields[0])
    return _from_raw(proto, element, shape, store)


def read_sparse_tensor(proto: SparseTensorProto, store: TensorStore) -> Tensor:
    """The dense constant that `proto` means; TensorError says what is wrong with it."""
    if not proto.HasField("values"):
        raise TensorError("sparse-values", "a sparse tensor has no values")
    values = read_tensor(proto.values, store)
    shape = _shape(proto.dims, _element_type(proto.values.data_type), store.limits)
    if not shape or 0 in shape:
        raise TensorError(
            "sparse-shape", f"the shape of a sparse tensor is {list(shape)}, with no axis or with an empty one"
        )
    dense_bytes = math.prod(shape) * values.dtype.itemsize
    if dense_bytes > store.limits.dense_bytes:
        raise TensorError(
            "sparse-tensor-too-large",
            f"made dense it takes {dense_bytes} bytes; the limit dense_bytes is {store.limits.dense_bytes}",
        )
    if len(values.shape) != 1:
        raise TensorError(
            "sparse-values", f"the values of a sparse tensor have shape {list(values.shape)}, not one axis"
        )
    positions = _positions(proto, values.shape[0], shape, store)
    return Tensor(proto.values.name, values.dtype, shape, partial(_densify, values, positions, shape))


def _element_type(code: int) -> ElementType:
    if code == TensorProto.UNDEFINED:
        raise TensorError("element-type-missing", "it has no element type")
    if code not in ELEMENT_TYPES:
        raise TensorError("element-type-unknown", f"its element type is {code}, which ONNX does not know")
    return ELEMENT_TYPES[code]


def _shape(dims: Iterable[int], element: ElementType, limits: Limits) -> tuple[int, ...]:
    shape = tuple(dims)
    if len(shape) > limits.tensor_rank:
        raise TensorError("tensor-rank", f"it has {len(shape)} axes; the limit tensor_rank is {limits.tensor_rank}")
    if any(dim < 0 for dim in shape):
        raise TensorError("tensor-shape", f"its shape {list(shape)} has a negative size")
    # NumPy counts bytes over the axes that are not empty, even where the whole is.
    if math.prod(dim for dim in shape if dim) * element.dtype.itemsize >= 1 << 63:
        raise TensorError("tensor-shape", f"its shape {list(shape)} is beyond any memory")
    return shape


def stored_bytes(proto: TensorProto, store: TensorStore) -> Buffer | None:
    """The elements as they are in raw form; None for texts, and for fields whose entries hold less than a byte each.

    Raises TensorError.
    """
    tensor, element = read_tensor(proto, store), _element_type(proto.data_type)
    if proto.data_location == _EXTERNAL:
        return _external_bytes(proto, element, tensor.shape, store)
    if proto.HasField("raw_data") and len(proto.raw_data):
        return store.raw_data(proto)
    return None if element.raw_bits < 8 else tensor.array().tobytes()


def _from_external(proto: TensorProto, element: ElementType, shape: tuple[int, ...], store: TensorStore) -> Tensor:
    data = _external_bytes(proto, element, shape, store)
    _check_padding(data, element, shape)
    return Tensor(proto.name, element.dtype, shape, partial(_decode_bytes, data, element, shape))


def _external_bytes(proto: TensorProto, element: ElementType, shape: tuple[int, ...], store: TensorStore) -> memoryview:
    entries: dict[str, str] = {}
    for entry in proto.external_data:
        if not isinstance(entry.key, str) or not isinstance(entry.value, str):
            raise TensorError("external-data-entry", f"the entry {entry.key!r} of its data is not UTF-8")
        if entry.key in entries:
            raise TensorError("external-data-entry", f'its data has two entries "{entry.key}"')
        entries[entry.key] = entry.value
    wanted = WantedTensor(proto.name, element.dtype.name, shape, _raw_size(element, shape))
    return store.files.view(entries, wanted)


def _from_raw(proto: TensorProto, element: ElementType, shape: tuple[int, ...], store: TensorStore) -> Tensor:
    data, expected = store.raw_data(proto), _raw_size(element, shape)
    if len(data) != expected:
        code = "tensor-data-length" if len(data) else "tensor-data-missing"
        wanted = f"{math.prod(shape)} strings" if element.dtype.is_string else f"{expected} bytes"
        raise TensorError(code, f"its type and shape take {wanted}, raw_data has {len(data)} bytes")
    _check_padding(data, element, shape)
    if isinstance(data, bytes):
        # The message keeps these bytes already; a second copy is made only for as long as somebody looks.
        return Tensor(proto.name, element.dtype, shape, partial(_decode_raw, proto, element, shape))
    return Tensor(proto.name, element.dtype, shape, partial(_decode_bytes, data, element, shape))


def _from_field(proto: TensorProto, element: ElementType, shape: tuple[int, ...], used: str) -> Tensor:
    if used != element.field:
        raise TensorError("tensor-storage", f"its elements, {element}, are in {used} instead of {element.field}")
    count = len(getattr(proto, used))
    expected = -(-math.prod(shape) // element.elements_per_entry) * element.entries_per_element
    if count != expected:
        raise TensorError("tensor-data-length", f"its shape takes {expected} entries of {used}, and there are {count}")
    if element.dtype.is_string:
        return Tensor(proto.name, element.dtype, shape, partial(_strings, _texts(proto), shape))
    _check_entries(proto, element)
    return Tensor(proto.name, element.dtype, shape, partial(_decode_field, proto, element, shape))


def _check_entries(proto: TensorProto, element: ElementType) -> None:
    """Entries wider than the elements must be elements: bit patterns, sign extended or not, or 0 and 1."""
    if element.field == "uint64_data" and element.dtype.bits == 32:
        entries, least, most = np.array(proto.uint64_data, np.uint64), 0, (1 << 32) - 1
    elif element.field == "int32_data" and element.dtype.bits != 32:
        # Elements of 2 or 4 bits share a byte.
        bits = 8 if element.dtype.bits in (2, 4) else element.dtype.bits
        is_unsigned = element.dtype.kind == "uint" or bits == 6
        entries = np.array(proto.int32_data, np.int32)
        least, most = (0, 1) if element.dtype.is_bool else (0 if is_unsigned else -(1 << bits - 1), (1 << bits) - 1)
    else:
        return
    if entries.size and (entries.min() < least or entries.max() > most):
        message = (
            f"its entries of {element.field} are from {entries.min()} to {entries.max()}, "
            f"those of {element} from {least} to {most}"
        )
        raise TensorError("tensor-value", message)


def _raw_size(element: ElementType, shape: tuple[int, ...]) -> int:
    """Bytes in raw form; more than nothing for strings, which have none, so that missing ones are noticed."""
    count = math.prod(shape)
    return count if element.dtype.is_string else (count * element.raw_bits + 7) // 8


def _check_padding(data: Buffer, element: ElementType, shape: tuple[int, ...]) -> None:
    used_bits = math.prod(shape) * 6 % 8
    if element.dtype.bits == 6 and used_bits and data[-1] >> used_bits:
        raise TensorError("tensor-value", "the bits after its last 6-bit element are not zero")


def _texts(proto: TensorProto) -> tuple[str, ...]:
    try:
        return tuple(text.decode() for text in proto.string_data)
    except UnicodeDecodeError:
        raise TensorError("invalid-utf8", "one of its strings is not UTF-8") from None


def _strings(texts: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray:
    return _frozen(np.array(texts, dtype=object), shape)


def _decode_raw(proto: TensorProto, element: ElementType, shape: tuple[int, ...]) -> np.ndarray:
    return _decode_bytes(proto.raw_data, element, shape)


def _decode_bytes(data: Buffer, element: ElementType, shape: tuple[int, ...]) -> np.ndarray:
    numpy, count = element.dtype.numpy, math.prod(shape)
    if element.dtype.is_string or not count:
        return _frozen(np.zeros(0, numpy), shape)
    if element.dtype.is_bool:
        codes = np.frombuffer(data, np.uint8)
        return _frozen(codes.view(np.bool_) if codes.max() <= 1 else np.not_equal(codes, 0), shape)
    if element.raw_bits >= 8:
        elements = np.frombuffer(data, numpy)
        # A large copy would cost memory as great as the model; NumPy reads elements that are not aligned, too.
        keeps = elements.flags.aligned or elements.nbytes >= MAPPED_FROM_BYTES
        return _frozen(elements if keeps else elements.copy(), shape)
    unpack = _unpack_sixes if element.raw_bits == 6 else _unpack_fractions
    return _frozen(unpack(np.frombuffer(data, np.uint8), element.raw_bits)[:count].view(numpy), shape)


def _decode_field(proto: TensorProto, element: ElementType, shape: tuple[int, ...]) -> np.ndarray:
    dtype = element.dtype
    match element.field:
        case "float_data":
            return _frozen(np.array(proto.float_data, np.float32).view(dtype.numpy), shape)
        case "double_data":
            return _frozen(np.array(proto.double_data, np.float64).view(dtype.numpy), shape)
        case "int64_data":
            return _frozen(np.array(proto.int64_data, np.int64), shape)
        case "uint64_data":
            return _frozen(np.array(proto.uint64_data, np.uint64).astype(dtype.numpy), shape)
    entries = np.array(proto.int32_data, np.int32)
    if dtype.is_bool:
        return _frozen(entries != 0, shape)
    if dtype.bits in (2, 4):
        return _frozen(
            _unpack_fractions(entries.astype(np.uint8), dtype.bits)[: math.prod(shape)].view(dtype.numpy), shape
        )
    # The bit pattern of a narrow element is in the low bits of its entry.
    return _frozen(entries.astype(f"u{dtype.itemsize}").view(dtype.numpy), shape)


def _unpack_fractions(packed: np.ndarray, bits: int) -> np.ndarray:
    """The codes of 2 or 4 bits in each byte, the first in the lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)
    return codes.reshape(-1)


def _unpack_sixes(packed: np.ndarray, bits: int) -> np.ndarray:
    """The codes of 6 bits in a stream: four in three bytes, the first in the lowest bits."""
    groups = np.zeros((-(-len(packed) // 3), 3), np.uint8)
    groups.reshape(-1)[: len(packed)] = packed
    words = groups.astype(np.uint32) @ np.array([1, 1 << 8, 1 << 16], np.uint32)
    codes = (words[:, None] >> np.arange(0, 24, bits, dtype=np.uint32)) & np.uint32((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(-1)


def _frozen(elements: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    shaped = elements.reshape(shape)
    shaped.flags.writeable = False
    return shaped


def _positions(proto: SparseTensorProto, count: int, shape: tuple[int, ...], store: TensorStore) -> np.ndarray:
    """Where each value goes, in row-major order; ascending and within the shape."""
    if not proto.HasField("indices"):
        if count:
            raise TensorError("sparse-indices", f"a sparse tensor has {count} values and no indices")
        return np.zeros(0, np.int64)
    if proto.indices.data_type != TensorProto.INT64:
        raise TensorError("sparse-indices", "the indices of a sparse tensor are not int64")
    indices = read_tensor(proto.indices, store).array()
    try:
        return linear_indices(indices, count, shape)
    except SparseIndexError as problem:
        raise TensorError(problem.code, str(problem)) from problem


def _densify(values: Tensor, positions: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    empty = "" if values.dtype.is_string else 0
    dense = np.full(math.prod(shape), empty, values.dtype.numpy)
    dense[positions] = values.array()
    return _frozen(dense, shape)
