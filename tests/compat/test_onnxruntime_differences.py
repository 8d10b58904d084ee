"""Where onnxc's face of ONNX Runtime differs from it: what is refused, what is warned of, what carries our codes."""

from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as their_state

import onnxc.compat.onnxruntime as ort
import onnxc.compat.onnxruntime.capi.onnxruntime_pybind11_state as our_state
from onnxc.compat.onnxruntime.absent import ABSENT, ABSENT_ATTRIBUTES
from onnxc.compat.onnxruntime.capi._pybind_state import InvalidArgument, InvalidGraph, NoSuchFile, NotImplemented
from onnxc.runtime.errors import OnnxcError
from tests.support.models import model_from_text

TEXT = '<ir_version: 8, opset_import: ["": 17]> g (float[n] x, float[n] z) => (float[n] y) { y = Add (x, z) }'


@pytest.fixture
def opened() -> ort.InferenceSession:
    return ort.InferenceSession(model_from_text(TEXT).SerializeToString())


def test_unknown_options_are_accepted_with_a_warning() -> None:
    options = ort.SessionOptions()
    with pytest.warns(UserWarning, match="no option 'nobody'"):
        options.nobody = 3  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match="no option 'else_where'"):
        ort.InferenceSession(model_from_text(TEXT).SerializeToString(), options, else_where=1)


def test_an_error_has_ours_as_its_cause(opened: ort.InferenceSession, tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile) as missing:
        ort.InferenceSession(tmp_path / "none.onnx")
    with pytest.raises(InvalidGraph) as wrong:
        ort.InferenceSession(model_from_text(TEXT.replace("(x, z)", "(x, q)")).SerializeToString())
    one, two = np.ones(1, np.float32), np.ones(2, np.float32)
    with pytest.raises(InvalidArgument) as sizes:
        opened.run(None, {"x": one, "z": two})
    codes = [each.value.__cause__ for each in (missing, wrong, sizes)]
    assert [each.code for each in codes if isinstance(each, OnnxcError)] == [
        "file-not-found",
        "undefined-name",
        "sizes-disagree",
    ]


def test_what_is_not_supported_says_so(opened: ort.InferenceSession) -> None:
    options = ort.SessionOptions()
    for call in (lambda: options.register_custom_ops_library("library.so"),):
        with pytest.raises(NotImplemented, match="NOT_IMPLEMENTED"):
            call()
    with pytest.raises(TypeError, match="expected a mapping"):
        opened.run(None, [np.ones(1, np.float32)])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="on the CPU here"):
        opened.io_binding().bind_output("y", "cuda")


def test_a_session_is_compiled_by_its_first_run(opened: ort.InferenceSession, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    real = ort.session.onnxc.compile
    monkeypatch.setattr("onnxc.compile", lambda *given, **named: (compiled.append(given), real(*given, **named))[1])
    assert (opened.get_outputs()[0].shape, len(compiled)) == (["n"], 0)
    for size in (1, 2):
        opened.run(None, {"x": np.ones(size, np.float32), "z": np.ones(size, np.float32)})
    assert len(compiled) == 1


@pytest.mark.skipif(not onnxruntime.__version__.startswith("1.32."), reason="the lists are of version 1.32")
def test_each_name_is_here_or_in_a_list() -> None:
    """Modules are none of them: which are attributes depends on what has been imported."""
    for theirs, ours in ((onnxruntime, ort), (their_state, our_state)):
        values = {name for name in _public(theirs) if not isinstance(getattr(theirs, name), ModuleType)}
        assert values - set(dir(ours)) <= ABSENT.keys(), theirs.__name__
    for name in ("InferenceSession", "SessionOptions", "RunOptions", "IOBinding", "OrtValue", "OrtArenaCfg"):
        kind = getattr(ort, name)
        there = {*_public(kind), *getattr(kind, "_defaults", ()), *getattr(kind, "_NAMES", ())}
        assert _public(getattr(onnxruntime, name)) - there <= ABSENT_ATTRIBUTES.keys(), name


def _public(owner: object) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def test_what_is_not_here_says_why(opened: ort.InferenceSession) -> None:
    for module in (ort, our_state):
        for name in ABSENT:
            with pytest.raises(AttributeError, match=r"has no attribute .*: "):
                getattr(module, name)
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
            _ = module.nothing
    for name in ABSENT_ATTRIBUTES:
        with pytest.raises(AttributeError, match=r"has no attribute .*: "):
            getattr(opened if name.startswith("get_") else ort.SessionOptions(), name)
    with pytest.raises(AttributeError, match=r"'InferenceSession' has no attribute 'nothing'$"):
        _ = opened.nothing
