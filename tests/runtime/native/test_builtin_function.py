"""Native code called from Python: addresses stored in a frame, the status read, by the C function and by Python."""

import sys
import threading
import weakref

import numpy as np
import pytest

from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Reg
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.runtime.cpu import load_image
from onnxc.runtime.native import builtin_function
from onnxc.runtime.native.addresses import LAYOUT_IS_KNOWN
from onnxc.runtime.native.builtin_function import NativeCall, native_call
from onnxc.runtime.program import FRAME_STATUS
from tests.codegen_host.native import HOST, module, write

FRAME = [("ptr", "frame")]
WORDS = 16
STATUS = 15
# Of rounds of `wait_for`, about a second: a call that held the lock would end then, and have seen nothing.
ROUNDS = 1_000_000_000


def add_arrays(f: FunctionBuilder, frame: Reg) -> Reg:
    """i32: the array of word 9 becomes that of word 6 plus one; what word 11 points to is the status."""

    def array(word: int) -> Reg:
        return f.load("ptr", f.gep(frame, word, "i64"), 8)

    f.store(f.add(f.load("i32", array(6), 4), 1), array(9), 4)
    f.store(f.load("i64", array(11), 8), array(FRAME_STATUS), 8)
    return f.constant("i64", 7)


def wait_for(f: FunctionBuilder, frame: Reg) -> Reg:
    """Waits for the first word of the array of word 6; the second becomes the first."""
    words = f.load("ptr", f.gep(frame, 6, "i64"), 8)

    def is_waiting(round_: Reg) -> Reg:
        return f.and_(f.icmp("eq", f.atomic_load("i64", words), 0), f.icmp("slt", round_, ROUNDS))

    f.while_([0], is_waiting, lambda round_: (f.add(round_, 1),))
    f.store(f.atomic_load("i64", words), f.gep(words, 1, "i64"), 8)
    return f.constant("i64", 0)


IMAGE = load_image(
    build_image(
        [
            compile_object(
                module(
                    write("add_arrays", FRAME, add_arrays, returns="i64"),
                    write("wait_for", FRAME, wait_for, returns="i64"),
                    write("nothing", FRAME, lambda f, _: f.constant("i64", 1), returns="i64"),
                ),
                HOST,
            )
        ],
        ["add_arrays", "wait_for", "nothing"],
        HOST,
    )
)


def frame() -> np.ndarray:
    words = np.zeros(WORDS, np.int64)
    words[FRAME_STATUS] = words[STATUS:].ctypes.data
    return words


@pytest.fixture(params=["by the C function", "by Python"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by Python":
        monkeypatch.setattr(builtin_function, "LAYOUT_IS_KNOWN", False)


def called(entry: str, *words: int) -> NativeCall:
    return native_call(IMAGE, entry, words)


@pytest.mark.parametrize("status", [0, 1, 5, -1, 1 << 32])
def test_addresses_go_to_their_words_and_the_status_is_told(status: int) -> None:
    words, x, y = frame(), np.array([41, 3], np.int32), np.array([0, 3], np.int32)
    is_ill = called("add_arrays", 9, 6, 11)(words, y, x[:1], np.array(status, np.int64))
    assert is_ill is (status != 0)
    assert (y.tolist(), x.tolist(), words[STATUS]) == ([42, 3], [41, 3], status)
    assert [*words[[6, 9]]] == [x.ctypes.data, y.ctypes.data]
    assert not words[[5, 7, 8, 10, 12, 13, 14]].any()


def test_a_call_without_arrays() -> None:
    words = frame()
    assert called("nothing")(words) is False
    words[STATUS] = 2
    assert called("nothing")(words) is True


def test_more_arrays_than_a_call_of_python_once_took() -> None:
    words = np.zeros(400, np.int64)
    words[FRAME_STATUS] = words.ctypes.data
    arrays = [np.empty(k) for k in range(300)]
    call = native_call(IMAGE, "nothing", range(50, 350))
    assert call(words, *arrays) is False
    assert words[50:350].tolist() == [x.ctypes.data for x in arrays]


def test_what_is_given_keeps_its_references() -> None:
    call, words = called("nothing"), frame()
    counts = sys.getrefcount(True), sys.getrefcount(False)
    for status in (0, 1):
        words[STATUS] = status
        for _ in range(10_000):
            call(words)
    after = sys.getrefcount(True), sys.getrefcount(False)
    assert np.abs(np.subtract(after, counts)).max() < 1000


def test_other_threads_run_during_a_call() -> None:
    words = np.zeros(2, np.int64)
    call = called("wait_for", 6)
    thread = threading.Thread(target=lambda: words.__setitem__(0, 3))
    timer = threading.Timer(0.05, thread.start)
    timer.start()
    call(frame(), words)
    timer.join()
    thread.join()
    assert words.tolist() == [3, 3]


@pytest.mark.skipif(not LAYOUT_IS_KNOWN, reason="there is no C function")
def test_the_words_of_a_function_go_with_it() -> None:
    call = builtin_function._builtin(IMAGE, "nothing", ())
    own = weakref.ref(call.__self__)  # type: ignore[attr-defined]
    assert own() is not None
    del call
    assert own() is None
