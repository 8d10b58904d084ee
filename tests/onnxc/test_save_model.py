"""Models written to files: elements inside, or beside them, for other tools to read."""

import json
import os
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.compiler.frontend.external import save

SMALL = np.arange(3, dtype=np.float32)
LARGE = np.arange(600, dtype=np.float32).reshape(200, 3)
HUGE = np.arange(3 << 17, dtype=np.float32).reshape(-1, 3)


def model(*extra: onnx.NodeProto) -> onnx.ModelProto:
    """Small, large and page-aligned initializers, one with typed data, and a large tensor in an attribute."""
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones((400, 3), np.float32)))
    add = helper.make_node("Concat", ["x", "small", "large", "typed", "huge", "c"], ["y"], axis=0)
    typed = helper.make_tensor("typed", TensorProto.FLOAT, LARGE.shape, (2 * LARGE).reshape(-1).tolist())
    graph = helper.make_graph(
        [constant, add, *extra],
        "g",
        [helper.make_tensor_value_info("x", 1, ["N", 3])],
        [helper.make_tensor_value_info("y", 1, ["M", 3])],
        [
            numpy_helper.from_array(SMALL[None], "small"),
            numpy_helper.from_array(LARGE, "large"),
            typed,
            numpy_helper.from_array(HUGE, "huge"),
        ],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


X = np.zeros((1, 3), np.float32)
EXPECTED = np.concatenate([X, SMALL[None], LARGE, 2 * LARGE, HUGE, np.ones((400, 3), np.float32)])


def expect_same(path: Path) -> None:
    """Both onnx and ours find every element."""
    loaded = onnx.load(path)
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in loaded.graph.initializer}
    for name, wanted in (("small", SMALL[None]), ("large", LARGE), ("typed", 2 * LARGE), ("huge", HUGE)):
        np.testing.assert_array_equal(found[name], wanted)
    np.testing.assert_array_equal(onnxc.compile(path, "interpreter")(X), EXPECTED)


@pytest.mark.parametrize("form", ["message", "file"])
def test_large_initializers_go_beside_the_model(form: str, tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "source.onnx")
    source = model() if form == "message" else tmp_path / "source.onnx"
    onnxc.save_model(source, tmp_path / "m.onnx", external_data="m.data")
    stored = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    entries = {t.name: {e.key: e.value for e in t.external_data} for t in stored.graph.initializer}
    assert entries == {
        "small": {},
        "large": {"location": "m.data", "offset": "0", "length": "2400"},
        "typed": {"location": "m.data", "offset": "2432", "length": "2400"},
        "huge": {"location": "m.data", "offset": "65536", "length": str(HUGE.nbytes)},
    }
    assert (tmp_path / "m.data").stat().st_size == 65536 + HUGE.nbytes
    assert (tmp_path / "m.onnx").stat().st_size < 10_000
    expect_same(tmp_path / "m.onnx")


def test_what_was_beside_a_model_moves_with_it_or_into_it(tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    onnxc.save_model(model(), tmp_path / "a/m.onnx", external_data="first")
    onnxc.save_model(tmp_path / "a/m.onnx", tmp_path / "b/m.onnx", external_data="second")
    onnxc.save_model(tmp_path / "b/m.onnx", tmp_path / "c/m.onnx")
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["m.onnx", "second"]
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["m.onnx"]
    expect_same(tmp_path / "b/m.onnx")
    expect_same(tmp_path / "c/m.onnx")


def test_a_model_may_be_written_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    for name in ("m.data", "m.data", None, "m.data"):
        onnxc.save_model(path, path, external_data=name)
        expect_same(path)


def test_a_model_that_is_written_whole_is_the_same_message(tmp_path: Path) -> None:
    onnxc.save_model(model(), tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == model()


@pytest.mark.parametrize("dtype", ["uint4", "int4", "float4e2m1", "bfloat16", "float8e4m3fn", "bool", "string"])
def test_elements_of_every_width_keep_their_bits(dtype: str, tmp_path: Path) -> None:
    count = 6000
    proto = onnx.TensorProto(name="w", data_type=getattr(TensorProto, dtype.upper()), dims=[count])
    if dtype == "string":
        proto.string_data.extend([b"text"] * count)
    else:
        width = {"uint4": 0.5, "int4": 0.5, "float4e2m1": 0.5, "bfloat16": 2}.get(dtype, 1)
        rng = np.random.default_rng(0)
        proto.raw_data = rng.integers(0, 2 if dtype == "bool" else 127, int(count * width), np.uint8).tobytes()
    node = helper.make_node("Identity", ["w"], ["y"])
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", proto.data_type, [count])], [proto])
    source = helper.make_model(graph, ir_version=13, opset_imports=[helper.make_opsetid("", 25)])
    onnxc.save_model(source, tmp_path / "a.onnx", external_data="a.data")
    onnxc.save_model(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert onnx.load(tmp_path / "b.onnx") == source


def test_the_limit_of_a_message_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(model(), tmp_path / "source.onnx")
    monkeypatch.setattr(save, "MOST_MESSAGE_BYTES", 100_000)
    with pytest.raises(onnxc.ModelError, match='external_data="NAME"') as caught:
        onnxc.save_model(tmp_path / "source.onnx", tmp_path / "m.onnx")
    assert caught.value.code == "model-too-large"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.onnx"]
    onnxc.save_model(tmp_path / "source.onnx", tmp_path / "m.onnx", external_data="m.data")
    expect_same(tmp_path / "m.onnx")


@pytest.mark.slow
def test_a_model_beyond_two_gigabytes_is_streamed(tmp_path: Path) -> None:
    """Its source is a sparse file; what is written is read back as the same elements."""
    rows = (1 << 31) // 4096 + 1
    entries = {"location": "zeros", "length": str(rows * 4096)}
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, 1024], data_location=1)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    (tmp_path / "zeros").touch()
    os.truncate(tmp_path / "zeros", rows * 4096)
    with (tmp_path / "zeros").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(np.float32(7).tobytes())
    outputs = [helper.make_tensor_value_info("y", 1, [rows, 1024])]
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], outputs, [tensor])
    source = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    onnx.save(source, tmp_path / "source.onnx")
    onnxc.save_model(tmp_path / "source.onnx", tmp_path / "m.onnx", external_data="copy")
    assert (tmp_path / "copy").stat().st_size == rows * 4096
    copy = np.memmap(tmp_path / "copy", np.float32, "r")
    assert (copy[0], copy[-1], onnxc.check(tmp_path / "m.onnx")) == (0, 7, ())
    with pytest.raises(onnxc.ModelError) as caught:
        onnxc.save_model(tmp_path / "m.onnx", tmp_path / "whole.onnx")
    assert caught.value.code == "model-too-large"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "m.onnx", "a\0b", 3, "inner/"])
def test_names_of_external_data_that_cannot_be(name: object, tmp_path: Path) -> None:
    with pytest.raises(onnxc.InputError) as caught:
        onnxc.save_model(model(), tmp_path / "m.onnx", external_data=name)  # type: ignore[arg-type]
    assert caught.value.code == "external-data-name"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(onnxc.DeviceError, match="No such file") as caught:
        onnxc.save_model(model(), tmp_path / "absent" / "m.onnx", external_data="m.data")
    assert caught.value.code == "model-unwritable"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(onnxc.InputError) as refused:
        onnxc.save_model(model(), tmp_path / "m.onnx", external_data="pipe")
    assert refused.value.code == "not-a-plain-file"


def test_a_tensor_that_cannot_be_read_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    broken = model()
    broken.graph.initializer[1].raw_data = b"short"
    with pytest.raises(onnxc.ModelError, match='tensor "large"') as caught:
        onnxc.save_model(broken, tmp_path / "m.onnx", external_data="m.data")
    assert caught.value.code == "tensor-data-length"
    assert list(tmp_path.iterdir()) == []


# Links


def linked(folder: Path) -> Path:
    """A cache as model hubs have it: links of readable names to files named by their digests."""
    onnxc.save_model(model(), folder / "m.onnx", external_data="m.data")
    (folder / "blobs").mkdir()
    (folder / "snapshot").mkdir()
    for name, digest in (("m.onnx", "1f"), ("m.data", "2e")):
        (folder / name).rename(folder / "blobs" / digest)
        (folder / "snapshot" / name).symlink_to(Path("..") / "blobs" / digest)
    return folder / "snapshot" / "m.onnx"


def test_links_of_a_cache_are_followed_where_they_are_allowed(tmp_path: Path) -> None:
    path = linked(tmp_path)
    with pytest.raises(onnxc.ModelError, match="allow_links=True") as caught:
        onnxc.compile(path)
    assert caught.value.code == "external-data-link"
    assert {finding.code for finding in onnxc.check(path)} == {"external-data-link"}
    np.testing.assert_array_equal(onnxc.compile(path, "interpreter", allow_links=True)(X), EXPECTED)
    assert onnxc.check(path, allow_links=True) == ()
    assert onnxc.infer(path, allow_links=True).graph.output[0].name == "y"
    assert onnxc.inline(path, allow_links=True).graph.name == "g"
    onnxc.save_model(path, tmp_path / "copied.onnx", allow_links=True)
    expect_same(tmp_path / "copied.onnx")


def test_a_hard_link_is_read_where_links_are_allowed(tmp_path: Path) -> None:
    onnxc.save_model(model(), tmp_path / "m.onnx", external_data="m.data")
    os.link(tmp_path / "m.data", tmp_path / "again")
    assert {finding.code for finding in onnxc.check(tmp_path / "m.onnx")} == {"external-data-link"}
    assert onnxc.check(tmp_path / "m.onnx", allow_links=True) == ()


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("../secret", "external-data-location"),
        ("/etc/passwd", "external-data-location"),
        ("loop", "external-data-link"),
        ("dangling", "external-data-not-found"),
        ("folder", "external-data-not-a-file"),
        ("pipe", "external-data-not-a-file"),
    ],
)
def test_links_that_are_allowed_lead_to_plain_files_and_locations_stay_below(
    location: str, code: str, tmp_path: Path
) -> None:
    folder = tmp_path / "folder_of_the_model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(1 << 20))
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "folder").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "fifo")
    (folder / "pipe").symlink_to(tmp_path / "fifo")
    onnxc.save_model(model(), folder / "m.onnx", external_data="m.data")
    stored = onnx.load(folder / "m.onnx", load_external_data=False)
    for tensor in stored.graph.initializer:
        if tensor.external_data:
            tensor.external_data[0].value = location
    (folder / "m.onnx").write_bytes(stored.SerializeToString())
    findings = onnxc.check(folder / "m.onnx", allow_links=True)
    assert {finding.code for finding in findings} == {code}
    # What is done already is no advice.
    assert not any("allow_links" in finding.message for finding in findings)


# safetensors


def safetensors_file(path: Path, tensors: dict[str, tuple[str, np.ndarray]]) -> None:
    """A file as the safetensors library writes it."""
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        start, data = len(data), data + array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def model_beside(folder: Path, **entries: str) -> Path:
    """A model whose two initializers are in a safetensors file."""
    source = model()
    for name, array in (("large", LARGE), ("typed", 2 * LARGE)):
        (tensor,) = (tensor for tensor in source.graph.initializer if tensor.name == name)
        tensor.CopyFrom(onnx.TensorProto(name=name, data_type=1, dims=array.shape, data_location=1))
        for key, value in {"location": "w.safetensors", **entries}.items():
            tensor.external_data.add(key=key, value=value)
    (folder / "m.onnx").write_bytes(source.SerializeToString())
    return folder / "m.onnx"


def test_tensors_of_a_safetensors_file_are_found_by_their_names(tmp_path: Path) -> None:
    safetensors_file(tmp_path / "w.safetensors", {"typed": ("F32", 2 * LARGE), "large": ("F32", LARGE)})
    path = model_beside(tmp_path)
    np.testing.assert_array_equal(onnxc.compile(path, "interpreter")(X), EXPECTED)
    onnxc.save_model(path, tmp_path / "whole.onnx")
    expect_same(tmp_path / "whole.onnx")


def test_the_name_of_a_safetensors_file_may_be_written_in_capitals(tmp_path: Path) -> None:
    safetensors_file(tmp_path / "W.SafeTensors", {"typed": ("F32", 2 * LARGE), "large": ("F32", LARGE)})
    path = model_beside(tmp_path, location="W.SafeTensors")
    np.testing.assert_array_equal(onnxc.compile(path, "interpreter")(X), EXPECTED)


def test_weights_of_4_bits_in_a_safetensors_file_lie_as_in_onnx(tmp_path: Path) -> None:
    # Two elements a byte, the first in the lower half: 0.5, -1, 6 and 0.
    safetensors_file(tmp_path / "w.safetensors", {"w": ("F4", np.array([0xA1, 0x07], np.uint8))})
    stored = (tmp_path / "w.safetensors").read_bytes().replace(b'"shape": [2]', b'"shape": [4]')
    (tmp_path / "w.safetensors").write_bytes(stored)
    text = """<ir_version: 11, opset_import: ["": 23]> g (float[4] x) => (float[4] y) {
        v = Cast <to = 1> (w)
        y = Add (x, v) }"""
    source = onnx.parser.parse_model(text)
    tensor = source.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT4E2M1, dims=[4], data_location=1)
    tensor.external_data.add(key="location", value="w.safetensors")
    (tmp_path / "m.onnx").write_bytes(source.SerializeToString())
    assert onnxc.compile(tmp_path / "m.onnx", "interpreter")(np.zeros(4, np.float32)).tolist() == [0.5, -1, 6, 0]


@pytest.mark.parametrize("given", [{"names": {"large": "weight"}}, {"prefix": "b/"}, {"names": {"x": "input"}}])
def test_renamed_tensors_of_a_safetensors_file_are_found_by_their_bytes(
    given: dict[str, dict[str, str] | str], tmp_path: Path
) -> None:
    safetensors_file(tmp_path / "w.safetensors", {"typed": ("F32", 2 * LARGE), "large": ("F32", LARGE)})
    renamed = onnxc.rename(model_beside(tmp_path), **given)  # type: ignore[arg-type]
    (tmp_path / "renamed.onnx").write_bytes(renamed.SerializeToString())
    np.testing.assert_array_equal(onnxc.compile(tmp_path / "renamed.onnx", "interpreter")(X), EXPECTED)


def test_an_offset_into_a_safetensors_file_is_one_of_bytes(tmp_path: Path) -> None:
    safetensors_file(tmp_path / "w.safetensors", {"other": ("F32", LARGE)})
    begin = (tmp_path / "w.safetensors").stat().st_size - LARGE.nbytes
    path = model_beside(tmp_path, offset=str(begin))
    wanted = EXPECTED.copy()
    wanted[202:402] = LARGE
    np.testing.assert_array_equal(onnxc.compile(path, "interpreter")(X), wanted)


@pytest.mark.parametrize(
    ("tensors", "code", "message"),
    [
        ({"typed": ("F32", LARGE)}, "safetensors-tensor", '"w.safetensors" has no tensor "large"'),
        ({"typed": ("F32", LARGE), "large": ("I32", LARGE)}, "safetensors-tensor", "is i32[200, 3]"),
        ({"typed": ("F32", LARGE), "large": ("F32", LARGE.T)}, "safetensors-tensor", "is f32[3, 200]"),
    ],
)
def test_a_tensor_that_a_safetensors_file_has_not(
    tensors: dict[str, tuple[str, np.ndarray]], code: str, message: str, tmp_path: Path
) -> None:
    safetensors_file(tmp_path / "w.safetensors", tensors)
    (finding,) = onnxc.check(model_beside(tmp_path))
    assert finding.code == code
    assert message in finding.message


def test_a_length_that_differs_is_a_finding_in_a_safetensors_file_too(tmp_path: Path) -> None:
    safetensors_file(tmp_path / "w.safetensors", {"typed": ("F32", 2 * LARGE), "large": ("F32", LARGE)})
    codes = {finding.code for finding in onnxc.check(model_beside(tmp_path, length="4"))}
    assert codes == {"external-data-length"}


def test_a_file_that_is_no_safetensors_file_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"\xff" * 100)
    assert {finding.code for finding in onnxc.check(model_beside(tmp_path))} == {"safetensors-header"}


@pytest.mark.parametrize("form", ["onnxtxt", "textproto", "json"])
def test_the_ending_of_a_text_form_makes_a_text(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"m.{form}"
    onnxc.save_model(model(), path, external_data="m.data")
    assert onnxc.from_text(path.read_text(), form).graph.name == model().graph.name
    onnxc.save_model(path, tmp_path / "back.onnx")
    expect_same(tmp_path / "back.onnx")
