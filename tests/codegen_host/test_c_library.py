"""C libraries: they give what Python's calls give, and refuse what these refuse, with the same texts."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto

import onnxc
from onnxc.compiler.c_library import c_library, c_name, write_files
from onnxc.compiler.codegen_host.c_library import build_library
from onnxc.compiler.options import make_options
from onnxc.runtime.errors import DeviceError, InputError, OnnxcError, UnsupportedError
from tests.support.c_library import CError, CModel, symbols, write_library
from tests.support.models import model_from_text, one_node_model

ROOT = Path(__file__).parents[2]
NEEDS_A_C_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'

PRODUCT = (
    HEAD
    + """main (float[N, 3] x, float[3, M] w) => (float[N, M] y, float[N] z) {
    p = MatMul (x, w)
    y = Softmax (p)
    axes = Constant <value_ints = [1]> ()
    z = ReduceSum <keepdims = 0> (x, axes)
}"""
)
ADDITION = HEAD + "main (float[N] x, float[M] y) => (float[K] z) { z = Add (x, y) }"
ROWS = HEAD + "main (float[N, 2] x, int64[K] i) => (float[K, 2] y) { y = Gather (x, i) }"
RANGE = (
    HEAD
    + """main (int64 start, int64 limit, float[N] x) => (int64[K] y, float[N] z) {
    step = Constant <value_int = 1> ()
    y = Range (start, limit, step)
    z = Neg (x)
}"""
)
LOOP = (
    HEAD
    + """main (int64 trips, float[N] x) => (float[N] last, float[T, N] all) {
    true = Constant <value = bool {1}> ()
    last, all = Loop (trips, true, x) <body = graph (int64 k, bool c, float[N] a) => (bool d, float[N] b, float[N] e) {
        d = Identity (c)
        b = Add (a, a)
        e = Neg (b)
    }>
}"""
)
RESHAPE = HEAD + """main (float[N] x, int64[2] shape) => (float[A, B] y) { y = Reshape (x, shape) }"""
HOST = (
    HEAD
    + """main (float[N] x) => (float[M] y, float[N] z) {
    [parts] s = SplitToSequence <axis = 0> (x)
    [whole] y = ConcatFromSequence <axis = 0> (s)
    z = Relu (x)
}"""
)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    return write_library(onnx.load(files("onnxc") / "data" / "digits.onnx"), folder, "digits")


def images() -> np.ndarray:
    with np.load(files("onnxc") / "data" / "digits.npz") as held:
        return held["images"]


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def expect_equal(model: CModel, text: str, *inputs: np.ndarray) -> None:
    """The library gives to the bit what Python's call gives."""
    expected = onnxc.compile(model_from_text(text))(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, other in zip(model.run(*inputs), expected, strict=True):
        assert (result.shape, result.tobytes()) == (other.shape, other.tobytes())


def refusal(text: str | ModelProto, *inputs: np.ndarray) -> str:
    """The text of the error of Python's call."""
    with pytest.raises(OnnxcError) as caught:
        onnxc.compile(model_from_text(text) if isinstance(text, str) else text)(*inputs)
    return str(caught.value)


@pytest.mark.parametrize(("rows", "columns"), [(5, 4), (1, 1), (0, 3), (300, 70), (2, 4)])
def test_results_are_those_of_python(rows: int, columns: int, tmp_path: Path) -> None:
    model = CModel(write_library(model_from_text(PRODUCT), tmp_path), [(np.float32, 2), (np.float32, 1)])
    expect_equal(model, PRODUCT, floats(rows, 3), floats(3, columns))
    model.close()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_digits_are_read_as_in_python_by_any_number_of_threads(digits: Path, threads: int) -> None:
    model, classify = (
        CModel(digits, [(np.float32, 2)], "digits", threads),
        onnxc.compile(files("onnxc") / "data" / "digits.onnx"),
    )
    for count in (450, 1, 33):
        x = images()[:count]
        assert model.run(x)[0].tobytes() == classify(x).tobytes()
    model.close()


def test_several_objects_are_used_by_several_threads(digits: Path) -> None:
    x = images()
    expected = onnxc.compile(files("onnxc") / "data" / "digits.onnx")(x).tobytes()
    equal: list[bool] = []

    def use(threads: int) -> None:
        model = CModel(digits, [(np.float32, 2)], "digits", threads)
        equal.extend(model.run(x)[0].tobytes() == expected for _ in range(20))
        model.close()

    users = [threading.Thread(target=use, args=(count,)) for count in (1, 2, 3)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert equal == [True] * 60


@pytest.mark.parametrize(("start", "limit"), [(0, 5), (3, 3), (-2, 40)])
def test_sizes_that_only_the_call_finds(start: int, limit: int, tmp_path: Path) -> None:
    model = CModel(write_library(model_from_text(RANGE), tmp_path), [(np.int64, 1), (np.float32, 1)])
    assert model.shapes([(), (), (4,)]) == [(-1,), (4,)]
    expect_equal(model, RANGE, np.array(start), np.array(limit), floats(4))
    model.close()


@pytest.mark.parametrize("trips", [4, 1, 0])
def test_a_loop_runs_natively(trips: int, tmp_path: Path) -> None:
    model = CModel(write_library(model_from_text(LOOP), tmp_path), [(np.float32, 1), (np.float32, 2)])
    expect_equal(model, LOOP, np.array(trips), floats(6))
    model.close()


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_recurrent_layer_whose_steps_are_a_size_runs_natively(steps: int, tmp_path: Path) -> None:
    text = HEAD + "main (float[T, 2, 3] x) => (float[T, D, 2, 4] y, float[D, 2, 4] h) "
    text += "{ w = Constant <value_float = 0.5> ()  shape = Constant <value_ints = [1, 16, 3]> ()"
    text += " r = Constant <value_ints = [1, 16, 4]> ()  W = Expand (w, shape)  R = Expand (w, r)"
    text += " y, h = LSTM <hidden_size = 4> (x, W, R) }"
    model = CModel(write_library(model_from_text(text), tmp_path), [(np.float32, 4), (np.float32, 3)])
    expect_equal(model, text, floats(steps, 2, 3))


def test_an_index_out_of_range_is_told_as_in_python_and_the_object_stays_good(tmp_path: Path) -> None:
    model, x = CModel(write_library(model_from_text(ROWS), tmp_path), [(np.float32, 2)]), floats(4, 2)
    for bad in (4, -5, -(1 << 63)):
        with pytest.raises(CError) as caught:
            model.run(x, np.array([1, bad]))
        assert str(caught.value) == refusal(ROWS, x, np.array([1, bad]))
        assert (caught.value.code, f"index {bad} is outside of an axis of size 4" in str(caught.value)) == (1, True)
    expect_equal(model, ROWS, x, np.array([3, -4, 0]))
    model.close()


def test_sizes_that_do_not_fit_each_other_are_told_as_in_python(tmp_path: Path) -> None:
    model = CModel(write_library(model_from_text(ADDITION), tmp_path), [(np.float32, 1)])
    with pytest.raises(CError, match=r"error\[sizes-disagree\].*\(here 4 and 3\)") as caught:
        model.run(floats(3), floats(4))
    assert str(caught.value) == refusal(ADDITION, floats(3), floats(4))
    expect_equal(model, ADDITION, floats(1), floats(4))
    model.close()


def test_a_fault_in_mid_call_is_told_as_in_python(tmp_path: Path) -> None:
    model, x = CModel(write_library(model_from_text(RESHAPE), tmp_path), [(np.float32, 2)]), floats(6)
    expect_equal(model, RESHAPE, x, np.array([2, 3]))
    with pytest.raises(CError) as caught:
        model.run(x, np.array([4, 3]))
    assert str(caught.value) == refusal(RESHAPE, x, np.array([4, 3]))
    expect_equal(model, RESHAPE, x, np.array([-1, 2]))
    model.close()


@pytest.mark.parametrize(
    ("shape", "code", "text"),
    [
        ((9, 1, 8, 8), 1, 'error[size-out-of-range]: axis 0 of input "pixels" is 9, expected batch from 1 to 8'),
        ((0, 1, 8, 8), 1, 'error[size-out-of-range]: axis 0 of input "pixels" is 0, expected batch from 1 to 8'),
        ((-(1 << 63), 1, 8, 8), 1, f'axis 0 of input "pixels" is {-(1 << 63)}, expected batch from 1 to 8'),
        ((2, 1, 8, 9), 1, 'error[input-shape]: axis 3 of input "pixels" is 9, expected 8'),
    ],
)
def test_shapes_that_are_not_declared_are_refused(shape: tuple[int, ...], code: int, text: str, tmp_path: Path) -> None:
    source = onnx.load(files("onnxc") / "data" / "digits.onnx")
    model = CModel(write_library(source, tmp_path, batch=(1, 8)), [(np.float32, 2)])
    with pytest.raises(CError) as caught:
        model.shapes([shape])
    assert (caught.value.code, text in str(caught.value)) == (code, True)
    assert model.shapes([(8, 1, 8, 8)]) == [(8, 10)]
    model.close()


def test_sizes_beyond_any_memory_are_refused(tmp_path: Path) -> None:
    model = CModel(write_library(model_from_text(PRODUCT), tmp_path), [(np.float32, 2), (np.float32, 1)])
    # The product of the sizes of y is 0 in 64 bits.
    with pytest.raises(CError, match="out-of-memory") as caught:
        model.shapes([(1 << 40, 3), (3, 1 << 40)])
    assert caught.value.code == 2
    model.close()


def test_late_results_are_gone_with_the_next_look_at_sizes(tmp_path: Path) -> None:
    model = CModel(write_library(model_from_text(RANGE), tmp_path), [(np.int64, 1), (np.float32, 1)])
    model.run(np.array(0), np.array(3), floats(2))
    assert model.late(0).tolist() == [0, 1, 2]
    for output in (1, -1):
        with pytest.raises(CError, match=f"no-late-output.*output {output} is none"):
            model.late(output)
    model.shapes([(), (), (2,)])
    with pytest.raises(CError, match="no-late-output"):
        model.late(0)
    model.close()


def test_threads_are_at_least_one_and_the_object_tells_so(digits: Path) -> None:
    with pytest.raises(CError, match=r"error\[thread-count\]: threads is -1, and at least 1 is needed"):
        CModel(digits, [(np.float32, 2)], "digits", threads=-1)


def test_a_model_that_needs_the_host_is_refused_with_its_nodes() -> None:
    with pytest.raises(UnsupportedError) as caught:
        c_library(model_from_text(HOST).SerializeToString(), make_options("cpu", {}, {}), "m")
    assert str(caught.value) == (
        "error[no-c-library]: a C library is one native call, and here there is more:\n"
        "  the host computes split_to_sequence\n"
        '    --> graph "main", node 0 "parts" (ai.onnx.SplitToSequence-11)\n'
        "  the host computes concatenate_sequence\n"
        '    --> graph "main", node 1 "whole" (ai.onnx.ConcatFromSequence-11)'
    )


def test_texts_and_outputs_that_nothing_computes_are_refused() -> None:
    texts = HEAD + "main (string[N] x) => (string[N] y) { y = Identity (x) }"
    same = HEAD + "main (float[N] x) => (float[N] y) { y = Identity (x) }"
    for text, reason in ((texts, 'input "x" is string'), (same, "an output that no native code computes")):
        with pytest.raises(UnsupportedError, match=reason):
            c_library(model_from_text(text).SerializeToString(), make_options("cpu", {}, {}), "m")


def test_names_and_targets_that_cannot_be_are_refused(tmp_path: Path) -> None:
    model = model_from_text(ADDITION).SerializeToString()
    with pytest.raises(InputError, match="no identifier of C") as caught:
        c_library(model, make_options("cpu", {}, {}), "2d")
    assert caught.value.code == "c-name"
    with pytest.raises(InputError) as caught:
        c_library(model, make_options("interpreter", {}, {}), "m")
    assert caught.value.code == "c-library-target"
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError) as failure:
        write_files({"m.h": b""}, tmp_path / "file")
    assert failure.value.code == "c-library-unwritable"


def test_weights_beyond_the_reach_of_code_belong_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    source = files("onnxc") / "data" / "digits.onnx"
    monkeypatch.setattr(build_library, "LARGEST_WEIGHTS_INSIDE", 1000)
    with pytest.raises(UnsupportedError, match="put them in a file with --weights-file") as caught:
        c_library(source, make_options("cpu", {}, {}), "m")
    assert caught.value.code == "weights-inside"
    assert "m.weights" in c_library(source, make_options("cpu", {}, {}), "m", weights_file=True)


@pytest.mark.parametrize(
    ("file", "name"), [("a-b.c.onnx", "a_b_c"), ("2d.onnx", "model_2d"), ("é.onnx", "model__"), ("m.onnx", "model_m")]
)
def test_names_are_made_of_those_of_files(file: str, name: str) -> None:
    assert c_name(Path(file)) == name


def test_a_library_exports_its_entry_points_and_needs_libc_alone(digits: Path) -> None:
    exported, imported, needed = symbols(digits / "libdigits.so")
    assert exported == {f"digits_{name}" for name in ("open", "shapes", "run", "late", "error", "close")}
    libc = {"aligned_alloc", "free", "madvise", "memset", "memmove", "pthread_create", "pthread_join", "syscall"}
    assert imported <= libc
    assert needed == {"libc.so.6"}


def test_names_of_the_model_cannot_end_the_comment_of_the_header() -> None:
    model = one_node_model("Relu", {"a*/b": (np.float32, ["N"])}, {"c/*\nd": (np.float32, ["N"])})
    text = c_library(model.SerializeToString(), make_options("cpu", {}, {}), "m")["m.h"].decode()
    assert "input 0: a* /b: f32[N] (float)" in text
    assert "output 0: c/ *" in text
    assert text.count("/*") == text.count("*/") == 9


def test_threads_start_with_work_and_end_with_the_object(digits: Path) -> None:
    def threads() -> set[str]:
        return {path.name for path in Path("/proc/self/task").iterdir()}

    before = threads()
    model = CModel(digits, [(np.float32, 2)], "digits", threads=3)
    assert threads() <= before
    model.run(images())
    started = threads() - before
    assert len(started) == 2
    model.close()
    # The system lists a thread for a moment after it has been joined.
    assert any(not started & threads() for _ in poll())


def poll() -> Iterator[None]:
    """For up to ten seconds, every 10 ms."""
    for _ in range(1000):
        yield
        time.sleep(0.01)


def test_the_same_model_gives_the_same_bytes() -> None:
    model, options = model_from_text(PRODUCT).SerializeToString(), make_options("cpu:x86-64-v3", {}, {})
    assert c_library(model, options, "m") == c_library(model, options, "m")


def test_a_library_for_another_processor_can_be_made() -> None:
    made = c_library(model_from_text(PRODUCT).SerializeToString(), make_options("cpu:aarch64", {}, {}), "m")
    assert made["libm.so"][18] == 183


@NEEDS_A_C_COMPILER
def test_the_example_in_c_reads_a_digit(digits: Path, tmp_path: Path) -> None:
    program = tmp_path / "read_digit"
    source = ROOT / "examples" / "c_library" / "main.c"
    strict = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
    linked = (f"-I{digits}", f"-L{digits}", "-ldigits", f"-Wl,-rpath,{digits}")
    subprocess.run(["cc", *strict, source, *linked, "-o", program], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert printed == "probabilities: 1 x 10\nread: 0\n"


def test_weights_in_a_file_are_mapped(tmp_path: Path) -> None:
    source = onnx.load(files("onnxc") / "data" / "digits.onnx")
    folder = write_library(source, tmp_path, weights_file=True)
    classify, x = onnxc.compile(source), images()[:7]
    for _ in range(3):
        model = CModel(folder, [(np.float32, 2)], weights=folder / "m.weights")
        assert model.run(x)[0].tobytes() == classify(x).tobytes()
        model.close()
    assert (folder / "libm.so").stat().st_size < 50_000 < (folder / "m.weights").stat().st_size + 20_000


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda data: None, r"error\[unreadable-file\]: the weights file cannot be opened, errno is 2"),
        (lambda data: data[:-1], r"the weights file has \d+ bytes, expected \d+"),
        (lambda data: b"", r"the weights file has 0 bytes, expected \d+"),
        (lambda data: data[:40] + b"other" + data[45:], "the weights file is that of another library"),
    ],
)
def test_a_weights_file_that_is_missing_or_another_is_refused(
    damage: Callable[[bytes], bytes | None], text: str, tmp_path: Path
) -> None:
    source = onnx.load(files("onnxc") / "data" / "digits.onnx")
    folder = write_library(source, tmp_path, weights_file=True)
    data = damage((folder / "m.weights").read_bytes())
    if data is not None:
        (folder / "bad.weights").write_bytes(data)
    with pytest.raises(CError, match=text) as caught:
        CModel(folder, [(np.float32, 2)], weights=folder / "bad.weights")
    assert caught.value.code == 3


def test_an_object_whose_opening_failed_takes_no_calls(tmp_path: Path) -> None:
    folder = write_library(onnx.load(files("onnxc") / "data" / "digits.onnx"), tmp_path, weights_file=True)
    model = CModel.__new__(CModel)
    with pytest.raises(CError, match=r"error\[bad-path\]: the weights are in a file, and no path was given"):
        model.__init__(folder, [(np.float32, 2)])  # type: ignore[misc]
    with pytest.raises(CError, match=r"error\[not-open\]"):
        model.shapes([(1, 1, 8, 8)])
    model.close()
