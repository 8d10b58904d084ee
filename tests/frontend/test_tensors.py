"""Constants of a model: every element type in every form of storage, sparse and external ones, and what is refused."""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as Official
from onnx import numpy_helper

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES, ElementType, code_of, dtype_of_element_type
from onnxc.compiler.frontend.external.data_files import ExternalFiles
from onnxc.compiler.frontend.proto.onnxc_pb2 import SparseTensorProto, TensorProto
from onnxc.compiler.frontend.tensor_error import TensorError
from onnxc.compiler.frontend.tensors import TensorStore, read_sparse_tensor, read_tensor

NUMBERS = [pytest.param(element, id=element.name) for element in ELEMENT_TYPES.values()]
BINARY = [pytest.param(element, id=element.name) for element in ELEMENT_TYPES.values() if element.name != "string"]
SHAPES = [(), (0,), (1,), (5,), (2, 3), (3, 0, 2), (4, 4)]


def samples(element: ElementType, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of every bit pattern that a random draw meets, extremes first."""
    dtype, count = element.dtype, int(np.prod(shape))
    rng = np.random.default_rng(element.code)
    if dtype.is_string:
        return np.array([f"ü{i}" * (i % 3) for i in range(count)], object).reshape(shape)
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.bits < 8:
        codes = rng.integers(0, 1 << dtype.bits, count).astype(np.uint8)
        codes[:2] = [(1 << dtype.bits) - 1, 0][: len(codes[:2])]
        return codes.view(dtype.numpy).reshape(shape)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype.numpy).reshape(shape)


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays have one type, one shape and one bit pattern."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return left.tolist() == right.tolist() if left.dtype == object else left.tobytes() == right.tobytes()


def ours(official: onnx.TensorProto) -> TensorProto:
    return TensorProto.FromString(official.SerializeToString())


def decode(proto: TensorProto, folder: Path | None = None) -> np.ndarray:
    return read_tensor(proto, TensorStore(ExternalFiles(folder))).array()


def raw(element: ElementType, elements: np.ndarray) -> bytes:
    """The raw form, packed bit by bit: an independent reading of the specification."""
    if element.dtype.bits >= 8 or element.dtype.is_bool:
        return elements.tobytes()
    codes = elements.reshape(-1).view(np.uint8)
    stream = sum(int(code) << index * element.dtype.bits for index, code in enumerate(codes))
    return stream.to_bytes((len(codes) * element.dtype.bits + 7) // 8, "little")


def typed(element: ElementType, elements: np.ndarray) -> TensorProto:
    """The form in the typed field."""
    proto = TensorProto(data_type=element.code, dims=elements.shape)
    flat = elements.reshape(-1)
    match element.field:
        case "string_data":
            proto.string_data.extend(text.encode() for text in flat)
        case "float_data":
            proto.float_data.extend(flat.view(np.float32))
        case "double_data":
            proto.double_data.extend(flat.view(np.float64))
        case "int64_data":
            proto.int64_data.extend(flat)
        case "uint64_data":
            proto.uint64_data.extend(flat)
        case _ if element.dtype.bits in (2, 4) and element.dtype.bits != 6:
            proto.int32_data.extend(raw(element, elements))
        case _:
            codes = flat.view(f"u{element.dtype.itemsize}") if element.dtype.is_float else flat
            proto.int32_data.extend(int(code) for code in codes)
    return proto


def test_all_28_element_types_of_onnx_are_known() -> None:
    names = {value.number: value.name.lower() for value in Official.DataType.DESCRIPTOR.values if value.number}
    assert {number: element.name for number, element in ELEMENT_TYPES.items()} == names


@pytest.mark.parametrize("element", NUMBERS)
def test_an_element_type_and_its_number_lead_to_each_other(element: ElementType) -> None:
    assert code_of(element.dtype) == element.code
    assert dtype_of_element_type(element.code) is element.dtype


def test_an_unknown_number_has_no_element_type() -> None:
    assert dtype_of_element_type(0) is None
    assert dtype_of_element_type(29) is None


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("element", BINARY)
def test_raw_data_gives_the_elements_back(element: ElementType, shape: tuple[int, ...]) -> None:
    elements = samples(element, shape)
    proto = TensorProto(data_type=element.code, dims=shape, raw_data=raw(element, elements))
    assert same(decode(proto), elements)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("element", NUMBERS)
def test_typed_fields_give_the_elements_back(element: ElementType, shape: tuple[int, ...]) -> None:
    elements = samples(element, shape)
    decoded = decode(typed(element, elements))
    if element.field in ("float_data", "double_data"):
        # Python floats in between do not keep the payload of a NaN.
        np.testing.assert_array_equal(decoded, elements, strict=True)
    else:
        assert same(decoded, elements)


@pytest.mark.parametrize("element", NUMBERS)
def test_the_official_reader_reads_the_same_in_typed_fields(element: ElementType) -> None:
    proto = typed(element, samples(element, (7,)))
    assert same(decode(proto), numpy_helper.to_array(Official.FromString(proto.SerializeToString())))


@pytest.mark.parametrize("element", BINARY)
def test_the_official_reader_reads_the_same_in_raw_data(element: ElementType) -> None:
    proto = TensorProto(data_type=element.code, dims=[7], raw_data=raw(element, samples(element, (7,))))
    assert same(decode(proto), numpy_helper.to_array(Official.FromString(proto.SerializeToString())))


@pytest.mark.parametrize("element", BINARY)
def test_what_the_official_writer_writes_is_read(element: ElementType) -> None:
    elements = samples(element, (2, 3))
    assert same(decode(ours(numpy_helper.from_array(elements))), elements)


def test_elements_are_read_only() -> None:
    elements = decode(TensorProto(data_type=1, dims=[2], float_data=[1, 2]))
    with pytest.raises(ValueError, match="read-only"):
        elements[0] = 5


def test_a_bool_of_any_byte_is_true() -> None:
    elements = decode(TensorProto(data_type=9, dims=[3], raw_data=b"\x00\x01\xff"))
    assert same(elements, np.array([False, True, True]))


@pytest.mark.parametrize(("data_type", "entry"), [(3, 255), (3, -128), (16, -1), (10, 65535), (22, 255), (9, 1)])
def test_bit_patterns_may_be_sign_extended_or_not(data_type: int, entry: int) -> None:
    assert decode(TensorProto(data_type=data_type, dims=[1], int32_data=[entry])).shape == (1,)


def test_raw_data_lifted_out_of_the_model_is_read_in_place() -> None:
    data = memoryview(np.arange(4, dtype=np.float32).tobytes())
    proto = TensorProto(data_type=1, dims=[4], raw_data=b"token")
    elements = read_tensor(proto, TensorStore(lifted={b"token": data})).array()
    assert same(elements, np.arange(4, dtype=np.float32))
    assert np.shares_memory(elements, np.frombuffer(data, np.uint8))


def test_misaligned_data_is_copied_into_alignment() -> None:
    data = memoryview(b"?" + np.arange(4, dtype=np.float64).tobytes())[1:]
    elements = read_tensor(TensorProto(data_type=11, dims=[4], raw_data=b"t"), TensorStore(lifted={b"t": data})).array()
    assert elements.flags.aligned
    assert same(elements, np.arange(4, dtype=np.float64))


def _raises(proto: TensorProto, folder: Path | None = None) -> str:
    with pytest.raises(TensorError) as caught:
        decode(proto, folder)
    return caught.value.code


INVALID: dict[str, tuple[str, dict[str, object]]] = {
    "no element type": ("element-type-missing", {"dims": [1], "raw_data": b"1234"}),
    "unknown element type": ("element-type-unknown", {"data_type": 99, "dims": [1], "raw_data": b"1"}),
    "negative element type": ("element-type-unknown", {"data_type": -1, "dims": [1], "raw_data": b"1"}),
    "negative size": ("tensor-shape", {"data_type": 1, "dims": [-1]}),
    "overflowing size": ("tensor-shape", {"data_type": 1, "dims": [1 << 40, 1 << 40]}),
    "overflowing size of nothing": ("tensor-shape", {"data_type": 1, "dims": [0, 1 << 62, 1 << 62]}),
    "an int8 of nine bits": ("tensor-value", {"data_type": 3, "dims": [2], "int32_data": [300, -1]}),
    "a negative uint8": ("tensor-value", {"data_type": 2, "dims": [1], "int32_data": [-1]}),
    "a bool of 2": ("tensor-value", {"data_type": 9, "dims": [1], "int32_data": [2]}),
    "a float16 of 17 bits": ("tensor-value", {"data_type": 10, "dims": [1], "int32_data": [65536]}),
    "a byte of 9 bits of two int4": ("tensor-value", {"data_type": 22, "dims": [2], "int32_data": [256]}),
    "a uint32 of 33 bits": ("tensor-value", {"data_type": 12, "dims": [1], "uint64_data": [1 << 32]}),
    "too many axes": ("tensor-rank", {"data_type": 1, "dims": [1] * 65, "float_data": [1]}),
    "no data": ("tensor-data-missing", {"data_type": 1, "dims": [2]}),
    "no strings": ("tensor-data-missing", {"data_type": 8, "dims": [2]}),
    "short raw data": ("tensor-data-length", {"data_type": 1, "dims": [2], "raw_data": b"1234"}),
    "long raw data": ("tensor-data-length", {"data_type": 1, "dims": [1], "raw_data": b"12345678"}),
    "data of nothing": ("tensor-data-length", {"data_type": 1, "dims": [0], "raw_data": b"1234"}),
    "short float_data": ("tensor-data-length", {"data_type": 1, "dims": [3], "float_data": [1, 2]}),
    "half a complex number": ("tensor-data-length", {"data_type": 14, "dims": [1], "float_data": [1]}),
    "one nibble a byte": ("tensor-data-length", {"data_type": 21, "dims": [4], "int32_data": [1, 2, 3, 4]}),
    "two storages": ("tensor-data-ambiguous", {"data_type": 1, "dims": [1], "float_data": [1], "raw_data": b"1234"}),
    "two fields": ("tensor-data-ambiguous", {"data_type": 1, "dims": [1], "float_data": [1], "double_data": [1]}),
    "external and inside": (
        "tensor-data-ambiguous",
        {"data_type": 1, "dims": [1], "float_data": [1], "data_location": TensorProto.EXTERNAL},
    ),
    "wrong field": ("tensor-storage", {"data_type": 1, "dims": [1], "double_data": [1]}),
    "int64 in int32_data": ("tensor-storage", {"data_type": 7, "dims": [1], "int32_data": [1]}),
    "raw strings": ("tensor-storage", {"data_type": 8, "dims": [1], "raw_data": b"a"}),
    "external strings": ("tensor-storage", {"data_type": 8, "dims": [1], "data_location": TensorProto.EXTERNAL}),
    "strings that are not UTF-8": ("invalid-utf8", {"data_type": 8, "dims": [1], "string_data": [b"\xff"]}),
    "a segment": ("tensor-segment", {"data_type": 1, "dims": [1], "float_data": [1], "segment": TensorProto.Segment()}),
    "unknown location": ("tensor-data-location", {"data_type": 1, "dims": [1], "float_data": [1], "data_location": 7}),
    "padding in six bits": ("tensor-value", {"data_type": 27, "dims": [1], "raw_data": b"\x40"}),
    "seven bits in six": ("tensor-value", {"data_type": 28, "dims": [1], "int32_data": [64]}),
}


@pytest.mark.parametrize(("code", "fields"), INVALID.values(), ids=INVALID)
def test_a_malformed_tensor_is_refused(code: str, fields: dict[str, object]) -> None:
    assert _raises(TensorProto(**fields)) == code  # type: ignore[arg-type]


# External data


def external(dims: list[int], entries: Mapping[str, object], data_type: int = 1) -> TensorProto:
    proto = TensorProto(data_type=data_type, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        proto.external_data.add(key=key, value=str(value))
    return proto


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (tmp_path / "model" / "weights.bin").write_bytes(np.arange(16, dtype=np.float32).tobytes())
    return tmp_path / "model"


def test_several_tensors_share_one_mapped_file(folder: Path) -> None:
    store = TensorStore(ExternalFiles(folder))
    first = read_tensor(external([2, 3], {"location": "weights.bin"}), store).array()
    second = read_tensor(external([4], {"location": "./weights.bin", "offset": 8, "length": 16}), store).array()
    assert same(first, np.arange(6, dtype=np.float32).reshape(2, 3))
    assert same(second, np.arange(2, 6, dtype=np.float32))
    assert np.shares_memory(first, second)


def test_external_data_lies_in_folders_below(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "w").write_bytes(b"\x07\x01")
    assert same(decode(external([2], {"location": "a/b/w"}, 3), folder), np.array([7, 1], np.int8))


def test_packed_elements_may_be_external(folder: Path) -> None:
    (folder / "w4").write_bytes(b"\x21\x03")
    elements = decode(external([3], {"location": "w4"}, 21), folder)
    assert same(elements, np.array([1, 2, 3], np.uint8).astype(ml_dtypes.uint4))


def test_a_tensor_without_elements_may_be_in_an_empty_file(folder: Path) -> None:
    (folder / "empty").write_bytes(b"")
    assert same(decode(external([0, 3], {"location": "empty"}), folder), np.zeros((0, 3), np.float32))


def test_misaligned_external_data_is_read(folder: Path) -> None:
    elements = decode(external([1], {"location": "weights.bin", "offset": 4}, 11), folder)
    expected = np.frombuffer(np.arange(16, dtype=np.float32).tobytes()[4:12], np.float64)
    assert same(elements, expected)


def _symbolic_link(folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")


def _linked_folder(folder: Path) -> None:
    (folder / "inner").symlink_to(folder.parent, target_is_directory=True)


def _inside_link(folder: Path) -> None:
    (folder / "link.bin").symlink_to("weights.bin")


def _hard_link(folder: Path) -> None:
    os.link(folder.parent / "secret.bin", folder / "hard.bin")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _nothing(folder: Path) -> None:
    pass


REFUSED: dict[str, tuple[str, Callable[[Path], None], dict[str, object]]] = {
    "no location": ("external-data-location", _nothing, {}),
    "empty location": ("external-data-location", _nothing, {"location": ""}),
    "the folder itself": ("external-data-location", _nothing, {"location": "."}),
    "an absolute path": ("external-data-location", _nothing, {"location": "/etc/passwd"}),
    "the folder above": ("external-data-location", _nothing, {"location": "../secret.bin"}),
    "above and back": ("external-data-location", _nothing, {"location": "a/../../secret.bin"}),
    "a NUL in the path": ("external-data-location", _nothing, {"location": "a\0b"}),
    "a missing file": ("external-data-not-found", _nothing, {"location": "none.bin"}),
    "a missing folder": ("external-data-not-found", _nothing, {"location": "none/w.bin"}),
    "a symbolic link": ("external-data-link", _symbolic_link, {"location": "link.bin"}),
    "a symbolic link inside": ("external-data-link", _inside_link, {"location": "link.bin"}),
    "a linked folder": ("external-data-link", _linked_folder, {"location": "inner/secret.bin"}),
    "a hard link": ("external-data-link", _hard_link, {"location": "hard.bin"}),
    "a file as folder": ("external-data-link", _nothing, {"location": "weights.bin/x"}),
    "a folder": ("external-data-not-a-file", lambda folder: (folder / "d").mkdir(), {"location": "d"}),
    "a pipe": ("external-data-not-a-file", _pipe, {"location": "pipe"}),
    "a name that is too long": ("external-data-unreadable", _nothing, {"location": "x" * 5000}),
    "beyond the end": ("external-data-range", _nothing, {"location": "weights.bin", "offset": 60}),
    "far beyond the end": ("external-data-range", _nothing, {"location": "weights.bin", "offset": 10**17}),
    "too short a length": ("external-data-length", _nothing, {"location": "weights.bin", "length": 4}),
    "too long a length": ("external-data-length", _nothing, {"location": "weights.bin", "length": 64}),
    "a negative offset": ("external-data-entry", _nothing, {"location": "weights.bin", "offset": -4}),
    "an offset in words": ("external-data-entry", _nothing, {"location": "weights.bin", "offset": "four"}),
    "another digest": ("external-data-checksum", _nothing, {"location": "weights.bin", "checksum": "0" * 40}),
    "a digest in words": ("external-data-checksum", _nothing, {"location": "weights.bin", "checksum": "sha1"}),
    "an enormous offset": ("external-data-entry", _nothing, {"location": "weights.bin", "offset": "9" * 30}),
}


@pytest.mark.parametrize(("code", "prepare", "entries"), REFUSED.values(), ids=REFUSED)
def test_external_data_is_refused(
    code: str, prepare: Callable[[Path], None], entries: dict[str, object], folder: Path
) -> None:
    prepare(folder)
    assert _raises(external([2], entries), folder) == code


@pytest.mark.parametrize("write", [str.lower, str.upper])
def test_the_digest_of_an_external_file_is_that_of_the_whole_file(write: Callable[[str], str], folder: Path) -> None:
    digest = hashlib.sha1((folder / "weights.bin").read_bytes()).hexdigest()
    proto = external([2], {"location": "weights.bin", "offset": 4, "checksum": write(digest)})
    assert decode(proto, folder).shape == (2,)


def test_an_entry_that_is_there_twice_is_refused(folder: Path) -> None:
    proto = external([2], {"location": "weights.bin"})
    proto.external_data.add(key="location", value="other.bin")
    assert _raises(proto, folder) == "external-data-entry"


def test_external_data_of_a_model_without_folder_is_refused_and_says_how() -> None:
    with pytest.raises(TensorError, match="pass the path of the model file") as caught:
        decode(external([2], {"location": "weights.bin"}))
    assert caught.value.code == "external-data-without-folder"


# Sparse tensors


def sparse(values: np.ndarray, indices: np.ndarray | None, dims: list[int]) -> SparseTensorProto:
    proto = SparseTensorProto(values=ours(numpy_helper.from_array(values, "s")), dims=dims)
    if indices is not None:
        proto.indices.CopyFrom(ours(numpy_helper.from_array(indices)))
    return proto


def densify(proto: SparseTensorProto) -> np.ndarray:
    return read_sparse_tensor(proto, TensorStore()).array()


def _i64(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.int64)


FLOATS = np.array([1.5, -0.0], np.float32)


@pytest.mark.parametrize("indices", [_i64(1, 5), _i64([0, 1], [1, 2])], ids=["linear", "coordinates"])
def test_a_sparse_tensor_becomes_dense(indices: np.ndarray) -> None:
    expected = np.array([[0, 1.5, 0], [0, 0, -0.0]], np.float32)
    tensor = read_sparse_tensor(sparse(FLOATS, indices, [2, 3]), TensorStore())
    assert (tensor.name, tensor.shape) == ("s", (2, 3))
    assert same(tensor.array(), expected)


def test_a_sparse_tensor_of_nothing_is_zero() -> None:
    assert same(densify(sparse(np.zeros(0, np.int64), None, [2, 2])), np.zeros((2, 2), np.int64))


def test_a_sparse_tensor_of_strings_is_filled_with_empty_ones() -> None:
    dense = densify(sparse(np.array(["x"], object), _i64(1), [2]))
    assert dense.tolist() == ["", "x"]


SPARSE_INVALID: dict[str, tuple[str, SparseTensorProto]] = {
    "no axes": ("sparse-shape", sparse(FLOATS, _i64(0, 1), [])),
    "an empty axis": ("sparse-shape", sparse(FLOATS, _i64(0, 1), [0, 2])),
    "a negative size": ("tensor-shape", sparse(FLOATS, _i64(0, 1), [-2])),
    "a dense size beyond the limit": ("sparse-tensor-too-large", sparse(FLOATS, _i64(0, 1), [1 << 20, 1 << 20])),
    "values of rank 2": ("sparse-values", sparse(FLOATS.reshape(1, 2), _i64(0, 1), [4])),
    "no indices": ("sparse-indices", sparse(FLOATS, None, [4])),
    "indices that are not int64": ("sparse-indices", sparse(FLOATS, np.array([0, 1], np.int32), [4])),
    "too few indices": ("sparse-indices", sparse(FLOATS, _i64(0), [4])),
    "indices of another rank": ("sparse-indices", sparse(FLOATS, _i64([0], [1]), [2, 2])),
    "a negative index": ("sparse-index-range", sparse(FLOATS, _i64(-1, 1), [4])),
    "an index beyond the end": ("sparse-index-range", sparse(FLOATS, _i64(0, 4), [4])),
    "a coordinate beyond its axis": ("sparse-index-range", sparse(FLOATS, _i64([0, 0], [0, 2]), [2, 2])),
    "descending indices": ("sparse-index-order", sparse(FLOATS, _i64(1, 0), [4])),
    "an index twice": ("sparse-index-order", sparse(FLOATS, _i64(1, 1), [4])),
}


@pytest.mark.parametrize(("code", "proto"), SPARSE_INVALID.values(), ids=SPARSE_INVALID)
def test_a_malformed_sparse_tensor_is_refused(code: str, proto: SparseTensorProto) -> None:
    with pytest.raises(TensorError) as caught:
        densify(proto)
    assert caught.value.code == code
