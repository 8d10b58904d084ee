"""What is wrong with the tensors of a model: initializers, sparse ones, tensors of attributes."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from tests.frontend.invalid.case import Case, Cases
from tests.frontend.model_texts import RELU, Edit, first_attribute

CONSTANT = "g () => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }"


def stored(**fields: object) -> Edit:
    """An initializer of these fields."""

    def edit(m: onnx.ModelProto) -> None:
        m.graph.initializer.append(TensorProto(name="w", **fields))  # type: ignore[arg-type]

    return edit


def sparse(values: TensorProto | None, indices: TensorProto | None, dims: Sequence[int]) -> Edit:
    """A sparse initializer."""
    return lambda m: m.graph.sparse_initializer.append(SparseTensorProto(values=values, indices=indices, dims=dims))


def floats(*shape: int) -> TensorProto:
    return numpy_helper.from_array(np.ones(shape, np.float32), "s")


def places(*indices: object) -> TensorProto:
    return numpy_helper.from_array(np.array(indices, np.int64), "i")


def external(*entries: tuple[str, str]) -> Edit:
    """An initializer of eight bytes in another file."""
    pairs = [onnx.StringStringEntryProto(key=key, value=value) for key, value in entries]
    return stored(data_type=1, dims=[2], data_location=TensorProto.EXTERNAL, external_data=pairs)


TENSORS: Cases = {
    "an initializer without an element type": Case("element-type-missing", RELU, stored(dims=[1], float_data=[1.0])),
    "an initializer of an unknown element type": Case(
        "element-type-unknown", RELU, stored(data_type=55, dims=[1], float_data=[1.0])
    ),
    "an initializer of a negative size": Case(
        "tensor-shape", RELU, stored(data_type=1, dims=[-1, 4], raw_data=b"\0" * 16)
    ),
    "an initializer beyond any memory": Case(
        "tensor-shape", RELU, stored(data_type=1, dims=[2**62, 2**62], raw_data=b"\0")
    ),
    "an initializer of 65 axes": Case("tensor-rank", RELU, stored(data_type=1, dims=[1] * 65, float_data=[1.0])),
    "an initializer without data": Case("tensor-data-missing", RELU, stored(data_type=1, dims=[3])),
    "a scalar without data": Case("tensor-data-missing", RELU, stored(data_type=7)),
    "strings without data": Case("tensor-data-missing", RELU, stored(data_type=8, dims=[2])),
    "raw data that is too short": Case("tensor-data-length", RELU, stored(data_type=1, dims=[2], raw_data=b"\0" * 7)),
    "raw data that is too long": Case("tensor-data-length", RELU, stored(data_type=1, dims=[2], raw_data=b"\0" * 12)),
    "data of an empty tensor": Case("tensor-data-length", RELU, stored(data_type=1, dims=[0], float_data=[1.0])),
    "raw data of an empty tensor": Case(
        "tensor-data-length", RELU, stored(data_type=1, dims=[0, 3], raw_data=b"\0\0\0\0")
    ),
    "half a byte too little": Case("tensor-data-length", RELU, stored(data_type=22, dims=[10], raw_data=b"\0" * 4)),
    "a quarter of a byte too little": Case(
        "tensor-data-length", RELU, stored(data_type=25, dims=[9], raw_data=b"\0" * 2)
    ),
    "too few strings": Case("tensor-data-length", RELU, stored(data_type=8, dims=[3], string_data=[b"a", b"b"])),
    "half a complex number": Case("tensor-data-length", RELU, stored(data_type=14, dims=[1], float_data=[1.0])),
    "too few doubles": Case("tensor-data-length", RELU, stored(data_type=11, dims=[2], double_data=[1.0])),
    "too few unsigned integers": Case("tensor-data-length", RELU, stored(data_type=13, dims=[2], uint64_data=[1])),
    "floats among the integers": Case("tensor-storage", RELU, stored(data_type=1, dims=[1], int32_data=[1])),
    "int64 among the int32": Case("tensor-storage", RELU, stored(data_type=7, dims=[1], int32_data=[1])),
    "doubles among the floats": Case("tensor-storage", RELU, stored(data_type=11, dims=[1], float_data=[1.0])),
    "float16 among the floats": Case("tensor-storage", RELU, stored(data_type=10, dims=[1], float_data=[1.0])),
    "strings as raw data": Case("tensor-storage", RELU, stored(data_type=8, dims=[1], raw_data=b"a")),
    "strings among the integers": Case("tensor-storage", RELU, stored(data_type=8, dims=[1], int32_data=[1])),
    "data in two fields": Case(
        "tensor-data-ambiguous", RELU, stored(data_type=1, dims=[1], float_data=[1.0], raw_data=b"\0\0\0\0")
    ),
    "data here and in another file": Case(
        "tensor-data-ambiguous",
        RELU,
        stored(
            data_type=1,
            dims=[1],
            float_data=[1.0],
            data_location=TensorProto.EXTERNAL,
            external_data=[onnx.StringStringEntryProto(key="location", value="w.bin")],
        ),
    ),
    "a segment": Case(
        "tensor-segment",
        RELU,
        stored(data_type=1, dims=[1], float_data=[1.0], segment=TensorProto.Segment(begin=0, end=1)),
    ),
    "an unknown data location": Case(
        "tensor-data-location",
        RELU,
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[0]).MergeFromString(b"\x70\x07"),
    ),
    "a uint8 of nine bits": Case("tensor-value", RELU, stored(data_type=2, dims=[1], int32_data=[256])),
    "a bool that is 2": Case("tensor-value", RELU, stored(data_type=9, dims=[1], int32_data=[2])),
    "a six-bit float of seven bits": Case(
        "tensor-value",
        RELU,
        lambda m: m.graph.initializer.add(name="w", dims=[1], int32_data=[64]).MergeFromString(b"\x10\x1b"),
    ),
    "a string that is not UTF-8": Case("invalid-utf8", RELU, stored(data_type=8, dims=[1], string_data=[b"\xff"])),
    "external data without a location": Case("external-data-location", RELU, external(("offset", "0"))),
    "external data at an absolute path": Case("external-data-location", RELU, external(("location", "/etc/passwd"))),
    "external data above the folder": Case("external-data-location", RELU, external(("location", "../w.bin"))),
    "external data above a folder": Case("external-data-location", RELU, external(("location", "a/../../w.bin"))),
    "external data at a negative offset": Case(
        "external-data-entry", RELU, external(("location", "w.bin"), ("offset", "-8"))
    ),
    "external data of a length in words": Case(
        "external-data-entry", RELU, external(("location", "w.bin"), ("length", "eight"))
    ),
    "external data of another length": Case(
        "external-data-length", RELU, external(("location", "w.bin"), ("length", "4"))
    ),
    "two locations": Case("external-data-entry", RELU, external(("location", "a.bin"), ("location", "b.bin"))),
    "a sparse initializer without values": Case("sparse-values", RELU, sparse(None, places(0), [3])),
    "sparse values of rank 2": Case("sparse-values", RELU, sparse(floats(1, 2), places(0), [3])),
    "a sparse scalar": Case("sparse-shape", RELU, sparse(floats(1), places(0), [])),
    "a sparse tensor with an empty axis": Case("sparse-shape", RELU, sparse(floats(1), places(0), [0, 2])),
    "a sparse tensor of a negative size": Case("tensor-shape", RELU, sparse(floats(1), places(0), [-3])),
    "sparse values without indices": Case("sparse-indices", RELU, sparse(floats(2), None, [3])),
    "sparse indices of type int32": Case(
        "sparse-indices", RELU, sparse(floats(1), numpy_helper.from_array(np.zeros(1, np.int32)), [3])
    ),
    "fewer indices than values": Case("sparse-indices", RELU, sparse(floats(2), places(0), [3])),
    "sparse indices of three axes": Case("sparse-indices", RELU, sparse(floats(1), places([[0]]), [3])),
    "sparse indices of too many columns": Case("sparse-indices", RELU, sparse(floats(1), places([0, 0, 0]), [3, 3])),
    "a negative sparse index": Case("sparse-index-range", RELU, sparse(floats(1), places(-1), [3])),
    "a sparse index beyond an axis": Case("sparse-index-range", RELU, sparse(floats(1), places([0, 3]), [3, 3])),
    "sparse indices out of order": Case("sparse-index-order", RELU, sparse(floats(2), places(2, 1), [3])),
    "a sparse index twice": Case("sparse-index-order", RELU, sparse(floats(2), places(1, 1), [3])),
    "sparse coordinates out of order": Case(
        "sparse-index-order", RELU, sparse(floats(2), places([2, 1], [1, 4]), [3, 5])
    ),
    "a sparse tensor that is enormous": Case(
        "sparse-tensor-too-large", RELU, sparse(floats(1), places(0), [1 << 20, 1 << 20])
    ),
    "an attribute of too few elements": Case(
        "tensor-data-length", CONSTANT, lambda m: first_attribute(m).t.dims.__setitem__(0, 3)
    ),
    "an attribute that is a segment": Case(
        "tensor-segment", CONSTANT, lambda m: first_attribute(m).t.segment.MergeFrom(TensorProto.Segment(begin=0))
    ),
    "a sparse attribute with an index beyond it": Case(
        "sparse-index-range",
        CONSTANT,
        lambda m: first_attribute(m).CopyFrom(
            helper.make_attribute("sparse_value", SparseTensorProto(values=floats(1), indices=places(7), dims=[2]))
        ),
    ),
}
