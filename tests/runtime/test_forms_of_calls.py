"""Calls in the forms that people know from elsewhere: by name, ONNX Runtime's run, futures, coroutines, notebooks."""

import asyncio
import os
import threading

import numpy as np
import pytest

import onnxc
from onnxc.runtime.executable import Executable
from tests.support.models import model_from_text

AFFINE = """
<ir_version: 8, opset_import: ["" : 17]>
affine (float[N, 3] x, float[N, 3] b) => (float[N, 3] y, float[N, 3] z) {
   y = Sub (x, b)
   z = Mul (x, b)
}
"""
ONE = """
<ir_version: 8, opset_import: ["" : 17]>
one (float[N] x) => (float[N] y) { y = Neg (x) }
"""
X = np.array([[1, 2, 3]], np.float32)
B = np.array([[3, 5, 7]], np.float32)
Y, Z = X - B, X * B


@pytest.fixture(scope="module", params=["cpu", "interpreter"])
def exe(request: pytest.FixtureRequest) -> Executable:
    return onnxc.compile(model_from_text(AFFINE), request.param)


def test_inputs_may_come_by_name_all_or_behind_the_others(exe: Executable) -> None:
    for outputs in (exe(x=X, b=B), exe(X, b=B), exe(b=B, x=X), exe(X, B)):
        np.testing.assert_array_equal(outputs, (Y, Z))


@pytest.mark.parametrize(
    ("inputs", "named", "code"),
    [
        ((X,), {"x": X}, "input-twice"),
        ((X, B), {"b": B}, "input-twice"),
        ((X, B, B), {"b": B}, "input-count"),
        ((X,), {"c": B}, "unknown-input"),
        ((), {"x": X}, "missing-input"),
    ],
)
def test_what_is_wrong_with_names(
    exe: Executable, inputs: tuple[np.ndarray, ...], named: dict[str, np.ndarray], code: str
) -> None:
    with pytest.raises(onnxc.InputError) as refused:
        exe(*inputs, **named)
    assert refused.value.code == code


def test_run_as_onnx_runtime_has_it(exe: Executable) -> None:
    feeds = {"x": X, "b": B}
    np.testing.assert_array_equal(exe.run(None, feeds), [Y, Z])
    np.testing.assert_array_equal(exe.run(["z", "y"], feeds), [Z, Y])
    np.testing.assert_array_equal(exe.run(("z",), feeds), [Z])
    assert exe.run([], feeds) == []
    np.testing.assert_array_equal(exe.run(feeds)["z"], Z)


@pytest.mark.parametrize(
    ("names", "feeds", "code"),
    [
        (["w"], {"x": X, "b": B}, "unknown-output"),
        ("y", {"x": X, "b": B}, "input-mapping"),
        (None, [X, B], "input-mapping"),
        (3, {"x": X, "b": B}, "input-mapping"),
        ([X, B], None, "input-mapping"),
        ([["y"]], {"x": X, "b": B}, "unknown-output"),
    ],
)
def test_what_is_wrong_with_a_list_of_outputs(exe: Executable, names: object, feeds: object, code: str) -> None:
    with pytest.raises(onnxc.InputError) as refused:
        exe.run(names, feeds)  # type: ignore[call-overload]
    assert refused.value.code == code


def test_a_submitted_call_runs_in_another_thread_and_gives_what_a_call_gives(exe: Executable) -> None:
    futures = [exe.submit(X + k, b=B) for k in range(20)]
    for k, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(timeout=30), (X + k - B, (X + k) * B))
    assert any(thread.name.startswith("onnxc-call") for thread in threading.enumerate())
    problem = exe.submit(X).exception(timeout=30)
    assert isinstance(problem, onnxc.InputError)


def test_coroutines_wait_for_calls(exe: Executable) -> None:
    async def all_of_them() -> list[object]:
        return await asyncio.gather(*(exe.arun(X + k, B) for k in range(5)), exe.arun(X), return_exceptions=True)

    *results, problem = asyncio.run(all_of_them())
    for k, outputs in enumerate(results):
        np.testing.assert_array_equal(outputs, (X + k - B, (X + k) * B))
    assert isinstance(problem, onnxc.InputError)


def test_a_forked_child_submits_calls_in_threads_of_its_own() -> None:
    exe = onnxc.compile(model_from_text(ONE), threads=1)
    exe.submit(X[0]).result(timeout=30)
    child = os.fork()
    if child == 0:
        same = np.array_equal(exe.submit(X[0]).result(timeout=30), -X[0])
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_input_may_have_any_name() -> None:
    text = ONE.replace(" x)", " self)").replace("(x)", "(self)")
    exe = onnxc.compile(model_from_text(text), threads=1)
    np.testing.assert_array_equal(exe(self=X[0]), -X[0])
    np.testing.assert_array_equal(exe.submit(self=X[0]).result(timeout=30), -X[0])


def test_notebooks_show_signatures_and_reports_as_tables() -> None:
    exe = onnxc.compile(model_from_text(ONE), threads=1)
    shown = exe._repr_html_()
    assert "<td>input</td><td>x</td><td>f32[N]</td>" in shown
    report = exe.report()
    assert isinstance(report, dict)
    assert "<td>pointwise</td>" in report._repr_html_()


def test_names_in_tables_are_no_markup() -> None:
    model = model_from_text(ONE)
    model.graph.output[0].name = model.graph.node[0].output[0] = "<b>&"
    exe = onnxc.compile(model, threads=1)
    assert "<b>" not in exe._repr_html_()
    assert "&lt;b&gt;&amp;" in exe._repr_html_()


def test_what_there_is() -> None:
    assert {"compile", "load", "InputError", "__version__"} <= set(dir(onnxc))
    assert not [name for name in dir(onnxc) if name.startswith("_") and name != "__version__"]
    assert onnxc.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="no attribute 'sesion'"):
        onnxc.sesion  # noqa: B018


def test_a_missing_file_is_a_file_not_found_error() -> None:
    for open_it in (onnxc.compile, onnxc.load, onnxc.verify):
        with pytest.raises(FileNotFoundError, match="file-not-found"):
            open_it("no/such.onnx")
