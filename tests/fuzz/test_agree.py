"""What the fuzzer takes for agreement: another value, type, shape, code or access is none; other rounding is."""

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import nullcontext

import ml_dtypes
import numpy as np
import pytest

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.runtime.signature import TensorInfo
from tests.frontend.model_texts import HEADER, model
from tests.fuzz.agree import (
    Answer,
    Disagreement,
    Feed,
    Refused,
    Subject,
    compare_refusals,
    difference,
    expect_agreement,
    expect_same_answers,
    same_bits,
)
from tests.fuzz.guarded import Side, guarded_copy, guarded_output
from tests.fuzz.rounding import moved, otherwise_rounded
from tests.fuzz.trials import call_beyond, read_before, read_behind, write_behind, write_input
from tests.fuzz.values import MOST_ELEMENTS, draw_array, draw_feed, draw_value
from tests.support.tolerance import smallest

BITS = (
    (np.ones((), np.float32), np.ones((), np.float32), True),
    (np.zeros((0, 3)), np.zeros((0, 3)), True),
    (np.zeros((0, 3)), np.zeros((3, 0)), False),
    (np.array([np.nan, -0.0]), np.array([np.nan, -0.0]), True),
    (np.array([0.0]), np.array([-0.0]), False),
    (np.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T.copy(), True),
    (np.ones(3, np.int32), np.ones(3, np.uint32), False),
    (np.ones(3, ml_dtypes.bfloat16), np.ones(3, ml_dtypes.bfloat16), True),
    (np.array(["a"], object), np.array(["b"], object), False),
)


@pytest.mark.parametrize(("one", "other", "same"), BITS)
def test_the_same_bits_are_of_one_type_and_shape(one: np.ndarray, other: np.ndarray, same: bool) -> None:
    assert same_bits(one, other) == same


EXP = "g (float[N] x) => (float[N] y) { y = Exp(x) }"


def subject(text: str, native: str | None = None, header: str = HEADER) -> Subject:
    """A model; the native side may be another one, that computes wrongly."""
    data, other = (model(source, header=header).SerializeToString() for source in (text, native or text))
    return Subject(data, onnxc.compile(data, "interpreter"), onnxc.compile(other), is_drawn=False)


def random() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize(
    "native",
    [
        "g (float[N] x) => (float[N] y) <float c = {0.00001}> { z = Exp(x) y = Add(z, c) }",
        "g (float[N] x) => (float[N] y) <float c = {3e38}> { z = Exp(x) y = Min(z, c) }",
        "g (float[N] x) => (double[N] y) { z = Exp(x) y = Cast<to = 11>(z) }",
        "g (float[N] x) => (float[N, K] y) <int64[1] a = {1}> { z = Exp(x) y = Unsqueeze(z, a) }",
    ],
    ids=["value", "infinity", "type", "shape"],
)
def test_another_answer_is_a_difference(native: str) -> None:
    with pytest.raises(Disagreement):
        expect_same_answers(subject(EXP, native), {"x": np.array([1, 1e3, -2], np.float32)}, random())


@pytest.mark.parametrize(
    "text",
    [
        EXP,
        "g (float[N, M] x, float[M] b) => (float[N, K] y) { z = Add(x, b) y = Softmax(z) }",
        "g (int64[N] x, int64[N] z) => (int64[N] y) { y = Div(x, z) }",
        "g (seq(float[N]) s) => (float[M] y) { y = ConcatFromSequence<axis = 0>(s) }",
        "g (optional(float[N]) o) => (bool y) { y = OptionalHasElement(o) }",
        "g (string[N] s) => (string[N] y) { y = StringNormalizer(s) }",
        "g () => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }",
    ],
)
def test_the_targets_agree_on_every_draw(text: str) -> None:
    assert all(expect_agreement(subject(text), seed) == 3 for seed in range(5))


def test_what_cancels_may_differ_by_as_much_as_rounding_moves_it() -> None:
    text = "g (float[N] x) => (float[N] y) <float c = {1}> { e = Exp(x) z = Add(e, c) y = Sub(z, c) }"
    wrong = """g (float[N] x) => (float[N] y) <float c = {1}, float d = {ERROR}> {
        e = Exp(x) z = Add(e, c) w = Sub(z, c) y = Add(w, d)
    }"""
    # 1e-7 is the last place of what is subtracted, and a fiftieth of the result.
    x = np.full(50, -12, np.float32)
    expect_same_answers(subject(text, wrong.replace("ERROR", "1e-7")), {"x": x}, random())
    with pytest.raises(Disagreement):
        expect_same_answers(subject(text, wrong.replace("ERROR", "1e-4")), {"x": x}, random())


def test_other_rounding_moves_each_float_and_nothing_else() -> None:
    data = model("g (float[N] x, int64[N] i) => (float[N] y, int64[N] j) { y = Exp(x) j = Neg(i) }").SerializeToString()
    x, i = np.linspace(-3, 3, 64, dtype=np.float32), np.arange(64)
    runs = otherwise_rounded(lower_model(check_model(read_model(data))), {"x": x, "i": i}, random())
    for run in runs:
        assert run is not None
        y, j = run
        np.testing.assert_array_equal(j, -i)
        assert 0 < np.abs(y / np.exp(x) - 1).max() < 40 * np.finfo(np.float32).eps
    np.testing.assert_array_equal(x, np.linspace(-3, 3, 64, dtype=np.float32))


def test_other_rounding_leaves_what_is_inside_of_a_sequence_as_it_is() -> None:
    text = """g (seq(float[N]) s) => (seq(float[N]) t) {
        t = SequenceMap (s) <body = b (float[M] x) => (float[M] y) { y = Exp(x) }>
    }"""
    item = np.linspace(-3, 3, 64, dtype=np.float32)
    data = model(text, header=HEADER).SerializeToString()
    runs = otherwise_rounded(lower_model(check_model(read_model(data))), {"s": (item,)}, random())
    np.testing.assert_array_equal(item, np.linspace(-3, 3, 64, dtype=np.float32))
    assert len({repr(run) for run in runs}) > 1


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.complex64])
def test_a_subnormal_number_is_moved_by_the_smallest_and_zero_stays(dtype: type) -> None:
    least = smallest(np.dtype(dtype))
    subnormal, zero = np.full(64, 2 * least, dtype), np.zeros(64, dtype)
    draws = moved(subnormal, random())
    assert draws.dtype == dtype
    assert {float(value.real) for value in draws} == {least, 2 * least, 3 * least}
    np.testing.assert_array_equal(moved(zero, random()), zero)


def test_a_subnormal_query_meets_an_infinite_key_before_or_after_it_is_scaled() -> None:
    text = """g (float[1, 1, N, 4] q, float[1, 1, M, 4] k, float[1, 1, M, 4] v) => (float[1, 1, N, 4] y) {
        y = Attention<scale = 0.35>(q, k, v)
    }"""
    q, k = np.full((1, 1, 2, 4), 1e-45, np.float32), np.ones((1, 1, 3, 4), np.float32)
    v = k.copy()
    k[0, 0, 1] = -np.inf
    header = '<ir_version: 11, opset_import: ["" : 23]> '
    expect_same_answers(subject(text, header=header), {"q": q, "k": k, "v": v}, random())


@pytest.mark.parametrize(
    ("interpreter", "native", "differs"),
    [
        (Refused("sizes-disagree"), Refused("sizes-disagree"), False),
        (Refused("sizes-disagree"), Refused("axis-out-of-range"), True),
        (Refused("sizes-disagree"), Refused("impossible-size"), False),
        ((), Refused("impossible-size"), True),
        (Refused("sizes-disagree"), (), True),
        ((), Refused("sizes-disagree"), True),
        (Refused("out-of-memory"), (), False),
        ((), Refused("index-out-of-range"), True),
        (Refused("sizes-disagree"), Refused("index-out-of-range"), False),
        (Refused("index-out-of-range"), (), True),
        (Refused("sizes-disagree"), Refused("absent-optional"), False),
        (Refused("absent-optional"), (), True),
        (Refused("declared-shape"), Refused("sizes-disagree"), False),
        (Refused("declared-shape"), (), True),
    ],
)
def test_refusals_are_compared_by_code(interpreter: Answer, native: Answer, differs: bool) -> None:
    with pytest.raises(Disagreement) if differs else nullcontext():
        compare_refusals(interpreter, native)


INDEX = {"x": np.arange(3, dtype=np.float32), "i": np.array([0, 7])}
GATHER = "g (float[N] x, int64[K] i) => (y) { z = Gather(x, i) y = Neg(z) }"
SHAPE_OF = "g (float[N] x, int64[K] i) => (y) { z = Gather(x, i) w = Neg(z) y = Shape(w) }"
PART = "g (float[N] x, int64[K] i) => (y) <int64[1] o = {0}, int64[1] l = {1}> { z = Gather(x, i) y = Slice(z, o, l) }"
OTHER_PART = """g (float[N] x, int64[K] i) => (y) <int64[1] o = {1}, int64[1] l = {2}, int64 n = {2}> {
    j = Mod(i, n) z = Gather(x, j) y = Slice(z, o, l)
}"""
READ_PART = (
    "g (float[N] x, int64[K] i) => (y) <int64[1] o = {1}, int64[1] l = {2}> { z = Gather(x, i) y = Slice(z, o, l) }"
)
OTHER_INDEX = "g (float[N] x, int64[K] i) => (y) <int64 n = {2}> { j = Mod(i, n) z = Gather(x, j) y = Neg(z) }"
NO_LINE = {"x": np.zeros((0, 4), np.float32), "s": np.array([1, 0])}
RESIZE = 'g (float[N, M] x, int64[2] s) => (y) { y = Resize<mode = "nearest">(x, , , s) }'
RATIO = {"x": np.ones(3, np.float32), "r": np.zeros(2, np.float32)}
DROPOUT = "g (float[N] x, float[] r) => (y) { z = Dropout(x, r) y = Neg(z) }"
POSITION = {"x": (np.arange(3, dtype=np.float32),) * 2, "i": np.array(7)}
SEQUENCE_AT = "g (seq(float[N]) x, int64 i) => (y) { z = SequenceAt(x, i) y = Neg(z) }"
LENGTH_OF = "g (seq(float[N]) x, int64 i) => (y) { z = SequenceAt(x, i) y = SequenceLength(x) }"
OTHER_POSITION = "g (seq(float[N]) x, int64 i) => (y) <int64 n = {1}> { z = SequenceAt(x, n) y = Neg(z) }"


@pytest.mark.parametrize(
    ("text", "native", "feed", "code"),
    [
        (SHAPE_OF, SHAPE_OF, INDEX, None),
        (GATHER, GATHER, INDEX, None),
        (GATHER, OTHER_INDEX, INDEX, "index-out-of-range"),
        (PART, PART, INDEX, None),
        (READ_PART, READ_PART, INDEX, None),
        (READ_PART, OTHER_PART, INDEX, "index-out-of-range"),
        (RESIZE, RESIZE, NO_LINE, None),
        (DROPOUT, DROPOUT, RATIO, None),
        (LENGTH_OF, LENGTH_OF, POSITION, None),
        (SEQUENCE_AT, SEQUENCE_AT, POSITION, None),
        (SEQUENCE_AT, OTHER_POSITION, POSITION, "sequence-position"),
    ],
    ids=[
        "unused",
        "refused",
        "taken",
        "unread",
        "read",
        "taken and read",
        "no elements",
        "unused shape",
        "unused position",
        "refused position",
        "taken position",
    ],
)
def test_what_is_picked_where_nothing_is_may_be_taken_where_it_decides_nothing(
    text: str, native: str, feed: Feed, code: str | None
) -> None:
    with pytest.raises(Disagreement, match=code) if code is not None else nullcontext():
        expect_same_answers(subject(text, native), feed, random())


@pytest.mark.parametrize("side", ["before", "behind"])
@pytest.mark.parametrize("shape", [(), (0, 3), (3,), (1024,), (5, 1000)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.bool_, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_guarded_arrays_are_as_others(side: Side, shape: tuple[int, ...], dtype: type) -> None:
    array = (np.arange(np.prod(shape, dtype=int)) % 2).astype(dtype).reshape(shape)
    copied, output = guarded_copy(array, side), guarded_output(array, side)
    assert (copied.dtype, copied.shape, copied.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert copied.flags.aligned
    assert not copied.flags.writeable
    assert (output.dtype, output.shape) == (array.dtype, array.shape)
    output[...] = array
    assert output.tobytes() == array.tobytes()


@pytest.mark.parametrize("access", [read_behind, read_before, write_behind, write_input, call_beyond])
def test_an_access_outside_ends_the_process(access: Callable[[], None]) -> None:
    process = multiprocessing.get_context("spawn").Process(target=access)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGSEGV


def test_arrays_without_elements_agree_however_large_their_other_sizes_are() -> None:
    large, other = (np.empty((0, size), np.float32) for size in (1 << 60, 1 << 59))
    assert difference(large, large.copy(), terms=1) is None
    assert difference(large, other, terms=1) is not None


def test_symbols_have_one_size_and_sizes_computed_from_them_follow() -> None:
    f32 = np.dtype(np.float32)
    infos = [TensorInfo("x", f32, ("N", 3), "f32[N, 3]"), TensorInfo("y", f32, ("2*N + 1",), "f32[2*N + 1]")]
    seen = set()
    for seed in range(60):
        feed = draw_feed(infos, np.random.default_rng(seed))
        assert feed is not None
        rows = np.shape(feed["x"])[0]
        assert np.shape(feed["y"]) == (2 * rows + 1,)
        seen.add(rows)
    assert {0, 1, 2, 17} <= seen


def test_what_is_too_large_is_not_drawn() -> None:
    large = TensorInfo("x", np.dtype(np.int8), (MOST_ELEMENTS + 1,), "i8[...]")
    assert draw_feed([large], random()) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_odd_floats_are_drawn(dtype: type) -> None:
    draws = [draw_array(np.dtype(dtype), (20,), np.random.default_rng(seed)).astype(float) for seed in range(40)]
    values = np.concatenate(draws)
    assert np.isnan(values).any()
    assert np.isposinf(values).any()
    assert np.isneginf(values).any()
    assert np.signbit(values[values == 0]).any()
    assert sum(bool(np.isfinite(draw).all()) for draw in draws) > 10


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8, np.uint64])
def test_the_least_and_the_largest_integer_are_drawn(dtype: type) -> None:
    draws = [draw_array(np.dtype(dtype), (40,), np.random.default_rng(seed)) for seed in range(60)]
    values = {int(value) for draw in draws for value in draw}
    assert {0, 1, int(np.iinfo(dtype).max)} <= values
    assert min(values) == np.iinfo(dtype).min


@pytest.mark.parametrize("text", ["sequence(f32[?0, 2])", "map(string, i64[])", "optional(i64[2])", "sparse(f32[N])"])
def test_values_that_are_no_dense_tensors_are_drawn(text: str) -> None:
    kinds = {type(draw_value(text, (4,), np.random.default_rng(seed))).__name__ for seed in range(20)}
    expected = {"s": {"tuple"}, "m": {"dict"}, "o": {"ndarray", "NoneType"}}
    assert kinds == ({"SparseTensor"} if text.startswith("sparse") else expected[text[0]])
