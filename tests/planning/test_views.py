"""Views: stepping through a buffer by strides gives what the movements give."""

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.loops.views import View, is_dense, move, row_major, whole
from tests.planning.plans import make

N, M = Size.symbol("N"), Size.symbol("M")
REPEATS: list[Dim] = [1, 2, N]


def elements(view: View, flat: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
    """What the view shows of a buffer, element by element."""
    shape = [evaluate(dim, sizes) for dim in view.shape]
    places = np.full(shape, evaluate(view.offset, sizes))
    for axis, stride in enumerate(view.strides):
        steps = np.arange(shape[axis]) * evaluate(stride, sizes)
        places = places + steps.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    shown: np.ndarray = flat[places]
    return shown


def _moved(x: Value, result: Value) -> View | None:
    """The view of x that the movements up to `result` are."""
    chain: list[Op] = []
    while result.op is not None:
        chain.append(result.op)
        result = result.op.operands[0]
    view: View | None = whole(x)
    for op in reversed(chain):
        view = None if view is None else move(view, op)
    return view


@composite
def movements(draw: DrawFn, ir: Builder, x: Value) -> Value:
    """A few movements of x, one after another."""
    for _ in range(draw(st.integers(0, 5))):
        x = draw(st.sampled_from((_transposed, _sliced, _reversed, _merged, _split, _repeated, _stretched)))(
            draw, ir, x
        )
    return x


def _transposed(draw: DrawFn, ir: Builder, x: Value) -> Value:
    return ir.transpose(x, draw(st.permutations(range(x.rank))))


def _sliced(draw: DrawFn, ir: Builder, x: Value) -> Value:
    starts, sizes, steps = [], [], []
    for size in x.shape:
        start, step = (draw(st.integers(0, size)), draw(st.integers(1, 3))) if isinstance(size, int) else (0, 1)
        starts.append(start)
        steps.append(step)
        sizes.append(-(-(size - start) // step) if isinstance(size, int) else size)
    return ir.slice(x, starts, sizes, steps)


def _reversed(draw: DrawFn, ir: Builder, x: Value) -> Value:
    return ir.reverse(x, draw(st.integers(0, x.rank - 1))) if x.rank else x


def _merged(draw: DrawFn, ir: Builder, x: Value) -> Value:
    if x.rank < 2:
        return x
    axis = draw(st.integers(0, x.rank - 2))
    return ir.reshape(x, (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]))


def _split(draw: DrawFn, ir: Builder, x: Value) -> Value:
    even = [axis for axis, size in enumerate(x.shape) if size == 4]
    if not even:
        return ir.unsqueeze(x, [draw(st.integers(0, x.rank))]) if x.rank < 5 else x
    axis = draw(st.sampled_from(even))
    return ir.reshape(x, (*x.shape[:axis], 2, 2, *x.shape[axis + 1 :]))


def _repeated(draw: DrawFn, ir: Builder, x: Value) -> Value:
    if x.rank >= 5:
        return x
    place = draw(st.integers(0, x.rank))
    size = draw(st.sampled_from(REPEATS))
    return ir.broadcast(x, [a + (a >= place) for a in range(x.rank)], (*x.shape[:place], size, *x.shape[place:]))


def _stretched(draw: DrawFn, ir: Builder, x: Value) -> Value:
    return ir.broadcast_to(x, [3 if size == 1 else size for size in x.shape])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_view_is_what_the_movements_give(data: st.DataObject) -> None:
    module = make(["f32[N, 4, 3, M]"], lambda ir, x: data.draw(movements(ir, x)))
    (x,), (result,) = module.main.body.parameters, module.main.body.results
    view = _moved(x, result)
    for rows, columns in [(1, 1), (2, 3), (3, 2), (0, 2), (2, 0), (4, 1)]:
        array = np.arange(rows * 12 * columns, dtype=np.float32).reshape(rows, 4, 3, columns)
        if view is not None:
            (expected,) = interpret(module, {"x0": array})
            found = elements(view, array.reshape(-1), {"N": rows, "M": columns})
            assert isinstance(expected, np.ndarray)
            assert found.shape == expected.shape
            np.testing.assert_array_equal(found, expected)
            if is_dense(view):
                np.testing.assert_array_equal(expected.reshape(-1), array.reshape(-1))


def _view_of(build: Callable[..., Value], type: str = "f32[N, 4, 3, M]") -> View | None:
    module = make([type], build)
    return _moved(module.main.body.parameters[0], module.main.body.results[0])


def test_strides_are_row_major_first() -> None:
    assert row_major((N, 4, M)) == (4 * M, M, 1)
    assert row_major(()) == ()


def test_a_transpose_permutes_strides() -> None:
    view = _view_of(lambda ir, x: ir.transpose(x, (3, 1, 0, 2)))
    assert view is not None
    assert view.strides == (1, 3 * M, 12 * M, M)


def test_a_reverse_starts_at_the_end() -> None:
    view = _view_of(lambda ir, x: ir.reverse(x, 3))
    assert view is not None
    assert (view.offset, view.strides[3]) == (M - 1, -1)


def test_axes_of_a_transpose_cannot_be_merged() -> None:
    assert _view_of(lambda ir, x: ir.reshape(ir.transpose(x, (1, 0, 2, 3)), (4 * N, 3, M))) is None


def test_a_repetition_that_is_not_decided_has_a_stride_that_is_0_for_one() -> None:
    view = _view_of(lambda ir, x: ir.broadcast(x, (0, 1), (Size.symbol("B"), 3)), "f32[A, 3]")
    assert view is not None
    rows = view.strides[0]
    assert view.strides == (rows, 1)
    assert [evaluate(rows, {"A": size}) for size in (1, 2, 7)] == [0, 3, 3]


def test_a_repetition_along_the_last_axis_that_is_not_decided_is_no_view() -> None:
    assert _view_of(lambda ir, x: ir.broadcast(x, (0, 1), (3, Size.symbol("B"))), "f32[3, A]") is None


def test_padding_is_no_view() -> None:
    assert _view_of(lambda ir, x: ir.pad(x, (1, 0, 0, 0), (0, 0, 0, 0), 0.0)) is None


def test_a_reshape_is_dense_and_a_slice_is_not() -> None:
    flat = _view_of(lambda ir, x: ir.reshape(x, (12 * N * M,)))
    part = _view_of(lambda ir, x: ir.slice(x, (0, 0, 0, 0), (N, 2, 3, M), (1, 1, 1, 1)))
    assert flat is not None
    assert is_dense(flat)
    assert part is not None
    assert not is_dense(part)


def test_a_whole_buffer_has_any_shape_that_a_guard_holds_as_long() -> None:
    """Of a part of one that is not known."""

    def view(build: Callable[[Builder, Value], Value]) -> View | None:
        body = make(["f32[N, M]"], build).main.body
        return _moved(body.parameters[0], body.results[0])

    dense = view(lambda ir, x: ir.reshape(x, (4, 3, 2)))
    assert dense is not None
    assert (dense.shape, dense.offset, dense.strides) == ((4, 3, 2), 0, (6, 2, 1))
    assert view(lambda ir, x: ir.reshape(ir.transpose(x, (1, 0)), (4, 6))) is None
    assert view(lambda ir, x: ir.reshape(ir.slice(x, (0, 1), (N, 2)), (4, 6))) is None
