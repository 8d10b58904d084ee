"""Calling: by position and by name, into given arrays, from many threads, with what a caller may get wrong."""

import contextlib
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc.runtime import fast_call
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import make_executable
from onnxc.runtime.program import Binding, Check, Constant, Parameter, Symbol, TensorSpec
from onnxc.runtime.stats import Stats
from tests.runtime.programs import AFFINE, BIAS, SCALE, artifact, body, launch, program, vector
from tests.support.arrays import assert_same


def affine(x: np.ndarray) -> np.ndarray:
    return x * np.float32(SCALE) + np.float32(BIAS)


def executable() -> Executable:
    return make_executable(artifact(AFFINE), threads=1)


def two_outputs(results: Sequence[int] = (1, 2)) -> Executable:
    """z = x * x and y = x + x, in the order of `results`."""
    content = body(3, [0], results, [launch("both", [0], [1, 2], "0")])
    return make_executable(artifact(program(content, outputs=[vector("a"), vector("b")])), threads=1)


def with_default() -> Executable:
    """y = affine(x) with x a default of two floats, between two inputs that it does not read."""
    content = body(4, [0, 1, 2], [3], [launch("affine", [1], [3])], bindings=[Binding(1, 0, 0)])
    inputs = [vector("a", "K"), vector("x", "2", default=0), vector("b", "K")]
    content = body(
        4,
        [0, 1, 2],
        [3],
        [launch("affine", [1], [3])],
        bindings=[Binding(0, 0, 1), Binding(1, 0, 0)],
        checks=[Check(2, 0, "s[1]"), Check(1, 0, "2")],
    )
    return make_executable(artifact(program(content, inputs)), threads=1)


X = np.array([1.0, -2.0, 0.5], np.float32)


@pytest.mark.parametrize("x", [X, X[:0], X[:1], np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)])
def test_a_call_by_position_and_by_name(x: np.ndarray) -> None:
    exe = executable()
    for _ in range(2):
        y = exe(x)
        assert isinstance(y, np.ndarray)
        assert_same(y, affine(x))
        (named,) = exe.run({"x": x}).items()
        assert named[0] == "y"
        assert_same(named[1], affine(x))


def test_several_outputs_are_a_tuple_in_their_order() -> None:
    for results, expected in (((1, 2), (X + X, X * X)), ((2, 1), (X * X, X + X))):
        exe = two_outputs(results)
        for _ in range(2):
            found = exe(X)
            assert isinstance(found, tuple)
            for y, wanted in zip(found, expected, strict=True):
                assert_same(y, wanted)
        assert list(exe.run({"x": X})) == ["a", "b"]


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        X[::-1],
        X.astype(">f4"),
        X.view(np.recarray),
        X.tolist(),
        memoryview(X),
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32),
    ],
    ids=["reversed", "foreign", "subclass", "list", "buffer", "unaligned"],
)
def test_what_is_not_ready_is_imported_whether_its_shape_was_seen_or_not(value: object, seen: bool) -> None:
    exe = executable()
    if seen:
        exe(X)
    assert_same(np.asarray(exe(value)), affine(np.asarray(value).astype(np.float32)))


def test_outputs_are_new_at_each_call() -> None:
    exe = executable()
    first, second = exe(X), exe(X)
    assert not np.shares_memory(first, second)


def test_what_is_handed_on_is_copied_in_every_call() -> None:
    """Outputs x, a constant, and x once more, of a program without steps."""
    weights = np.array([7.0, 8.0], np.float32)
    content = body(2, [0], [0, 1, 0], [], constants=[Constant(1, 64, TensorSpec("f32", ("2",)))])
    exe = make_executable(artifact(program(content, outputs=[vector("a"), vector("b", "2"), vector("c")]), weights))
    kept = [X]
    for x in (X, X, X[:1], X[::-1]):
        outputs = exe(x)
        assert isinstance(outputs, tuple)
        for y, expected in zip(outputs, (x, weights, x), strict=True):
            assert_same(np.asarray(y), expected)
            assert not any(np.shares_memory(y, other) for other in kept)
            kept.append(y)
        outputs[1][:] = 0
    assert (exe.stats.calls, exe.stats.launches) == (4, 0)
    with pytest.raises(InputError):
        exe(X.astype(np.float64))


def test_inputs_and_outputs_are_described() -> None:
    exe = executable()
    assert [str(info) for info in (*exe.inputs, *exe.outputs)] == ["x: f32[N]", "y: f32[N]"]
    assert repr(exe) == "<Executable (x: f32[N]) -> (y: f32[N])>"
    assert exe.report() == "a report"


def test_stats_count_calls_and_the_arena() -> None:
    exe = executable()
    assert exe.stats == Stats()
    exe(X)
    exe(X)
    exe.run({"x": X[:1]})
    exe.run({"x": X}, out={"y": np.empty(3, np.float32)})
    assert exe.stats == Stats(compilations=0, calls=4, launches=4, arena_bytes=12)
    assert make_executable(artifact(AFFINE), compilations=1).stats.compilations == 1


def test_an_arena_grows_and_stays() -> None:
    exe = executable()
    for size in (4, 1000, 10, 300_000, 7):
        x = np.arange(size, dtype=np.float32)
        assert_same(np.asarray(exe(x)), affine(x))
    assert exe.stats.arena_bytes == 1_200_000


def test_shapes_beyond_those_kept_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_call, "SHAPES_KEPT", 3)
    exe = executable()
    for size in (1, 2, 3, 4, 5, 1, 5, 2):
        x = np.arange(size, dtype=np.float32)
        assert_same(np.asarray(exe(x)), affine(x))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda exe: exe(), "input-count"),
        (lambda exe: exe(X, X), "input-count"),
        (lambda exe: exe(None), "missing-input"),
        (lambda exe: exe.run({}), "missing-input"),
        (lambda exe: exe.run({"y": X}), "unknown-input"),
        (lambda exe: exe.run({"x": X, "y": X}), "unknown-input"),
        (lambda exe: exe(X.astype(np.float64)), "input-dtype"),
        (lambda exe: exe(X.reshape(3, 1)), "input-rank"),
        (lambda exe: exe(np.float32(1)), "input-rank"),
        (lambda exe: exe("x"), "input-dtype"),
        (lambda exe: exe(object()), "input-type"),
        (lambda exe: exe.run({"x": X}, out={"z": X}), "unknown-output"),
        (lambda exe: exe.run({"x": X}, out={"y": [1.0]}), "output-type"),
        (lambda exe: exe.run({"x": X}, out={"y": np.empty(3)}), "output-type"),
        (lambda exe: exe.run({"x": X}, out={"y": np.broadcast_to(X[0], 3)}), "output-type"),
        (lambda exe: exe.run({"x": X}, out={"y": np.empty(4, np.float32)}), "output-shape"),
        (lambda exe: exe.run({"x": X}, out={"y": np.empty((3, 1), np.float32)}), "output-shape"),
    ],
)
@pytest.mark.parametrize("seen", [False, True])
def test_a_wrong_call_is_an_input_error(call: Callable[[Executable], object], code: str, seen: bool) -> None:
    exe = executable()
    if seen:
        exe(X)
    with pytest.raises(InputError) as refused:
        call(exe)
    assert refused.value.code == code
    assert_same(np.asarray(exe(X)), affine(X))


def test_a_seed_changes_nothing_where_nothing_is_drawn() -> None:
    assert_same(np.asarray(executable().run({"x": X}, seed=1)["y"]), affine(X))


def test_a_default_may_be_left_out_or_replaced() -> None:
    exe, a = with_default(), np.ones(5, np.float32)
    default = np.array([SCALE, BIAS], np.float32)
    for _ in range(2):
        assert_same(np.asarray(exe(a, a)), affine(default))
        assert_same(np.asarray(exe(a, X[:2], a)), affine(X[:2]))
        assert_same(np.asarray(exe(a, None, a)), affine(default))
        assert_same(exe.run({"a": a, "b": a})["y"], affine(default))
    with pytest.raises(InputError, match="expected 2 to 3"):
        exe(a)


def test_given_arrays_are_written_into() -> None:
    exe, y = two_outputs((2, 1)), np.empty(3, np.float32)
    found = exe.run({"x": X}, out={"a": y})
    assert found["a"] is y
    assert_same(y, X * X)
    assert_same(found["b"], X + X)
    a, b = np.empty(3, np.float32), np.empty(3, np.float32)
    found = exe.run({"x": X}, out={"b": b, "a": a})
    assert (found["a"] is a, found["b"] is b) == (True, True)
    assert_same(a, X * X)
    assert_same(b, X + X)


def test_a_given_array_may_be_the_input_or_a_view() -> None:
    exe, x = executable(), X.copy()
    exe.run({"x": x}, out={"y": x})
    assert_same(x, affine(X))
    wide = np.zeros(6, np.float32)
    exe.run({"x": X}, out={"y": wide[::-2]})
    assert_same(wide[::-2].copy(), affine(X))
    assert_same(wide[::2].copy(), np.zeros(3, np.float32))


def test_illegal_data_raises_and_the_next_call_is_fine() -> None:
    exe = make_executable(artifact(program(body(2, [0], [1], [launch("pick", [0], [1])]))))
    for _ in range(3):
        with pytest.raises(InputError, match="index 200 is outside of an axis of size 100") as refused:
            exe(np.array([1, 200, 300], np.float32))
        assert refused.value.code == "index-out-of-range"
        assert_same(np.asarray(exe(X)), X)


def test_a_size_out_of_its_declared_range_is_refused() -> None:
    limited = program(AFFINE.body, symbols=[Symbol("N", 1, 4), Symbol("K", 0, None)])
    exe = make_executable(artifact(limited))
    assert_same(np.asarray(exe(X)), affine(X))
    for size in (0, 5):
        with pytest.raises(InputError, match=f'axis 0 of input "x" is {size}, expected N from 1 to 4'):
            exe(np.zeros(size, np.float32))


def test_threads_call_at_once_without_disturbing_each_other() -> None:
    exe, threads, calls = make_executable(artifact(AFFINE), threads=1), 8, 200
    wrong: list[str] = []
    start = threading.Barrier(threads)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        start.wait()
        for _ in range(calls):
            x = rng.standard_normal(int(rng.integers(0, 5000))).astype(np.float32)
            if not np.array_equal(np.asarray(exe(x)), affine(x)):
                wrong.append(f"seed {seed}, {x.size} elements")

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert exe.stats.calls == threads * calls


def test_a_program_may_have_no_inputs() -> None:
    content = body(1, [], [0], [launch("affine", [], [0], "0")], bindings=[])
    # Nothing is read or written where N is 0; the words of the arrays are never used.
    exe = make_executable(artifact(program(content, inputs=[])))
    for _ in range(2):
        assert_same(np.asarray(exe()), np.empty(0, np.float32))


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.lists(st.floats(width=32), max_size=4),
    st.lists(st.lists(st.integers(-3, 3), max_size=2), max_size=3),
    st.builds(lambda kind, shape: np.zeros(shape, kind), st.sampled_from(["f4", ">f4", "f8", "i8", "U2", "O", "M8[s]"]),
              st.lists(st.integers(0, 3), max_size=3).map(tuple)),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)  # fmt: skip
FUZZED = make_executable(artifact(AFFINE), threads=1)


@settings(deadline=None, max_examples=300)
@given(st.lists(VALUES, max_size=2))
def test_any_call_gives_an_output_or_an_input_error(values: list[object]) -> None:
    try:
        y = FUZZED(*values)
    except InputError:
        return
    with np.errstate(over="ignore"):
        assert_same(np.asarray(y), affine(np.asarray(values[0]).astype(np.float32)))


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(["x", "y", ""]), VALUES, max_size=2))
def test_any_call_by_name_gives_an_output_or_an_input_error(values: dict[str, object]) -> None:
    with contextlib.suppress(InputError), np.errstate(over="ignore"):
        assert_same(FUZZED.run(values)["y"], affine(np.asarray(values["x"]).astype(np.float32)))


def test_parameters_are_described_by_their_text() -> None:
    content = program(AFFINE.body, inputs=[Parameter("x", "f32", ("2*N",), "f32[2*N]")])
    assert make_executable(artifact(content)).inputs[0].shape == ("2*N",)
