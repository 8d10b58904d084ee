"""Slice: closed forms where positions are known, clamped arithmetic where only data tells them."""

from itertools import product

import numpy as np
import pytest

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.operators.tensor.slice import extent
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Size, at_least
from onnxc.compiler.ir.interpreter import interpret
from onnxc.runtime.errors import InputError
from tests.operators.tensor_operators import WAYS, i64, lower_operator, run_operator
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

INT_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
POSITIONS = (-INT64_MAX - 1, -INT_MAX - 1, *range(-5, 6), INT_MAX, INT64_MAX)


def taken(size: int, start: int, end: int, step: int) -> list[int]:
    """The indices that a slice takes, by the words of the standard."""
    start, end = (position + size if position < 0 else position for position in (start, end))
    if step > 0:
        return list(range(min(max(start, 0), size), min(max(end, 0), size), step))
    return list(range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)) if size else []


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -3])
def test_extents_are_exact_in_symbols(step: int) -> None:
    size, start, end = Size.symbol("N"), Size.symbol("?start"), Size.symbol("?end")
    anywhere = extent(size, start, end, step)
    for first, last in product(POSITIONS, POSITIONS):
        forms = (extent(size, first, last, step), anywhere)
        for length in range(5):
            expected = taken(length, first, last, step)
            values = {"N": length, "?start": first, "?end": last}
            for form in (*forms, extent(length, first, last, step)):
                begin, count = (evaluate(dim, values) for dim in form)
                assert [begin + place * step for place in range(count)] == expected, (length, first, last)


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [(0, INT64_MAX, "N"), (1, INT64_MAX, "max(0, N - 1)"), (0, -1, "max(0, N - 1)"), (-1, INT64_MAX, "min(1, N)")],
)
def test_common_slices_have_short_sizes(start: int, end: int, text: str) -> None:
    _, count = extent(Size.symbol("N"), start, end, 1)
    assert str(count) == text


def test_a_slice_that_ends_at_the_size_itself_takes_all_although_the_formula_may_seem_negative() -> None:
    size = Size.symbol("N") - Size.symbol("cut")
    assert extent(size, 0, size, 1) == (0, size)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ((1,), (3,), None, None),
        ((0, 1), (INT64_MAX, -1), None, None),
        ((1, 0), (100, 2), (1, 0), None),
        ((-1,), (-100,), (-1,), (-1,)),
        ((3, -1), (0, 0), (1, 0), (-2, -1)),
        ((2,), (2,), (0,), (1,)),
        ((5,), (1,), (1,), (1,)),
        ((-INT64_MAX - 1,), (INT64_MAX,), (1,), (2,)),
    ],
)
@pytest.mark.parametrize("shape", [(4, 5), (1, 2), (0, 3)])
def test_slice_takes_what_the_standard_says(
    way: str,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
    shape: tuple[int, ...],
) -> None:
    x = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    expected = x
    rows = zip(axes or range(len(starts)), starts, ends, steps or [1] * len(starts), strict=True)
    for axis, start, end, step in rows:
        expected = np.take(expected, np.array(taken(shape[axis], start, end, step), int), axis)
    inputs = {
        "data": x,
        "starts": i64(*starts),
        "ends": i64(*ends),
        "axes": None if axes is None else i64(*axes),
        "steps": None if steps is None else i64(*steps),
    }
    (got,) = run_operator("Slice", inputs, opset=13, way=way, parameters=["starts", "ends", "axes", "steps"])
    assert_same(got, expected)


@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_slice_1_has_attributes(way: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (got,) = run_operator("Slice", {"data": x}, opset=1, way=way, starts=[1, -3], ends=[1000, -1])
    assert_same(got, x[1:, -3:-1])
    (got,) = run_operator("Slice", {"data": x}, opset=1, way=way, starts=[-2], ends=[INT_MAX], axes=[1])
    assert_same(got, x[:, -2:])


def test_indices_may_be_32_bits_wide() -> None:
    x = np.arange(6, dtype=np.float32)
    inputs = {"data": x, "starts": np.array([-INT_MAX], np.int32), "ends": np.array([INT_MAX], np.int32)}
    (got,) = run_operator("Slice", inputs, opset=13, way="data", parameters=["starts", "ends"])
    assert_same(got, x)


def test_a_step_of_0_is_an_input_error() -> None:
    inputs = {"data": np.zeros(3), "starts": i64(0), "ends": i64(3), "axes": i64(0), "steps": i64(0)}
    with pytest.raises(InputError):
        run_operator("Slice", inputs, opset=13, way="data", parameters=["starts", "ends", "axes", "steps"])


def test_an_axis_with_known_ends_keeps_its_exact_size() -> None:
    model = model_from_text(
        """
        <ir_version: 10, opset_import: ["" : 21]>
        main (float[N, M] x, int64[1] end) => (y) {
          zeros = Constant <value_ints = [0, 1]> ()
          last = Constant <value_ints = [-1]> ()
          ends = Concat <axis = 0> (end, last)
          y = Slice (x, zeros, ends)
        }
        """
    )
    module = lower_model(check_model(read_model(model)))
    (result,) = module.main.body.results
    assert [str(size) for size in result.shape] == ["length2", "max(0, M - 2)"]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (got,) = interpret(module, {"x": x, "end": i64(-1)})
    assert_same(got, x[:-1, 1:-1])


@pytest.mark.parametrize(
    ("before", "behind", "step"), [(0, 1, 1), (0, 3, 1), (1, 2, 1), (-2, 3, 2), (2, 2, 1), (3, 1, 1)]
)
def test_as_many_elements_lie_between_positions_as_these_are_apart(before: int, behind: int, step: int) -> None:
    """At most, from whichever end each of both counts, and where one of them wraps around."""
    model = model_from_text(
        f"""
        <ir_version: 10, opset_import: ["" : 21]>
        main (float[N] x, int64[1] at) => (y) {{
          before = Constant <value_ints = [{before}]> ()
          behind = Constant <value_ints = [{behind}]> ()
          axes = Constant <value_ints = [0]> ()
          steps = Constant <value_ints = [{step}]> ()
          starts = Add (at, before)
          ends = Add (behind, at)
          y = Slice (x, starts, ends, axes, steps)
        }}
        """
    )
    module = lower_model(check_model(read_model(model)))
    (size,) = module.main.body.results[0].shape
    assert at_least(-((before - behind) // step), size) is (behind >= before)
    for position, length in product(POSITIONS, range(6)):
        x = np.arange(length, dtype=np.float32)
        start, end = ((position + added + 2**63) % 2**64 - 2**63 for added in (before, behind))
        (got,) = interpret(module, {"x": x, "at": i64(position)})
        assert_same(got, x[taken(length, start, end, step)])


@pytest.mark.parametrize("position", [-9, -1, 0, 3, 4])
def test_positions_that_are_one_at_most_are_of_the_first_axis(position: int) -> None:
    """As those of a bag of embeddings, which PyTorch's exporter slices out of a vector of offsets."""
    model = model_from_text(
        """
        <ir_version: 10, opset_import: ["" : 21]>
        main (float[N, 16] x, int64[M] offsets, int64[1] bag) => (y) {
          one = Constant <value_ints = [1]> ()
          two = Constant <value_ints = [2]> ()
          next = Add (bag, one)
          last = Add (bag, two)
          start = Slice (offsets, bag, next)
          end = Slice (offsets, next, last)
          y = Slice (x, start, end)
        }
        """
    )
    module = lower_model(check_model(read_model(model)))
    assert module.main.body.results[0].shape[1] == 16
    x, offsets = np.arange(96, dtype=np.float32).reshape(6, 16), i64(0, 2, 2, 5, 6)
    starts, ends = (offsets[taken(5, at, at + 1, 1)] for at in (position, position + 1))
    feed = {"x": x, "offsets": offsets, "bag": i64(position)}
    if len(starts) != len(ends):
        with pytest.raises(InputError, match="another number of entries"):
            interpret(module, feed)
        return
    assert_same(interpret(module, feed)[0], x[starts[0] : ends[0]] if len(starts) else x)


def test_a_slice_of_a_shape_is_known_in_sizes() -> None:
    inputs = {"data": np.zeros((2, 3)), "starts": i64(1), "ends": i64(INT64_MAX), "axes": i64(1)}
    module = lower_operator("Slice", inputs, opset=13, way="symbolic", parameters=["starts", "ends", "axes"])
    assert [str(size) for size in module.main.body.results[0].shape] == ["data_0", "max(0, data_1 - 1)"]
