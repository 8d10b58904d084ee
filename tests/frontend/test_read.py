"""Reading models: every kind of source, what is mapped, and what is said of bytes that are no model."""

import contextlib
import hashlib
import io
import os
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import onnxc
from onnxc.compiler.frontend import read, wire
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel, read_model
from onnxc.runtime.errors import InputError, ModelError, OnnxcError

WEIGHTS = np.arange(3000, dtype=np.float32).reshape(30, 100)


def _model(weights: np.ndarray = WEIGHTS) -> onnx.ModelProto:
    """A model with a large tensor as initializer, in a Constant, in a subgraph and in a function."""
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(weights, "in_constant"))
    branch = helper.make_graph(
        [helper.make_node("Add", ["w", "inside"], ["r"])],
        "branch",
        [],
        [helper.make_tensor_value_info("r", 1, None)],
        [numpy_helper.from_array(weights, "inside")],
    )
    nodes = [
        constant,
        helper.make_node("If", ["p"], ["s"], then_branch=branch, else_branch=branch),
        helper.make_node("Shift", ["s"], ["t"], domain="own"),
        helper.make_node("Add", ["t", "c"], ["y"]),
    ]
    shift = helper.make_function(
        "own",
        "Shift",
        ["a"],
        ["b"],
        [
            helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(weights, "in_function")),
            helper.make_node("Add", ["a", "k"], ["b"]),
        ],
        [helper.make_opsetid("", 21)],
    )
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("p", onnx.TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", 1, [30, 100])],
        [numpy_helper.from_array(weights, "w")],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, functions=[shift], opset_imports=imports, ir_version=10)


DATA = _model().SerializeToString()


def _code(source: object) -> str:
    with pytest.raises(OnnxcError) as caught:
        read_model(source)  # type: ignore[arg-type]
    return caught.value.code


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "m.onnx").write_bytes(DATA)
    return tmp_path / "m.onnx"


def test_a_path_is_read_and_its_folder_kept(path: Path) -> None:
    for source in (path, str(path)):
        loaded = read_model(source)
        assert loaded.folder == path.parent
        assert loaded.digest == hashlib.sha256(DATA).hexdigest()


def test_a_relative_path_has_an_absolute_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    assert read_model("m.onnx").folder == path.parent


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_are_read_and_have_no_folder(kind: type) -> None:
    loaded = read_model(kind(DATA))
    assert loaded.folder is None
    assert loaded.proto.graph.name == "g"


def test_a_file_object_is_read_and_has_the_folder_of_its_file(path: Path) -> None:
    with path.open("rb") as file:
        assert read_model(file).folder == path.parent
    assert read_model(io.BytesIO(DATA)).folder is None


def test_a_model_of_the_onnx_package_is_read() -> None:
    loaded = read_model(_model())
    assert loaded.folder is None
    assert onnx.ModelProto.FromString(loaded.proto.SerializeToString()) == _model()


def test_a_large_file_is_mapped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAP_BYTES", 1)
    loaded = read_model(path)
    assert not isinstance(loaded.data.obj, bytes)
    assert check_model(loaded).graph.initializers["w"].array().tobytes() == WEIGHTS.tobytes()


def test_large_tensors_are_lifted_out_of_what_is_parsed() -> None:
    loaded = read_model(DATA)
    assert len(loaded.lifted) == 5
    assert all(len(data) == WEIGHTS.nbytes for data in loaded.lifted.values())
    assert loaded.outline.ByteSize() < 2000
    assert loaded.proto == ModelProto.FromString(DATA)


def test_tensors_among_long_lists_of_short_fields_are_lifted() -> None:
    lists = ([-1, 0, 300, 2**62] * 500, [0.5, -2.0] * 999, ["", "LEAF", "x" * 15, "y" * 16] * 400)
    weights = numpy_helper.from_array(np.zeros(2048, np.float32), "weights")
    nodes = [helper.make_node("Any", [], ["y"], list=value, tensor=weights) for value in lists]
    data = helper.make_model(helper.make_graph(nodes, "main", [], [])).SerializeToString()
    loaded = read_model(data)
    assert [len(tensor) for tensor in loaded.lifted.values()] == [8192] * 3
    assert loaded.proto == ModelProto.FromString(data)


def test_lifted_tensors_are_where_the_model_is() -> None:
    model = check_model(read_model(DATA))
    arrays = [model.graph.initializers["w"].array()]
    for node in model.graph.nodes:
        for graph in node.subgraphs():
            arrays += [tensor.array() for tensor in graph.initializers.values()]
        value = node.attributes.get("value")
        arrays += [value.array()] if value is not None else []  # type: ignore[union-attr]
    assert len(arrays) == 5
    for array in arrays:
        np.testing.assert_array_equal(array, WEIGHTS, strict=True)


def test_small_tensors_stay_in_the_message() -> None:
    loaded = read_model(_model(np.zeros((30, 4), np.float32)).SerializeToString())
    assert not loaded.lifted
    assert loaded.outline == loaded.proto


def test_a_token_cannot_be_forged() -> None:
    first, second = read_model(DATA), read_model(DATA)
    assert not first.lifted.keys() & second.lifted.keys()


def test_an_unknown_field_is_kept() -> None:
    assert read_model(DATA + b"\xf8\x07\x01").proto.SerializeToString().endswith(b"\xf8\x07\x01")


@pytest.mark.parametrize("cut", [1, 3, 100, len(DATA) // 2, len(DATA) - 1])
def test_a_truncated_model_is_named_so(cut: int) -> None:
    assert _code(DATA[:cut]) == "truncated-model"


def zipped(member: str) -> bytes:
    """An archive with one member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, b"x")
    return file.getvalue()


IMPOSTORS = {
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "zip": (b"PK\x03\x04" + bytes(30), "zip archive"),
    "gzip": (b"\x1f\x8b\x08" + bytes(30), "gzip"),
    "ort": (b"\x18\x00\x00\x00ORTM" + bytes(30), "ONNX Runtime's own format"),
    "tflite": (b"\x1c\x00\x00\x00TFL3" + bytes(30), "TensorFlow Lite"),
    "hdf5": (b"\x89HDF\r\n\x1a\n", "HDF5"),
    "pickle": (b"\x80\x02\x8a\nl\xfc", "pickle"),
    "html": (b"<!DOCTYPE html>", "HTML"),
    "json": (b'{"a": 1}', "JSON"),
    "json behind a line": (b'\n{"a": 1}', "JSON"),
    "text": (b"hello world", "looks like text, .* .onnxtxt"),
    "pytorch": (zipped("archive/data.pkl"), "PyTorch file: .* torch.onnx.export"),
    "pytorch of 2.6": (zipped("m/.format_version"), "PyTorch file"),
    "another archive": (zipped("m.onnx"), "a zip archive"),
    "gguf": (b"GGUF" + bytes(20), "GGUF"),
    "tflite of another offset": (b"\x20\0\0\0TFL3" + bytes(20), "TensorFlow Lite"),
    "safetensors": ((8).to_bytes(8, "little") + b'{"a":{}}', "safetensors"),
    "a new pickle": (b"\x80\x05\x95" + bytes(8), "pickle"),
    "zeros": (bytes(10), "begins no field"),
    "a tensor": (onnx.TensorProto(raw_data=b"abcd").SerializeToString(), "neither a graph"),
}


@pytest.mark.parametrize(("data", "hint"), IMPOSTORS.values(), ids=IMPOSTORS)
def test_what_is_not_a_model_is_recognised(data: bytes, hint: str) -> None:
    with pytest.raises(ModelError, match=hint) as caught:
        read_model(data)
    assert caught.value.code == "not-a-model"


def test_a_group_of_fields_that_onnx_has_not_is_skipped_as_unknown_fields_are() -> None:
    # Field 100: within it field 1 as a number, field 101 with field 2 as bytes, and fields 3 and 4 of fixed width.
    group = b"\xa3\x06\x08\x01\xab\x06\x12\x02ab\xac\x06\x1d1234\x2112345678\xa4\x06"
    model = read_model(group + DATA + group)
    assert model.proto.graph == read_model(DATA).proto.graph


def test_an_empty_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    assert _code(b"") == "empty-model"
    assert _code(tmp_path / "empty.onnx") == "empty-model"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert _code(tmp_path / "none.onnx") == "file-not-found"
    assert _code(tmp_path) == "not-a-plain-file"
    assert _code(tmp_path / "m.onnx" / "\0") == "bad-path"
    assert _code("m" * 300) == "bad-path"
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "none.onnx")


@pytest.mark.parametrize("read", [onnxc.compile, onnxc.infer, onnxc.inline, read_model])
def test_special_files_are_refused_at_once(tmp_path: Path, read: Callable[[object], object]) -> None:
    fifo, listening = tmp_path / "fifo", tmp_path / "socket"
    os.mkfifo(fifo)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(listening))
        for path in (fifo, listening, "/dev/zero", "/dev/full", tmp_path):
            with pytest.raises(InputError) as refused:
                read(path)
            assert refused.value.code == "not-a-plain-file"
            assert [finding.code for finding in onnxc.check(path)] == ["not-a-plain-file"]


def test_a_path_may_be_of_bytes(tmp_path: Path) -> None:
    class BytesPath:
        def __fspath__(self) -> bytes:
            return os.fsencode(tmp_path / "m.onnx")

    (tmp_path / "m.onnx").write_bytes(DATA)
    assert read_model(BytesPath()).folder == tmp_path


def test_a_text_file_is_refused(tmp_path: Path) -> None:
    assert _code(io.StringIO("ir_version: 8")) == "text-file"


def test_what_is_no_source_at_all_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="of type int"):
        read_model(5)  # type: ignore[arg-type]


def test_a_model_that_cannot_be_serialized_is_refused() -> None:
    class Huge:
        def SerializeToString(self) -> bytes:
            raise ValueError("too large")

    assert _code(Huge()) == "unserializable-model"


def test_names_must_be_utf8_and_the_bad_one_is_found() -> None:
    data = DATA.replace(b"in_constant", b"in_c\xffnstant").replace(b"Shift", b"Shif\xff")
    with pytest.raises(ModelError, match=r"model\.graph\.node\[0\]\.attribute\[0\]\.t\.name is not UTF-8") as caught:
        read_model(data)
    assert caught.value.code == "invalid-utf8"


def test_free_text_need_not_be_utf8() -> None:
    model = _model()
    model.doc_string = "caf!"
    model.metadata_props.add(key="author", value="Ren!")
    loaded = read_model(model.SerializeToString().replace(b"caf!", b"caf\xe9").replace(b"Ren!", b"Ren\xe9"))
    assert check_model(loaded).metadata == {"author": "Ren\ufffd"}


def test_messages_nested_too_deeply_are_refused() -> None:
    data = b""
    for _ in range(200):
        # optional_type { elem_type ... }
        data = b"\x0a" + wire._varint(len(data)) + data
        data = b"\x4a" + wire._varint(len(data)) + data
    info = b"\x12" + wire._varint(len(data)) + data
    graph = b"\x5a" + wire._varint(len(info)) + info
    assert _code(b"\x3a" + wire._varint(len(graph)) + graph) == "nesting-too-deep"


def test_a_field_given_twice_is_merged_as_protobuf_does() -> None:
    first = onnx.ModelProto(ir_version=8, graph=onnx.GraphProto(name="a"))
    second = onnx.ModelProto(graph=onnx.GraphProto(node=[helper.make_node("Relu", ["x"], ["y"])]))
    loaded = read_model(first.SerializeToString() + second.SerializeToString())
    assert loaded.outline.graph.name == "a"
    assert len(loaded.outline.graph.node) == 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_model_or_a_model_error(data: bytes) -> None:
    with contextlib.suppress(ModelError):
        assert isinstance(read_model(data), LoadedModel)


@pytest.mark.slow
def test_a_model_beyond_two_gigabytes_is_read(tmp_path: Path) -> None:
    """A sparse file: 2.5 GiB of zeros as one initializer, of which only a few pages are ever touched."""
    rows, columns = 5 * (1 << 17), 1 << 10
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[rows, columns]).SerializeToString()
    raw = b"\x4a" + wire._varint(rows * columns * 4)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [1])],
        [helper.make_tensor_value_info("y", 1, [rows, columns])],
    ).SerializeToString()
    size = len(tensor) + len(raw) + rows * columns * 4
    head = graph + b"\x2a" + wire._varint(size) + tensor + raw
    rest = onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 21)]).SerializeToString()
    with (tmp_path / "huge.onnx").open("wb") as file:
        file.write(rest + b"\x3a" + wire._varint(len(head) + rows * columns * 4) + head)
        file.truncate(file.tell() + rows * columns * 4)
    weights = check_model(read_model(tmp_path / "huge.onnx")).graph.initializers["w"]
    assert weights.shape == (rows, columns)
    assert weights.array()[-1].tolist() == [0.0] * columns
