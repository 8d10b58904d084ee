"""Pickling and copying executables: by the file of their artifact while it is the same, else by its bytes."""

import copy
import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import DeviceError, InputError, MissingFileError, OnnxcError, UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import load, make_executable
from tests.runtime.programs import AFFINE, BIAS, SCALE, artifact
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

X = np.array([1.0, -2.0, 0.5], np.float32)
Y = X * np.float32(SCALE) + np.float32(BIAS)
WEIGHTS = np.arange(50_000, dtype=np.float32)


def compiled() -> Executable:
    return make_executable(artifact(AFFINE, WEIGHTS), threads=1)


def call(executable: Executable) -> np.ndarray:
    return np.asarray(executable(X))


def call_wrongly(executable: Executable) -> np.ndarray:
    return np.asarray(executable(X, X))


@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy, lambda exe: pickle.loads(pickle.dumps(exe))])
def test_a_copy_does_what_the_executable_does(made: "type[Executable]", tmp_path: Path) -> None:
    first = compiled()
    for exe in (first, load_saved(first, tmp_path / "a")):
        again = made(exe)  # type: ignore[call-arg,arg-type]
        assert_same(call(again), Y)
        assert (again.inputs, again.report()) == (exe.inputs, exe.report())
        # A copy can be copied, and saved.
        assert_same(call(pickle.loads(pickle.dumps(again))), Y)
        again.save(tmp_path / "b")
        first.save(tmp_path / "c")
        assert (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def load_saved(exe: Executable, path: Path) -> Executable:
    exe.save(path)
    return load(path, "resident", threads=1)


def test_what_lies_in_a_file_is_pickled_by_its_path(tmp_path: Path) -> None:
    exe = compiled()
    assert len(pickle.dumps(exe)) > WEIGHTS.nbytes
    loaded = load_saved(exe, tmp_path / "a")
    for each in (exe, loaded):
        assert len(pickle.dumps(each)) < 2000


@pytest.mark.parametrize("change", ["another", "gone", "cut", "a folder"])
def test_a_file_that_changed_is_not_referred_to(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a"
    exe = load_saved(compiled(), path)
    data = pickle.dumps(exe)
    path.rename(tmp_path / "old")
    if change == "another":
        make_executable(artifact(AFFINE, WEIGHTS + 1)).save(path)
    elif change == "cut":
        path.write_bytes((tmp_path / "old").read_bytes()[:-1])
    elif change == "a folder":
        path.mkdir()
    assert len(pickle.dumps(exe)) > WEIGHTS.nbytes
    assert_same(call(pickle.loads(pickle.dumps(exe))), Y)
    with pytest.raises(OnnxcError) as refused:
        pickle.loads(data)
    codes = {"gone": "file-not-found", "a folder": "not-a-plain-file"}
    assert refused.value.code == codes.get(change, "artifact-changed")


def test_an_executable_of_the_interpreter_says_that_it_has_no_code() -> None:
    text = '<ir_version: 9, opset_import: ["": 20]> g (float[N] x) => (float[N] y) { y = Neg(x) }'
    exe = onnxc.compile(model_from_text(text), "interpreter")
    for made in (pickle.dumps, copy.deepcopy):
        with pytest.raises(UnsupportedError, match="saved, pickled or copied") as refused:
            made(exe)
        assert refused.value.code == "no-artifact"


def test_spawned_processes_take_executables_and_give_back_errors(tmp_path: Path) -> None:
    unsaved, saved = compiled(), load_saved(compiled(), tmp_path / "a")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for y in pool.map(call, [unsaved, saved]):
            assert_same(y, Y)
        with pytest.raises(InputError) as refused:
            pool.apply(call_wrongly, (saved,))
    assert refused.value.code == "input-count"


@pytest.mark.parametrize(
    "error", [InputError("wrong", code="a-code"), DeviceError("lost", code="b-code"), MissingFileError("no", path="p")]
)
def test_errors_are_pickled_with_all_that_they_say(error: OnnxcError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, str(again)) == (type(error), error.code, str(error))
    if isinstance(error, MissingFileError):
        assert (again.filename, again.errno) == (error.filename, error.errno)
