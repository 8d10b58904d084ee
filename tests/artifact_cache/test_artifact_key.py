"""Keys of artifacts: equal for what compiles to the same, different for whatever else, none where nobody can tell."""

import io
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.compiler.artifact_cache import compiler_identity as identity_module
from onnxc.compiler.artifact_cache.artifact_key import artifact_key
from onnxc.compiler.artifact_cache.compiler_identity import compiler_identity
from onnxc.compiler.frontend.custom.operators import CustomOperator
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.options import CompileOptions, ModelSource, make_options
from tests.support.models import model_from_text

MODEL = '<ir_version: 8, opset_import: ["": 17]> m (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }'
OUTSIDE = """<ir_version: 8, opset_import: ["": 17]> m (float[N, 4] x) => (float[N, 4] y)
  <float[4] w = ["location": "w.bin"]> { y = Add (x, w) }"""
MOST_BYTES = 1 << 30


def function(factor: str) -> CustomOperator:
    text = f"""<domain: "my.ops", opset_import: ["": 17]> Scaled (x) => (y) {{
        f = Constant <value_float = {factor}> ()
        y = Mul (x, f)
    }}"""
    return onnxc.custom_operator(function=onnx.parser.parse_function(text))


# What changes the key, by the fields of the options; threads and the folder change nothing that is kept.
CHANGES: Mapping[str, list[dict[str, object]]] = {
    "target": [{"target": name} for name in ("cpu:x86-64-v2", "cpu:znver2", "cpu:x86-64-v4+avx512vnni", "cuda:sm_90")],
    "inputs": [
        {"dims": {"N": 3}}, {"dims": {"N": (3, None)}}, {"dims": {"N": (3, 4)}}, {"shapes": {"x": (2, 4)}},
        {"shapes": {"x": ("2", 4)}}, {"dtypes": {"x": "f16"}}, {"dtypes": "f16"}, {"freeze_params": False},
        {"strict": True},
    ],
    "limits": [{"limits": {"nesting_depth": 20}}, {"limits": {"nesting_depth": 21}}],
    "precision": [{"precision": "bf16"}, {"precision": "fp16"}],
    "specialize": [{"specialize": {"N": [1]}}, {"specialize": {"N": [1, 2]}}, {"specialize": {"N": [2, 1]}}],
    "operators": [{"operators": [function("2.0")]}, {"operators": [function("3.0")]}],
    "allow_links": [{"allow_links": True}],
    "config": [{"config": "a"}, {"config": "b"}],
    "devices": [{"config": "a", "devices": "cpu:2"}, {"config": "a", "devices": "cpu:4"}],
    "opset": [{"opset": 17}],
    "microbatches": [{"config": "a", "microbatches": 1}, {"config": "a", "microbatches": 2}],
    "local_outputs": [{"config": "a", "outputs": "local"}],
}  # fmt: skip


def key_of(source: ModelSource, kind: str = "model", most_bytes: int = MOST_BYTES, **options: object) -> str | None:
    made = make_options(**options)  # type: ignore[arg-type]
    return artifact_key(read_model(source, allow_links=made.allow_links), made, kind, most_bytes)


def test_every_option_that_is_compiled_with_is_in_the_key() -> None:
    assert {field.name for field in fields(CompileOptions)} == {*CHANGES, "threads", "cache"}
    model = model_from_text(MODEL)
    keys = [key_of(model), *(key_of(model, **change) for changes in CHANGES.values() for change in changes)]
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_threads_and_the_folder_are_not_in_the_key(tmp_path: Path) -> None:
    model = model_from_text(MODEL)
    assert key_of(model, threads=1, cache=tmp_path) == key_of(model, threads=2, cache=False) == key_of(model)


def test_a_model_is_its_bytes_wherever_they_come_from(tmp_path: Path) -> None:
    data = model_from_text(MODEL).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    (tmp_path / "other.onnx").write_bytes(data)
    sources: list[ModelSource] = [tmp_path / "m.onnx", tmp_path / "other.onnx", data, io.BytesIO(data)]
    assert len({key_of(source) for source in sources}) == 1
    assert key_of(model_from_text(MODEL.replace("Relu", "Abs"))) != key_of(data)


def test_what_is_made_of_a_model_is_in_the_key() -> None:
    assert key_of(model_from_text(MODEL), "decoder") != key_of(model_from_text(MODEL), "model")


def outside(folder: Path, values: list[float]) -> Path:
    """A model whose weights are in a file beside it."""
    path = folder / "m.onnx"
    path.write_bytes(model_from_text(OUTSIDE).SerializeToString())
    (folder / "w.bin").write_bytes(np.array(values, np.float32).tobytes())
    return path


def test_external_data_counts_by_its_content(tmp_path: Path) -> None:
    path = outside(tmp_path, [1, 2, 3, 4])
    first, status = key_of(path), (tmp_path / "w.bin").stat()
    outside(tmp_path, [1, 2, 3, 5])
    os.utime(tmp_path / "w.bin", ns=(status.st_atime_ns, status.st_mtime_ns))
    changed = key_of(path)
    outside(tmp_path, [1, 2, 3, 4])
    os.utime(tmp_path / "w.bin", (1, 1))
    assert changed != first
    assert key_of(path) == first


def test_what_cannot_be_read_or_is_too_large_has_no_key(tmp_path: Path) -> None:
    path = outside(tmp_path, [1, 2, 3, 4])
    size = path.stat().st_size + 16
    assert key_of(path, most_bytes=size) is not None
    assert key_of(path, most_bytes=size - 1) is None
    (tmp_path / "w.bin").rename(tmp_path / "elsewhere")
    assert key_of(path) is None
    (tmp_path / "w.bin").symlink_to(tmp_path / "elsewhere")
    assert key_of(path) is None
    assert key_of(path, allow_links=True) is not None


def test_functions_of_python_are_not_known_by_anything() -> None:
    operator = onnxc.custom_operator(
        "Same", "my.ops", inputs=["x"], outputs=["y"], build=lambda node, ir: node.input("x")
    )
    assert key_of(model_from_text(MODEL), operators=[operator]) is None
    with onnxc.register(operator):
        assert key_of(model_from_text(MODEL)) is None
    assert key_of(model_from_text(MODEL)) is not None


def test_the_sources_of_the_compiler_count_by_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity(name: str, text: str) -> str:
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        for part in ("compiler", "runtime"):
            (root / part / "__pycache__").mkdir(parents=True)
        (root / "compiler" / "__pycache__" / "a.pyc").write_text(root.name)
        (root / "compiler" / name).write_text(text)
        os.utime(root / "compiler" / name, (1, 1))
        monkeypatch.setattr(identity_module, "_ROOT", root)
        return compiler_identity.__wrapped__()

    first = identity("a.py", "1")
    assert identity("a.py", "1") == first
    assert identity("a.py", "2") != first
    assert identity("b.py", "1") != first


@pytest.mark.parametrize("change", ["_versions", "host_features", "host_architecture"])
def test_what_the_compiler_computes_with_counts(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiler_identity.__wrapped__()
    monkeypatch.setattr(identity_module, change, lambda *_: "another")
    assert compiler_identity.__wrapped__() != before
