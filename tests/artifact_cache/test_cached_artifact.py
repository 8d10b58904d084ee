"""Models compiled again: what comes from the cache is what was compiled, whatever happens to the folder meanwhile."""

import os
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import onnxc
from onnxc.command_line.main import main
from onnxc.compiler import driver
from onnxc.compiler.artifact_cache import artifact_folder, cached_artifact
from onnxc.compiler.artifact_cache.artifact_folder import ArtifactFolder
from onnxc.compiler.driver import compile_model
from onnxc.compiler.options import make_options
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.executable import Executable
from tests.decoding.models import summing
from tests.support.models import model_from_text, value_info

HEADER = '<ir_version: 8, opset_import: ["": 17], metadata_props: ["names": "a,b"]>'
MODEL = f"""{HEADER} m (float[N, 4] x) => (float[N, 4] y)
  <float[4] w = {{1, 2, 3, 4}}> {{ p = Mul (x, w) y = Softmax (p) }}"""
MODELS = {
    "kernels": MODEL,
    "a branch": f"""{HEADER} m (float[N, 4] x) => (float[N, 4] y) {{
      s = ReduceSum <keepdims = 0> (x) z = Constant <value_float = 0.0> () c = Greater (s, z)
      y = If (c) <then_branch = t () => (float[N, 4] a) {{ a = Relu (x) }},
                  else_branch = e () => (float[N, 4] b) {{ b = Abs (x) }}>
    }}""",
    "a host step": f"{HEADER} m (float[N, 4] x) => (string[N, 4] y) {{ y = Cast <to = 8> (x) }}",
    "no weights": f"{HEADER} m (float[N, 4] x) => (float[N, 4] y) {{ y = Identity (x) }}",
}
WRONG = f"{HEADER} m (float[N, 4] x) => (float[N, 5] y) {{ y = Relu (x) }}"
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def all_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast it was compiled."""
    monkeypatch.setattr(cached_artifact, "LEAST_SECONDS", 0.0)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models that are really compiled from here on."""
    names: list[str] = []

    def counted(source: object, options: object) -> object:
        artifact = compile_model(source, options)  # type: ignore[arg-type]
        names.append(str(artifact.provenance["model"]))
        return artifact

    monkeypatch.setattr(driver, "compile_model", counted)
    return names


def kept(folder: Path) -> list[Path]:
    """The files of artifacts in a cache, and whatever else is beside them."""
    return sorted((folder / "artifacts").glob("*"))


def expect_same(one: Executable, other: Executable, folder: Path) -> None:
    """Whether all that a user sees of two executables is equal, the bytes of their files too."""
    for name, executable in (("one", one), ("other", other)):
        executable.save(folder / f"{name}.onnxc")
    assert (folder / "one.onnxc").read_bytes() == (folder / "other.onnxc").read_bytes()
    assert one.report() == other.report()
    assert (one.inputs, one.outputs, one.frozen_inputs) == (other.inputs, other.outputs, other.frozen_inputs)
    assert (one.metadata, one.stats.compilations) == (other.metadata, other.stats.compilations)
    assert repr(one) == repr(other)


@pytest.mark.parametrize("name", MODELS)
def test_a_hit_is_what_was_compiled(name: str, tmp_path: Path, compiled: list[str]) -> None:
    model, cache = model_from_text(MODELS[name]), tmp_path / "cache"
    without, cold = onnxc.compile(model, cache=False), onnxc.compile(model, cache=cache)
    assert compiled == ["m", "m"]
    warm = onnxc.compile(model, cache=cache)
    assert compiled == ["m", "m"]
    expect_same(cold, warm, tmp_path)
    expect_same(without, warm, tmp_path)
    np.testing.assert_array_equal(np.asarray(warm(X)), np.asarray(cold(X)))
    assert warm.metadata == {"names": "a,b"}


def test_a_model_for_several_devices_is_kept_with_their_shares(tmp_path: Path) -> None:
    weights = [numpy_helper.from_array(np.eye(8, dtype=np.float32) * k, f"w{k}") for k in (2, 3)]
    nodes = [helper.make_node("MatMul", [a, w], [b]) for a, w, b in (("x", "w2", "h"), ("h", "w3", "y"))]
    graph = helper.make_graph(
        nodes, "g", [value_info("x", np.float32, [2, 8])], [value_info("y", np.float32, [2, 8])], weights
    )
    model = onnxc.shard(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=11), tp=2)
    caches = (tmp_path / "cache", tmp_path / "cache", False)
    cold, warm, without = (onnxc.compile(model, config="tp2", cache=cache) for cache in caches)
    assert len(kept(tmp_path / "cache")) == 1
    expect_same(cold, warm, tmp_path)
    expect_same(without, warm, tmp_path)
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    np.testing.assert_array_equal(warm(x), 6 * x)


def test_a_decoder_is_kept_apart_from_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, cache = model_from_text(summing()), tmp_path / "cache"
    onnxc.compile(model, cache=cache)
    cold = onnxc.compile_decoder(model, cache=cache)
    assert len(kept(cache)) == 2
    monkeypatch.setattr("onnxc.compiler.compile_decoder.decoder_artifact", None)
    warm = onnxc.compile_decoder(model, cache=cache)
    for name, decoder in (("cold", cold), ("warm", warm)):
        decoder.save(tmp_path / name)
    assert (tmp_path / "cold").read_bytes() == (tmp_path / "warm").read_bytes()
    assert [*cold.generate([1, 2], 4)] == [*warm.generate([1, 2], 4)]


def test_another_model_or_other_options_are_compiled(tmp_path: Path, compiled: list[str]) -> None:
    onnxc.compile(model_from_text(MODEL), cache=tmp_path)
    onnxc.compile(model_from_text(MODEL.replace("1, 2", "1, 3")), cache=tmp_path)
    exe = onnxc.compile(model_from_text(MODEL), dims={"N": 3}, cache=tmp_path)
    assert len(compiled) == len(kept(tmp_path)) == 3
    assert [str(info) for info in exe.inputs] == ["x: f32[3, 4]"]


def test_a_weight_in_another_file_is_seen_when_it_changes(tmp_path: Path, compiled: list[str]) -> None:
    text = f'{HEADER} m (float[N, 4] x) => (float[N, 4] y) <float[4] w = ["location": "w"]> {{ y = Mul (x, w) }}'
    (tmp_path / "m.onnx").write_bytes(model_from_text(text).SerializeToString())
    for factor in (2, 3, 3):
        np.full(4, factor, np.float32).tofile(tmp_path / "w")
        exe = onnxc.compile(tmp_path / "m.onnx", cache=tmp_path / "cache")
        np.testing.assert_array_equal(exe(X), X * np.float32(factor))
    assert len(compiled) == 2


def test_what_changes_while_it_is_compiled_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(source: object, options: object) -> object:
        np.full(4, 3, np.float32).tofile(tmp_path / "w")
        return compile_model(source, options)  # type: ignore[arg-type]

    text = f'{HEADER} m (float[N, 4] x) => (float[N, 4] y) <float[4] w = ["location": "w"]> {{ y = Mul (x, w) }}'
    (tmp_path / "m.onnx").write_bytes(model_from_text(text).SerializeToString())
    np.full(4, 2, np.float32).tofile(tmp_path / "w")
    monkeypatch.setattr(driver, "compile_model", late)
    exe = onnxc.compile(tmp_path / "m.onnx", cache=tmp_path / "cache")
    np.testing.assert_array_equal(exe(X), X * np.float32(3))
    assert not kept(tmp_path / "cache")


def test_warnings_are_given_again(tmp_path: Path, compiled: list[str]) -> None:
    texts = []
    for _ in range(2):
        with pytest.warns(onnxc.ModelWarning) as given:
            exe = onnxc.compile(model_from_text(WRONG), cache=tmp_path)
        texts.append([str(warning.message) for warning in given])
        assert [str(info) for info in exe.outputs] == ["y: f32[N, 4]"]
    assert len(compiled) == 1
    assert texts[0] == texts[1]
    assert texts[0][0].startswith("warning[declared-type]")
    with warnings.catch_warnings(action="error"), pytest.raises(onnxc.ModelWarning):
        onnxc.compile(model_from_text(WRONG), cache=tmp_path)


def test_an_error_is_raised_again(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(onnxc.ModelError, match="is declared"):
            onnxc.compile(model_from_text(WRONG), strict=True, cache=tmp_path)
    assert not kept(tmp_path)


def test_without_a_folder_nothing_is_kept(tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXC_CACHE", str(tmp_path))
    for _ in range(2):
        onnxc.compile(model_from_text(MODEL), cache=False)
    assert (len(compiled), kept(tmp_path)) == (2, [])


def test_what_is_compiled_at_once_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_artifact, "LEAST_SECONDS", float("inf"))
    onnxc.compile(model_from_text(MODEL), cache=tmp_path)
    assert not kept(tmp_path)


def test_operators_that_are_functions_of_python_are_compiled_each_time(tmp_path: Path) -> None:
    head = '<ir_version: 8, opset_import: ["": 17, "my.ops": 1]>'
    model = model_from_text(f"{head} m (float[N, 4] x) => (float[N, 4] y) {{ y = my.ops.F (x) }}")
    for name in ("abs", "neg"):
        operator = onnxc.custom_operator(
            "F", "my.ops", inputs=["x"], outputs=["y"],
            build=lambda node, ir, name=name: getattr(ir, name)(node.input("x")),  # type: ignore[misc]
        )  # fmt: skip
        exe = onnxc.compile(model, operators=[operator], cache=tmp_path)
        np.testing.assert_array_equal(exe(X), getattr(np, name.replace("neg", "negative"))(X))
    assert not kept(tmp_path)


def damaged(whole: bytes) -> list[bytes]:
    """The file with a bit changed in each of its members, a part of it, and what is none."""
    marks = (b'"format"', b'"steps"', b"\x7fELF", b"model_digest", np.float32([1, 2, 3, 4]).tobytes(), b"PK\1\2")
    offsets = [whole.index(mark) + 1 for mark in marks]
    changed = [whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :] for offset in offsets]
    return [*changed, b"", whole[:100], whole[:-1], bytes(len(whole)), whole[: len(whole) // 2]]


def test_a_damaged_artifact_is_compiled_again_and_replaced(tmp_path: Path, compiled: list[str]) -> None:
    expected = onnxc.compile(model_from_text(MODEL), cache=tmp_path)(X)
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    for count, data in enumerate(damaged(whole), 2):
        file.write_bytes(data)
        exe = onnxc.compile(model_from_text(MODEL), cache=tmp_path)
        assert len(compiled) == count
        np.testing.assert_array_equal(exe(X), expected)
        assert file.read_bytes() == whole
    assert kept(tmp_path) == [file]


def test_a_kept_file_is_all_but_the_digest_of_a_saved_one(tmp_path: Path) -> None:
    exe = onnxc.compile(model_from_text(MODEL), cache=tmp_path)
    exe.save(tmp_path / "saved.onnxc")
    (file,) = kept(tmp_path)
    saved = (tmp_path / "saved.onnxc").read_bytes()
    assert file.read_bytes() == saved[:-64] + b"0" * 64
    with pytest.raises(DeviceError, match="its digest was not computed"):
        onnxc.verify(file)


def test_a_kept_file_is_not_taken_for_another_by_its_digest(tmp_path: Path) -> None:
    onnxc.compile(model_from_text(MODEL), cache=tmp_path)
    (file,) = kept(tmp_path)
    exe = onnxc.load(file)
    sent = pickle.dumps(exe)
    file.unlink()
    np.testing.assert_array_equal(pickle.loads(sent)(X), exe(X))


def test_the_artifact_of_another_format_is_compiled_again(tmp_path: Path, compiled: list[str]) -> None:
    onnxc.compile(model_from_text(MODEL), cache=tmp_path)
    (file,) = kept(tmp_path)
    shutil.copyfile(__file__, file)
    onnxc.compile(model_from_text(MODEL), cache=tmp_path)
    assert len(compiled) == 2


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for _ in range(2):
        exe = onnxc.compile(model_from_text(MODEL), cache=tmp_path / "file" / "cache")
    assert exe(X).shape == (3, 4)


def test_a_folder_that_cannot_be_written_to_can_be_read(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "read-only")

    onnxc.compile(model_from_text(MODEL), cache=tmp_path)
    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    onnxc.compile(model_from_text(MODEL), cache=tmp_path)
    assert len(compiled) == 1
    exe = onnxc.compile(model_from_text(MODEL), dims={"N": 3}, cache=tmp_path)
    assert (len(compiled), len(kept(tmp_path)), exe(X).shape) == (2, 1, (3, 4))


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    options = make_options(cache=False)
    artifact = compile_model(model_from_text(MODEL), options)
    folder = ArtifactFolder(tmp_path)
    for ordinal in range(4):
        assert folder.store(f"{ordinal:064x}", artifact).file is not None
    size = kept(tmp_path)[0].stat().st_size
    for ordinal, file in enumerate(kept(tmp_path)):
        os.utime(file, (ordinal, ordinal))
    assert folder.load(f"{0:064x}") is not None
    (tmp_path / "artifacts" / ".dead.partial").write_bytes(bytes(size))
    os.utime(tmp_path / "artifacts" / ".dead.partial", (0, 0))
    ArtifactFolder(tmp_path, max_bytes=4 * size).store(f"{4:064x}", artifact)
    # Six do not fit; three are at most 0.8 of the bound.
    assert [int(file.stem, 16) for file in kept(tmp_path)] == [0, 3, 4]


def test_what_would_take_too_much_of_the_disk_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = compile_model(model_from_text(MODEL), make_options(cache=False))
    nbytes = artifact.weights.nbytes
    assert nbytes > 0
    usage = shutil.disk_usage(tmp_path)
    for free, count in ((10 * nbytes - 1, 0), (10 * nbytes, 1)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        ArtifactFolder(tmp_path).store("0" * 64, artifact)
        assert len(kept(tmp_path)) == count
    monkeypatch.setattr(artifact_folder, "MOST_BYTES", nbytes - 1)
    ArtifactFolder(tmp_path).store("1" * 64, artifact)
    assert len(kept(tmp_path)) == 1


def test_an_executable_is_pickled_without_the_cache(tmp_path: Path) -> None:
    for _ in range(2):
        exe = onnxc.compile(model_from_text(MODEL), cache=tmp_path / "cache")
    data = pickle.dumps(exe)
    shutil.rmtree(tmp_path / "cache")
    np.testing.assert_array_equal(pickle.loads(data)(X), exe(X))


def test_the_command_writes_the_artifact_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONNXC_CACHE", str(tmp_path / "cache"))
    model = model_from_text(MODEL)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    main(["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "cold")], standalone_mode=False)
    monkeypatch.setattr("onnxc.command_line.run_stages.run_until", None)
    main(["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "warm"), "--report"], standalone_mode=False)
    assert (tmp_path / "cold").read_bytes() == (tmp_path / "warm").read_bytes()
    assert "Softmax" in capsys.readouterr().out
    onnxc.compile(model, cache=False).save(tmp_path / "alone")
    assert (tmp_path / "cold").read_bytes() == (tmp_path / "alone").read_bytes()


PROCESS = """
import sys
import onnxc
from onnxc.compiler.artifact_cache import cached_artifact
cached_artifact.LEAST_SECONDS = 0.0
model, cache, saved = sys.argv[1:]
onnxc.compile(model, cache=cache).save(saved)
stages = ("llvmlite", "onnxc.compiler.driver", "onnxc.compiler.passes.pipeline", "onnxc.compiler.codegen_cpu")
print(*[name for name in stages if name in sys.modules])
"""


def test_processes_use_one_folder_and_need_no_compiler_for_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model_from_text(MODEL).SerializeToString())

    def started(name: str) -> "subprocess.Popen[str]":
        arguments = [str(tmp_path / part) for part in ("m.onnx", "cache", name)]
        command = [sys.executable, "-W", "error", "-c", PROCESS, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(onnxc.__file__).parents[1])

    cold = [started(f"cold{ordinal}") for ordinal in range(2)]
    for process in cold:
        process.communicate()
        assert process.returncode == 0
    warm = started("warm")
    assert warm.communicate()[0].split() == []
    assert len(kept(tmp_path / "cache")) == 1
    assert len({(tmp_path / name).read_bytes() for name in ("cold0", "cold1", "warm")}) == 1
