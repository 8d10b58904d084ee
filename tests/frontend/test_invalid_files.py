"""Files and bytes that are no model, and models whose external data is not there: what people are told, in full."""

import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import pytest

import onnxc
from onnxc.compiler.diagnostics import Diagnostic
from tests.frontend.model_texts import RELU, model
from tests.support.messages import read_messages, write_messages

MESSAGES = Path(__file__).parent / "invalid" / "file_messages.txt"
COMMAND = "python -m tests.frontend.test_invalid_files"
DATA = model(RELU).SerializeToString()

# What is passed, given a folder to put it into.
Source = Callable[[Path], object]


def nested(levels: int) -> bytes:
    """The bytes of a model with a type within a type within a type."""

    def field(number: int, data: bytes) -> bytes:
        length, prefix = len(data), bytearray()
        while length > 0x7F:
            prefix.append(length & 0x7F | 0x80)
            length >>= 7
        return bytes([number << 3 | 2, *prefix, length]) + data

    inner = b""
    for _ in range(levels):
        inner = field(4, field(1, inner))
    # ModelProto.graph, GraphProto.input, ValueInfoProto.type
    return b"\x08\x0a" + field(7, field(11, field(2, inner)))


def with_external_data(folder: Path, entries: Mapping[str, str]) -> Path:
    """A model whose initializer of 8 bytes is in another file."""
    official = model(RELU)
    tensor = official.graph.initializer.add(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    (folder / "m.onnx").write_bytes(official.SerializeToString())
    return folder / "m.onnx"


FILES: dict[str, tuple[str, Source]] = {
    "no such file": ("file-not-found", lambda folder: folder / "gone.onnx"),
    "a folder": ("not-a-plain-file", lambda folder: folder),
    "a name with a NUL": ("bad-path", lambda folder: "a\0b"),
    "a file open as text": ("text-file", lambda folder: io.StringIO("model")),
    "no bytes": ("empty-model", lambda folder: b""),
    "the first half": ("truncated-model", lambda folder: DATA[: len(DATA) // 2]),
    "a group of fields that does not end": ("truncated-model", lambda folder: DATA + b"\xa3\x06\x08\x01"),
    "a group of fields that ends as another": ("not-a-model", lambda folder: DATA + b"\xa3\x06\xac\x06"),
    "the end of no group of fields": ("not-a-model", lambda folder: DATA + b"\xa4\x06"),
    "a field without a number in a group": ("not-a-model", lambda folder: DATA + b"\xa3\x06\x00\xa4\x06"),
    "an unknown wire type": ("not-a-model", lambda folder: b"\x0f\x01"),
    "a number that never ends": ("not-a-model", lambda folder: b"\x08" + b"\xff" * 12),
    "a field of number 0": ("not-a-model", lambda folder: b"\x00\x00"),
    "some other message": ("not-a-model", lambda folder: b"\x12\x02hi"),
    "a pointer of Git LFS": (
        "not-a-model",
        lambda folder: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    ),
    "a zip archive": ("not-a-model", lambda folder: b"PK\x03\x04" + bytes(30)),
    "a web page": ("not-a-model", lambda folder: b"<!doctype html><title>404</title>"),
    "JSON": ("not-a-model", lambda folder: b'{"nodes": []}'),
    "a name that is not UTF-8": ("invalid-utf8", lambda folder: DATA.replace(b"Relu", b"\xff\xff\xff\xff")),
    "messages nested too deeply": ("nesting-too-deep", lambda folder: nested(120)),
}

EXTERNAL: dict[str, tuple[str, Source, dict[str, str]]] = {
    "no file of data": ("external-data-not-found", lambda folder: None, {"location": "w.bin"}),
    "a symbolic link": (
        "external-data-link",
        lambda folder: (folder / "w.bin").symlink_to("/dev/zero"),
        {"location": "w.bin"},
    ),
    "data that is a folder": (
        "external-data-not-a-file",
        lambda folder: (folder / "w.bin").mkdir(),
        {"location": "w.bin"},
    ),
    "a pipe": ("external-data-not-a-file", lambda folder: os.mkfifo(folder / "w.bin"), {"location": "w.bin"}),
    "a file that is too short": (
        "external-data-range",
        lambda folder: (folder / "w.bin").write_bytes(bytes(6)),
        {"location": "w.bin"},
    ),
    "an offset beyond the end": (
        "external-data-range",
        lambda folder: (folder / "w.bin").write_bytes(bytes(8)),
        {"location": "w.bin", "offset": "4096"},
    ),
    "a length that is not the tensor's": (
        "external-data-length",
        lambda folder: (folder / "w.bin").write_bytes(bytes(8)),
        {"location": "w.bin", "length": "16"},
    ),
    "another digest": (
        "external-data-checksum",
        lambda folder: (folder / "w.bin").write_bytes(bytes(8)),
        {"location": "w.bin", "checksum": "0123"},
    ),
    "the folder above": ("external-data-location", lambda folder: None, {"location": "../w.bin"}),
    "a name of data that is too long": ("external-data-unreadable", lambda folder: None, {"location": "x" * 300}),
}

CODES = {name: row[0] for table in (FILES, EXTERNAL) for name, row in table.items()}


def found(name: str, folder: Path) -> Diagnostic:
    """The only finding about one of them."""
    source: object
    if name in FILES:
        source = FILES[name][1](folder)
    else:
        _, prepare, entries = EXTERNAL[name]
        prepare(folder)
        source = with_external_data(folder, entries)
    (finding,) = onnxc.check(source)  # type: ignore[arg-type]
    return finding


@pytest.mark.parametrize("name", CODES)
def test_what_is_no_model_is_told_in_full(name: str, tmp_path: Path) -> None:
    finding = found(name, tmp_path)
    assert (finding.severity, finding.code) == ("error", CODES[name])
    text = str(finding).replace(str(tmp_path), "FOLDER")
    assert text == read_messages(MESSAGES).get(name), f"look at the change, then run `{COMMAND}`"


def test_nothing_is_recorded_that_is_not_tested() -> None:
    assert list(read_messages(MESSAGES)) == list(CODES)


def record() -> dict[str, str]:
    messages = {}
    for name in CODES:
        with TemporaryDirectory() as folder:
            messages[name] = str(found(name, Path(folder))).replace(folder, "FOLDER")
    return messages


if __name__ == "__main__":
    write_messages(MESSAGES, record())
    sys.stdout.write(f"{len(CODES)} messages, {len(set(CODES.values()))} codes\n")
