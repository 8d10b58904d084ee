"""Pad and CenterCropPad: what stands around a tensor, and what is cut off it."""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import InputError
from tests.operators.tensor_operators import WAYS, i64, run_operator
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}
PARAMETERS = ["pads", "axes"]


def padded(x: np.ndarray, pads: tuple[int, ...], mode: str, **keywords: object) -> np.ndarray:
    """numpy.pad, after cutting off what is negative."""
    low, high = pads[: x.ndim], pads[x.ndim :]
    rows = zip(low, high, x.shape, strict=True)
    cut = x[tuple(slice(max(-before, 0), size - max(-after, 0)) for before, after, size in rows)]
    return np.pad(cut, [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)], mode, **keywords)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "pads", [(0, 0, 0, 0), (1, 2, 0, 1), (0, 3, 2, 0), (-1, 0, 2, -2), (2, -1, -1, 2), (3, 7, 4, 8)]
)
@pytest.mark.parametrize("shape", [(3, 4)])
def test_pad_is_numpy_pad(way: str, mode: str, pads: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = np.arange(12, dtype=np.float32).reshape(shape)
    (got,) = run_operator("Pad", {"data": x, "pads": i64(*pads)}, opset=19, way=way, parameters=PARAMETERS, mode=mode)
    assert_same(got, padded(x, pads, MODES[mode]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pads", [(0, 1, 0, 0), (1, 300, 0, 17), (0, 0, 2, 6000), (0, -3, 0, 5)])
def test_long_rows(way: str, mode: str, pads: tuple[int, ...]) -> None:
    x = np.arange(10000, dtype=np.float32).reshape(2, 5000)
    (got,) = run_operator("Pad", {"data": x, "pads": i64(*pads)}, opset=19, way=way, parameters=PARAMETERS, mode=mode)
    assert_same(got, padded(x, pads, MODES[mode]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.complex64])
@pytest.mark.parametrize("channels", [1, 3, 16, 40])
def test_pixels_are_padded_with_all_their_channels(way: str, mode: str, dtype: type, channels: int) -> None:
    x = np.arange(2 * 5 * 4 * channels).reshape(2, 5, 4, channels).astype(dtype)
    pads = (0, 3, 6, 0, 0, 0, 1, 0)
    (got,) = run_operator("Pad", {"data": x, "pads": i64(*pads)}, opset=19, way=way, parameters=PARAMETERS, mode=mode)
    assert_same(got, padded(x, pads, MODES[mode]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_one_element_is_repeated_in_every_mode(way: str, mode: str) -> None:
    inputs = {"data": np.array([7], np.int32), "pads": i64(2, 3)}
    (got,) = run_operator("Pad", inputs, opset=19, way=way, parameters=PARAMETERS, mode=mode)
    assert_same(got, np.full(6, 7, np.int32))


@pytest.mark.parametrize("way", WAYS)
def test_pads_of_chosen_axes_with_a_value(way: str) -> None:
    x = np.arange(6, dtype=np.float64).reshape(2, 3)
    inputs = {"data": x, "pads": i64(1, 0, 2, 1), "constant_value": np.array(-0.0), "axes": i64(-1, 0)}
    (got,) = run_operator("Pad", inputs, opset=18, way=way, parameters=PARAMETERS)
    assert_same(got, padded(x, (0, 1, 1, 2), "constant", constant_values=-0.0))


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_tensor_may_be_padded_with_a_constant(way: str) -> None:
    inputs = {"data": np.zeros((0, 2), np.float32), "pads": i64(1, 0, 1, 1), "value": np.array(2, np.float32)}
    (got,) = run_operator("Pad", inputs, opset=13, way=way, parameters=PARAMETERS)
    assert_same(got, np.full((2, 3), 2, np.float32))


def test_bools_and_strings_have_their_own_nothing() -> None:
    inputs = {"data": np.array([True]), "pads": i64(1, 0)}
    (got,) = run_operator("Pad", inputs, opset=13, parameters=PARAMETERS)
    assert_same(got, np.array([False, True]))
    inputs = {"data": np.array(["a"], object), "pads": i64(0, 2)}
    (got,) = run_operator("Pad", inputs, opset=19, parameters=PARAMETERS)
    assert got.tolist() == ["a", "", ""]


@pytest.mark.parametrize(("opset", "name"), [(1, "paddings"), (2, "pads")])
def test_pads_were_an_attribute(opset: int, name: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (got,) = run_operator("Pad", {"data": x}, opset=opset, value=1.5, **{name: [0, 1, 1, 0]})
    assert_same(got, padded(x, (0, 1, 1, 0), "constant", constant_values=1.5))


def test_cutting_off_more_than_there_is_is_an_input_error() -> None:
    with pytest.raises(InputError):
        run_operator("Pad", {"data": np.zeros(3), "pads": i64(-2, -2)}, opset=13, way="data", parameters=PARAMETERS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 3), None), ((5, 2), None), ((4, 7), None), ((6, 0), None), ((9,), [-1]), ((1, 4), [1, 0])]
)
def test_center_crop_pad_leaves_the_odd_element_on_the_right(
    way: str, shape: tuple[int, ...], axes: list[int] | None
) -> None:
    x = np.arange(1, 16, dtype=np.float32).reshape(3, 5)
    expected = x
    for axis, size in zip(axes or [0, 1], shape, strict=True):
        cut, add = max(x.shape[axis] - size, 0), max(size - x.shape[axis], 0)
        expected = np.take(expected, np.arange(cut // 2, cut // 2 + min(size, x.shape[axis])), axis)
        pads = [(add // 2, add - add // 2) if place == axis % 2 else (0, 0) for place in range(2)]
        expected = np.pad(expected, pads)
    attributes = {} if axes is None else {"axes": axes}
    inputs = {"input_data": x, "shape": i64(*shape)}
    (got,) = run_operator("CenterCropPad", inputs, opset=18, way=way, parameters=["shape"], **attributes)
    assert_same(got, expected)


LENGTHS_IN_HALVES = """
<ir_version: 10, opset_import: ["": 19]>
stretched (float[B, 2, N] x) => (float[B, 2, M] y)
<float two = {2}, int64[5] zeros = {0, 0, 0, 0, 0}, int64[2] table = {2, 3}, int64[1] flat = {-1}>
{
    n = Shape <start = 2, end = 3> (x)
    half_n = Cast <to = 10> (n)
    half_two = Cast <to = 10> (two)
    quotient = Div (half_n, half_two)
    whole = Ceil (quotient)
    behind = Cast <to = 7> (whole)
    listed = Concat <axis = 0> (zeros, behind)
    rows = Reshape (listed, table)
    turned = Transpose <perm = [0, 1]> (rows)
    pads = Reshape (turned, flat)
    padded = Pad <mode = "reflect"> (x, pads)
    end = Shape <start = 2, end = 3> (padded)
    begin = Constant <value = int64[1] {0}> ()
    axis = Constant <value = int64[1] {2}> ()
    y = Slice (padded, begin, end, axis)
}
"""


def test_padding_that_only_data_tells_of_one_axis_leaves_the_sizes_of_the_others() -> None:
    """Exporters compute it in floats, move it into a vector, and cut the result at its own end."""
    compiled = onnxc.compile(model_from_text(LENGTHS_IN_HALVES))
    batch, channels, length = compiled.outputs[0].shape
    assert (batch, channels) == ("B", 2)
    assert str(length).startswith("N + ")
    assert "max" not in str(length)
    x = np.arange(20, dtype=np.float32).reshape(2, 2, 5)
    assert_same(compiled(x), padded(x, (0, 0, 0, 0, 0, 3), "reflect"))


def test_six_axes_are_padded_by_what_only_data_tells() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[A, B, C, D, E, F] x, int64[12] p) => (float[G, H, I, J, K, L] y) { y = Pad (x, p) }"""
    x, pads = np.ones((1, 2, 1, 2, 1, 2), np.float32), np.arange(-1, 11)
    y = onnxc.compile(model_from_text(text)).run({"x": x, "p": pads})["y"]
    assert_same(y, np.pad(x[1:], [*zip([0, *pads[1:6]], pads[6:], strict=True)]))


TO_FOUR = """<ir_version: 10, opset_import: ["" : 21]>
to_four (float[N, 2] x) => (float[R, 2] y) {{
  n = Shape <end = 1> (x)
  four = Constant <value_ints = [4]> ()
  none = Constant <value_ints = [0]> ()
  more = Sub (four, n)
  pads = Concat <axis = 0> ({pads})
  y = Pad <mode = "{mode}"> (x, pads)
}}
"""


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 9])
@pytest.mark.parametrize("is_before", [False, True])
def test_rows_that_are_filled_up_or_cut_down_to_a_number_are_so_many(size: int, is_before: bool) -> None:
    pads = "more, none, none, none" if is_before else "none, none, more, none"
    exe = onnxc.compile(model_from_text(TO_FOUR.format(pads=pads, mode="constant")).SerializeToString())
    assert [output.shape for output in exe.outputs] == [(4, 2)]
    x = np.arange(2 * size, dtype=np.float32).reshape(size, 2) + 1
    more = 4 - size
    assert_same(exe(x), padded(x, (more, 0, 0, 0) if is_before else (0, 0, more, 0), "constant"))


@pytest.mark.parametrize("size", [2, 3, 4, 7, 9])
@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_rows_of_which_as_many_are_added_before_as_behind(size: int, mode: str) -> None:
    model = model_from_text(TO_FOUR.format(pads="more, none, more, none", mode=mode)).SerializeToString()
    x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
    if 2 * 4 - size < 0:
        with pytest.raises(InputError, match="cuts off more than its size"):
            onnxc.compile(model)(x)
    else:
        more = 4 - size
        assert_same(onnxc.compile(model)(x), padded(x, (more, 0, more, 0), MODES[mode]))
