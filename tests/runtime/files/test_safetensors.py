"""Headers of safetensors files, as the library writes them, and hostile ones."""

import json
import struct

import pytest

from onnxc.runtime.files.safetensors import SafetensorsError, StoredTensor, read_header


def file_of(header: object, data: bytes = b"", length: int | None = None) -> memoryview:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return memoryview(struct.pack("<Q", len(text) if length is None else length) + text + data)


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_tensors_lie_behind_the_header_in_any_order() -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "b": entry("I64", [], [8, 16]),
        "a": entry(),
        "none": entry("BF16", [0, 3], [16, 16]),
        "last": entry("BOOL", [1], [16, 17]),
    }
    data = file_of(header, bytes(17))
    begin = len(data) - 17
    assert read_header(data) == {
        "a": StoredTensor("f32", (2,), begin, begin + 8),
        "b": StoredTensor("i64", (), begin + 8, begin + 16),
        "none": StoredTensor("bf16", (0, 3), begin + 16, begin + 16),
        "last": StoredTensor("bool", (1,), begin + 16, begin + 17),
    }


def test_the_header_may_be_padded_with_spaces_and_hold_no_tensors() -> None:
    assert read_header(file_of(b"{}      ")) == {}


@pytest.mark.parametrize(
    ("dtype", "elements", "nbytes"), [("F4", 6, 3), ("F6_E2M3", 4, 3), ("F6_E3M2", 8, 6), ("F64", 2, 16), ("F4", 0, 0)]
)
def test_elements_may_be_of_fewer_bits_than_a_byte(dtype: str, elements: int, nbytes: int) -> None:
    data = file_of(
        {"a": entry(dtype, [elements], [0, nbytes]), "b": entry("U8", [1], [nbytes, nbytes + 1])}, bytes(nbytes + 1)
    )
    assert {name: each.end - each.start for name, each in read_header(data).items()} == {"a": nbytes, "b": 1}


HOSTILE = {
    "no bytes": (memoryview(b""), "has 0 bytes"),
    "half a length": (memoryview(b"\0" * 7), "has 7 bytes"),
    "a length beyond the file": (file_of({}, length=1 << 20), "would have 1048576 bytes"),
    "the longest length": (file_of({}, length=(1 << 64) - 1), "would have 18446744073709551615 bytes"),
    "no header": (file_of(b""), "no JSON"),
    "no JSON": (file_of(b"{'a': 1}"), "no JSON"),
    "no UTF-8": (file_of(b'{"\xff": 1}'), "no JSON"),
    "nested deeply": (file_of(b"[" * 200_000), "no JSON"),
    "a number of many digits": (file_of(b'{"a": ' + b"9" * 5000 + b"}"), "no JSON"),
    "a key twice": (file_of(b'{"a": 1, "a": 2}'), "a key twice"),
    "a list": (file_of([]), "no object"),
    "an entry that is none": (file_of({"a": 3}), "does not have the fields"),
    "an entry that lacks one": (file_of({"a": {"dtype": "F32", "shape": []}}), "does not have the fields"),
    "an entry with one more": (file_of({"a": entry() | {"more": 1}}), "does not have the fields"),
    "an unknown type": (file_of({"a": entry("F31")}, bytes(8)), "'F31'"),
    "half a byte": (file_of({"a": entry("F4", [3], [0, 1])}, bytes(1)), "offsets are 0 and 1"),
    "a type that is a list": (file_of({"a": entry([])}, bytes(8)), "the element type"),
    "a negative size": (file_of({"a": entry(shape=[-2])}, bytes(8)), "no lists of sizes"),
    "a size that is true": (file_of({"a": entry(shape=[True])}, bytes(8)), "no lists of sizes"),
    "a size with a fraction": (file_of({"a": entry(shape=[2.0])}, bytes(8)), "no lists of sizes"),
    "a size beyond counting": (file_of({"a": entry(shape=[1 << 62])}, bytes(8)), "no lists of sizes"),
    "a product beyond counting": (file_of({"a": entry(shape=[1 << 40] * 60)}, bytes(8)), "offsets are 0 and 8"),
    "very many axes": (file_of({"a": entry(shape=[1] * 65)}, bytes(8)), "no lists of sizes"),
    "three offsets": (file_of({"a": entry(offsets=[0, 8, 8])}, bytes(8)), "no lists of sizes"),
    "offsets that go back": (file_of({"a": entry(offsets=[8, 0])}, bytes(8)), "offsets are 8 and 0"),
    "too few bytes": (file_of({"a": entry(offsets=[0, 4])}, bytes(4)), "offsets are 0 and 4"),
    "beyond the end": (file_of({"a": entry()}, bytes(4)), "and the file has"),
    "bytes of no tensor": (file_of({"a": entry()}, bytes(9)), "and the file has"),
    "a gap": (file_of({"a": entry(), "b": entry(offsets=[9, 17])}, bytes(17)), "next free one"),
    "an overlap": (file_of({"a": entry(), "b": entry(offsets=[4, 12])}, bytes(12)), "next free one"),
}


@pytest.mark.parametrize(("data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_header_that_is_none_is_refused(data: memoryview, message: str) -> None:
    with pytest.raises(SafetensorsError) as caught:
        read_header(data)
    assert message in str(caught.value)
