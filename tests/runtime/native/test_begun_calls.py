"""Calls that go on beside the thread that began them: their outputs, their errors, and what is not begun."""

import gc
import os
import threading
import time

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import BegunCall, Executable

SECONDS = 20

BRANCH = """g (bool c, float[n] x) => (float[n] y) {
    y = If(c) <then_branch = t () => (float[n] a) { a = Exp(x) }, else_branch = e () => (float[n] b) { b = Neg(x) }>
}"""


def compiled(text: str, threads: int = 1) -> Executable:
    header = '<ir_version: 8, opset_import: ["" : 17]> '
    return onnxc.compile(onnx.parser.parse_model(header + text), cache=False, threads=threads)


@pytest.fixture(scope="module")
def products() -> Executable:
    return compiled(
        "g (float[n, k] x, float[k, m] w) => (float[n, m] y, float[k, m] v) { y = MatMul(x, w) v = Neg(w) }"
    )


def waited(call: BegunCall | None) -> dict[str, np.ndarray]:
    assert call is not None
    last = time.monotonic() + SECONDS
    while not call.has_ended():
        assert time.monotonic() < last
    return call.outputs()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (0, 4, 5), (300, 64, 200)])
def test_outputs_are_those_of_a_call(shape: tuple[int, int, int], threads: int) -> None:
    executable = compiled("g (float[n, k] x, float[k, m] w) => (float[n, m] y) { y = MatMul(x, w) }", threads)
    begin = executable.begin_calls()
    assert begin is not None
    n, k, m = shape
    rng = np.random.default_rng(0)
    feed = {"x": rng.standard_normal((n, k), np.float32), "w": rng.standard_normal((k, m), np.float32)}
    for _ in range(3):
        outputs = waited(begin(feed))
        assert outputs.keys() == {"y"}
        np.testing.assert_array_equal(outputs["y"], executable.run(feed)["y"])


def test_one_goes_on_at_a_time_until_its_outputs_were_asked_for(products: Executable) -> None:
    begin = products.begin_calls()
    assert begin is not None
    x, w = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    first = begin({"x": x, "w": w})
    assert first is not None
    assert begin({"x": x, "w": w}) is None
    outputs = first.outputs()
    np.testing.assert_array_equal(outputs["y"], x @ w)
    np.testing.assert_array_equal(outputs["v"], -w)
    assert begin({"x": x, "w": w}) is not None


def test_many_in_turn_after_short_and_long_pauses(products: Executable) -> None:
    begin = products.begin_calls()
    assert begin is not None
    for k in range(300):
        feed = {"x": np.full((2, 1 + k % 3), k, np.float32), "w": np.full((1 + k % 3, 2), k, np.float32)}
        np.testing.assert_array_equal(waited(begin(feed))["y"], feed["x"] @ feed["w"])
        # Beyond 50 us the thread sleeps.
        time.sleep((k % 7) * 2e-5)


def test_what_goes_in_is_kept_until_the_call_has_ended() -> None:
    executable = compiled("g (float[n, n] x) => (float[n, n] y) { a = MatMul(x, x) y = MatMul(a, x) }")
    begin = executable.begin_calls()
    assert begin is not None
    want = executable.run({"x": np.eye(700, dtype=np.float32)})["y"]
    call = begin({"x": np.eye(700, dtype=np.float32)})
    others = [np.full((700, 700), 7, np.float32) for _ in range(20)]
    np.testing.assert_array_equal(waited(call)["y"], want)
    assert len(others) == 20


def test_errors_are_those_of_a_call() -> None:
    executable = compiled("g (float[n] x, int64[m] i) => (float[m] y) { y = Gather(x, i) }")
    begin = executable.begin_calls()
    assert begin is not None
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(InputError) as wanted:
        executable.run({"x": x, "i": np.array([1, 9])})
    call = begin({"x": x, "i": np.array([1, 9])})
    assert call is not None
    with pytest.raises(InputError) as problem:
        call.outputs()
    assert str(problem.value) == str(wanted.value)
    with pytest.raises(InputError, match="expected f32"):
        begin({"x": np.zeros(4), "i": np.array([1])})
    np.testing.assert_array_equal(waited(begin({"x": x, "i": np.array([3, 0])}))["y"], [3, 0])


@pytest.mark.parametrize(
    "text",
    [
        "g (float[n] x) => (int64[1, m] y) { y = NonZero(x) }",
        "g (string[n] x) => (string[n] y) { y = Identity(x) }",
        BRANCH,
    ],
    ids=["sizes that data decides", "texts", "a branch"],
)
def test_what_is_not_native_code_alone_is_not_begun(text: str) -> None:
    executable = compiled(text)
    assert executable.begin_calls() is None


def test_calls_are_counted(products: Executable) -> None:
    begin = products.begin_calls()
    assert begin is not None
    before = products.stats
    waited(begin({"x": np.ones((2, 3), np.float32), "w": np.ones((3, 4), np.float32)}))
    assert products.stats.calls == before.calls + 1
    assert products.stats.launches == before.launches + 1


def native_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "onnxc native"}


def test_the_thread_begins_with_the_first_call_and_ends_with_what_begins_them(products: Executable) -> None:
    gc.collect()
    before = native_threads()
    begin = products.begin_calls()
    assert begin is not None
    assert native_threads() <= before
    waited(begin({"x": np.ones((2, 3), np.float32), "w": np.ones((3, 4), np.float32)}))
    (thread,) = native_threads() - before
    del begin
    gc.collect()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_a_call_that_nobody_waits_for_harms_nobody() -> None:
    executable = compiled("g (float[n, n] x) => (float[n, n] y) { a = MatMul(x, x) y = MatMul(a, x) }")
    for _ in range(5):
        begin = executable.begin_calls()
        assert begin is not None
        begin({"x": np.eye(500, dtype=np.float32)})
        del begin
        gc.collect()
    np.testing.assert_array_equal(executable.run({"x": np.eye(3, dtype=np.float32)})["y"], np.eye(3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_in_the_child_of_a_fork_there_is_a_thread_of_its_own(products: Executable) -> None:
    begin = products.begin_calls()
    assert begin is not None
    feed = {"x": np.ones((2, 3), np.float32), "w": np.ones((3, 4), np.float32)}
    waited(begin(feed))
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(waited(begin(feed))["y"], feed["x"] @ feed["w"]) else 1)
    assert os.waitpid(child, 0)[1] == 0
