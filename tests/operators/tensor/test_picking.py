"""TopK, NonZero, Compress, OneHot, Unique, ReverseSequence: elements picked, marked and reordered by their values."""

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import walk
from onnxc.runtime.errors import InputError
from tests.operators.tensor_operators import WAYS, i64, lower_operator, run_operator
from tests.support.arrays import assert_same
from tests.support.models import model_from_text, one_node_model

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
def test_top_k_prefers_the_lower_index_of_equals(way: str, largest: int, k: int, axis: int, dtype: type) -> None:
    x = np.array([[3, 1, 3, 0], [2, 2, 2, 2], [0, 9, 1, 9]], dtype)
    keys = -x.astype(np.int64) if largest else x
    order = np.take(np.argsort(keys, axis, kind="stable"), range(k), axis)
    values, indices = run_operator(
        "TopK", {"X": x, "K": i64(k)}, opset=11, way=way, parameters=["K"], outputs=2, largest=largest, axis=axis
    )
    assert_same(indices, order.astype(np.int64))
    assert_same(values, np.take_along_axis(x, order, axis))


def test_top_k_1_has_an_attribute() -> None:
    x = np.array([1, INF, -INF, -0.0], np.float32)
    values, indices = run_operator("TopK", {"X": x}, opset=1, outputs=2, k=2)
    assert_same(values, np.array([INF, 1], np.float32))
    assert_same(indices, i64(1, 0))


@pytest.mark.parametrize("k", [5, -1])
def test_more_than_there_are_is_an_input_error(k: int) -> None:
    with pytest.raises(InputError):
        run_operator("TopK", {"X": np.zeros(4), "K": i64(k)}, opset=11, way="data", parameters=["K"], outputs=2)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize(
    "x",
    [
        np.array([[0, 1.5], [-0.0, NAN]], np.float32),
        np.array(3),
        np.array(False),
        np.zeros((0, 3)),
        np.array([True, False]),
        np.zeros((2, 2), np.int8),
    ],
)
def test_non_zero_lists_coordinates(way: str, x: np.ndarray) -> None:
    (got,) = run_operator("NonZero", {"X": x}, opset=13, way=way)
    assert_same(got, np.argwhere(x).T.astype(np.int64))


def test_non_zero_of_a_constant_is_a_constant() -> None:
    module = lower_operator("NonZero", {"X": np.array([0, 5, 6])}, opset=13, parameters=["X"])
    assert module.main.body.results[0].shape == (1, 2)


@pytest.mark.parametrize("way", ["static", "symbolic", "data"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("condition", [[False, True], [True, True, False], [], [False]])
def test_compress_keeps_the_slices_that_hold(way: str, axis: int | None, condition: list[bool]) -> None:
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    flags = np.array(condition, bool)
    attributes = {} if axis is None else {"axis": axis}
    inputs = {"input": x, "condition": flags}
    (got,) = run_operator("Compress", inputs, opset=11, way=way, parameters=["condition"], **attributes)
    assert_same(got, np.compress(flags, x, axis))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
def test_one_hot_marks_the_index(way: str, axis: int, dtype: type) -> None:
    indices = np.array([0, 2, 3, 7]).astype(dtype)
    inputs = {"indices": indices, "depth": np.array(4, np.float32), "values": np.array([-1, 5], np.int16)}
    (got,) = run_operator("OneHot", inputs, opset=11, way=way, parameters=["depth"], axis=axis)
    expected = np.where(indices.astype(np.int64)[:, None] == np.arange(4), 5, -1).astype(np.int16)
    assert_same(got, expected.T if axis == 0 else expected)


@pytest.mark.parametrize(("opset", "row"), [(9, [0, 0, 0]), (11, [0, 0, 1])])
def test_negative_indices_count_from_the_end_since_11(opset: int, row: list[int]) -> None:
    inputs = {"indices": i64(-1, -4), "depth": i64(3), "values": i64(0, 1)}
    (got,) = run_operator("OneHot", inputs, opset=opset, parameters=["depth"])
    assert_same(got, np.array([row, [0, 0, 0]]))


def test_one_hot_of_a_scalar() -> None:
    inputs = {"indices": np.array(1), "depth": np.array(2), "values": np.array([False, True])}
    (got,) = run_operator("OneHot", inputs, opset=11, parameters=["depth"])
    assert_same(got, np.array([False, True]))


def test_one_hot_of_a_size_at_a_known_index_is_repeats_of_known_rank_and_size() -> None:
    """As exporters write what repeats rows in front."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    repeated (float[n, 2] x, float[m, 4] z) => (float[n, m, 4] y) {
        shape = Shape <start = 0, end = 1> (x)
        one = Constant <value_ints = [1]> ()
        choices = Concat <axis = 0> (one, shape)
        first = Constant <value_ints = [0]> ()
        depth = Constant <value_ints = [3]> ()
        hot = OneHot (first, depth, choices)
        flat = Constant <value_ints = [-1]> ()
        repeats = Reshape (hot, flat)
        whole = Unsqueeze (z, first)
        y = Tile (whole, repeats)
    }"""
    module = lower_model(check_model(read_model(model_from_text(text))))
    assert not [op for op in walk(module.main.body) if op.name == "bind_sizes"]
    assert str(module.main.body.results[0].type) == "f32[n, m, 4]"


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize(
    "x",
    [
        np.array([[2, 1, 2], [0, 1, 0], [2, 1, 2], [0, 0, 0]], np.int8),
        np.array([[1.5, -INF, 1.5]], np.float32),
        np.zeros((2, 2), np.float64),
        np.zeros((0, 2), np.int64),
    ],
)
def test_unique_is_numpy_unique(way: str, is_sorted: int, axis: int | None, x: np.ndarray) -> None:
    y, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    if not is_sorted:
        order = np.argsort(first)
        y, first, counts = np.take(y, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse] if order.size else inverse
    attributes = {} if axis is None else {"axis": axis}
    got = run_operator("Unique", {"X": x}, opset=11, way=way, outputs=4, sorted=is_sorted, **attributes)
    for actual, expected in zip(got, (y, first, inverse.reshape(-1), counts), strict=True):
        assert_same(actual, expected)


def long_rows(dtype: type, common: int) -> np.ndarray:
    """Rows of 40 elements, some of them equal, of which the first ones are all the same."""
    drawn = np.random.default_rng(0).integers(0, 2, (24, 40))
    drawn[:, :common], drawn[12:18] = 1, drawn[:6]
    return drawn.astype(dtype)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("common", [0, 20, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
def test_rows_that_their_first_elements_do_not_decide(way: str, dtype: type, common: int) -> None:
    x = long_rows(dtype, common)
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=0)
    got = run_operator("Unique", {"X": x}, opset=11, way=way, outputs=4, axis=0)
    for actual, wanted in zip(got, expected, strict=True):
        assert_same(actual, wanted.reshape(actual.shape))


def test_nan_behind_the_first_elements() -> None:
    x = long_rows(np.float32, common=20)
    x[:, :2] = (NAN, -0.0)
    x[::2, 1], x[12, 30] = 0.0, NAN
    y, first, inverse, _ = run_operator("Unique", {"X": x}, opset=11, outputs=4, axis=0)
    assert_same(y, x[first])
    np.testing.assert_array_equal(y[inverse], x)
    assert 12 in first
    assert inverse[13] == inverse[1]


@pytest.mark.parametrize("width", ["3", "40", "m"])
def test_rows_are_not_compared_with_each_other(width: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    rows (float[n, {width}] x) => (float[u, {width}] y) {{ y = Unique <axis = 0> (x) }}"""
    module = lower_model(check_model(read_model(model_from_text(text))))
    shapes = [result.shape for op in walk(module.main.body) for result in op.results if result.tensor.shape is not None]
    assert all(shape.count(Size.symbol("n")) <= 1 for shape in shapes)


@pytest.mark.parametrize(("shape", "axis"), [((3, 0), 0), ((0, 3), 1), ((2, 0, 3), -1), ((0, 0), 0)])
def test_slices_without_elements_are_one_slice(shape: tuple[int, ...], axis: int) -> None:
    sizes = [f"n{place}" for place in range(len(shape))]
    outputs = {"y": (np.float32, None)} | dict.fromkeys(("first", "inverse", "counts"), (np.int64, None))
    model = one_node_model("Unique", {"x": (np.float32, sizes)}, outputs, axis=axis)
    x = np.zeros(shape, np.float32)
    got = onnxc.compile(model).run({"x": x}).values()
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    for actual, wanted in zip(got, expected, strict=True):
        assert_same(np.asarray(actual), wanted)


def test_one_nan_is_as_good_as_another() -> None:
    y, _, inverse, counts = run_operator("Unique", {"X": np.array([NAN, 1, NAN])}, opset=11, outputs=4)
    assert_same(y, np.array([1, NAN]))
    assert_same(inverse, i64(1, 0, 1))
    assert_same(counts, i64(1, 2))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_slices_with_nan_come_after_those_with_numbers(way: str, dtype: type) -> None:
    x = np.array([[NAN, 3], [1, 0], [NAN, 3], [1, NAN], [NAN, 2], [INF, NAN], [-0.0, 1]], dtype)
    got = run_operator("Unique", {"X": x}, opset=11, way=way, outputs=4, axis=0)
    first = i64(6, 1, 3, 5, 4, 0)
    for actual, expected in zip(got, (x[first], first, i64(5, 1, 5, 2, 4, 3, 0), i64(1, 1, 1, 1, 1, 2)), strict=True):
        assert_same(actual, expected)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("time", [0, 1])
def test_each_sequence_is_reversed_up_to_its_length(way: str, time: int) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    lengths = i64(0, 1, 4)
    expected = x.copy()
    for batch, length in enumerate(lengths):
        expected[:length, batch] = x[:length, batch][::-1]
    if time == 1:
        x, expected = x.swapaxes(0, 1).copy(), expected.swapaxes(0, 1)
    inputs = {"input": x, "sequence_lens": lengths}
    (got,) = run_operator("ReverseSequence", inputs, opset=10, way=way, time_axis=time, batch_axis=1 - time)
    assert_same(got, expected)


def test_whole_sequences_are_an_axis_backwards() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[time, batch, 2] x) => (float[time, batch, 2] y) {
        time = Shape<start = 0, end = 1>(x)
        batch = Shape<start = 1, end = 2>(x)
        lengths = Expand(time, batch)
        y = ReverseSequence<time_axis = 0, batch_axis = 1>(x, lengths)
    }"""
    module = lower_model(check_model(read_model(onnx.parser.parse_model(text))))
    assert made_by(module.main.body.results[0], "slice") is not None
    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    assert_same(onnxc.compile(onnx.parser.parse_model(text))(x), x[::-1])


@pytest.mark.parametrize("way", WAYS)
def test_the_empty_text_is_what_is_zero(way: str) -> None:
    (got,) = run_operator("NonZero", {"X": np.array([["a", ""], ["", "0"]], object)}, opset=13, way=way)
    assert_same(got, np.array([[0, 1], [0, 1]]))
