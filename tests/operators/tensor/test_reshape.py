"""Reshape, Flatten, Transpose, Squeeze, Unsqueeze: shapes that numbers, symbols or data tell."""

import numpy as np
import pytest

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.dims import Size, floordiv
from onnxc.compiler.ir.interpreter import interpret
from onnxc.runtime.errors import InputError, OnnxcError
from tests.operators.tensor_operators import WAYS, i64, lower_operator, run_operator
from tests.support.arrays import assert_same
from tests.support.models import model_from_text


def counted(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("old", "shape", "new"),
    [
        ((2, 3, 4), (4, -1), (4, 6)),
        ((2, 3, 4), (0, -1), (2, 12)),
        ((2, 3, 4), (-1, 0), (8, 3)),
        ((2, 3, 4), (2, 0, 2, -1), (2, 3, 2, 2)),
        ((1,), (), ()),
        ((), (1, 1), (1, 1)),
        ((), (-1,), (1,)),
        ((0, 3), (0, -1), (0, 3)),
        ((2, 0), (0, -1), (2, 0)),
        ((5, 0), (-1, 7), (0, 7)),
        ((1, 1), (-1,), (1,)),
    ],
)
def test_reshape_copies_at_0_and_infers_at_minus_1(
    way: str, old: tuple[int, ...], shape: tuple[int, ...], new: tuple[int, ...]
) -> None:
    x = counted(*old)
    (got,) = run_operator("Reshape", {"data": x, "shape": i64(*shape)}, opset=14, way=way, parameters=["shape"])
    assert_same(got, x.reshape(new))


@pytest.mark.parametrize("way", WAYS)
def test_reshape_takes_0_as_it_is_with_allowzero(way: str) -> None:
    inputs = {"data": counted(0, 3), "shape": i64(3, 0)}
    (got,) = run_operator("Reshape", inputs, opset=14, way=way, parameters=["shape"], allowzero=1)
    assert_same(got, counted(3, 0))


@pytest.mark.parametrize("way", WAYS)
def test_reshape_infers_no_size_beside_0_with_allowzero(way: str) -> None:
    inputs = {"data": counted(2, 0, 3), "shape": i64(0, -1)}
    for parameters in ([], ["shape"]):
        with pytest.raises(OnnxcError):
            run_operator("Reshape", inputs, opset=14, way=way, parameters=parameters, allowzero=1)


def test_reshape_1_has_its_shape_in_an_attribute() -> None:
    (got,) = run_operator("Reshape", {"data": counted(2, 3)}, opset=1, shape=[3, -1])
    assert_same(got, counted(3, 2))


def test_an_inferred_size_is_exact_in_symbols() -> None:
    inputs = {"data": counted(2, 6), "shape": i64(-1, 3)}
    module = lower_operator("Reshape", inputs, opset=14, way="symbolic", parameters=["shape"])
    (result,) = module.main.body.results
    assert result.shape == (floordiv(Size.symbol("data_0") * Size.symbol("data_1"), 3), 3)


@pytest.mark.parametrize("shape", [(4, 7), (5, -1), (-1, -1, 7), (2, -3, -4)])
def test_reshape_of_another_number_of_elements_is_an_input_error(shape: tuple[int, ...]) -> None:
    inputs = {"data": counted(2, 3, 4), "shape": i64(*shape)}
    with pytest.raises(InputError):
        run_operator("Reshape", inputs, opset=14, way="data", parameters=["shape"])


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize(
    ("axis", "new"), [(0, (1, 24)), (1, (2, 12)), (3, (24, 1)), (-1, (6, 4)), (-3, (1, 24)), (2, (6, 4))]
)
def test_flatten_makes_a_matrix_around_an_axis(way: str, axis: int, new: tuple[int, ...]) -> None:
    (got,) = run_operator("Flatten", {"input": counted(2, 3, 4)}, opset=13, way=way, axis=axis)
    assert_same(got, counted(*new))


@pytest.mark.parametrize(("old", "axis", "new"), [((), 0, (1, 1)), ((0, 5), 1, (0, 5)), ((3, 0), 2, (0, 1))])
def test_flatten_of_odd_shapes(old: tuple[int, ...], axis: int, new: tuple[int, ...]) -> None:
    (got,) = run_operator("Flatten", {"input": counted(*old)}, opset=13, axis=axis)
    assert_same(got, counted(*new))


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("perm", [None, (0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_transpose_reverses_the_axes_by_default(way: str, perm: tuple[int, ...] | None) -> None:
    attributes = {} if perm is None else {"perm": perm}
    (got,) = run_operator("Transpose", {"data": counted(2, 3, 4)}, opset=13, way=way, **attributes)
    assert_same(got, counted(2, 3, 4).transpose(perm))


def test_transpose_of_a_scalar_is_itself() -> None:
    (got,) = run_operator("Transpose", {"data": counted()}, opset=13)
    assert_same(got, counted())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axes", [(0,), (-2,), (2, 0), (0, -2)])
def test_squeeze_drops_the_axes_named(way: str, axes: tuple[int, ...]) -> None:
    x = counted(1, 3, 1, 2)
    (got,) = run_operator("Squeeze", {"data": x, "axes": i64(*axes)}, opset=13, way=way, parameters=["axes"])
    assert_same(got, x.squeeze(axes))


def test_squeeze_without_axes_drops_every_one() -> None:
    (got,) = run_operator("Squeeze", {"data": counted(1, 3, 1)}, opset=13)
    assert_same(got, counted(3))


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (1, 1), (2, 1, 3)])
def test_squeeze_without_axes_drops_symbolic_axes_that_are_one(shape: tuple[int, ...]) -> None:
    (got,) = run_operator("Squeeze", {"data": counted(*shape)}, opset=13, way="symbolic")
    assert_same(got, counted(*shape).squeeze())


def test_squeeze_of_an_axis_that_is_not_one_is_an_input_error() -> None:
    with pytest.raises(InputError):
        run_operator("Squeeze", {"data": counted(2, 3), "axes": i64(0)}, opset=13, way="data", parameters=["axes"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axes", [(0,), (-1,), (2, 0), (0, 1, -1), (1, 3)])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3)])
def test_unsqueeze_inserts_the_axes_of_the_result(way: str, axes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = counted(*shape)
    (got,) = run_operator("Unsqueeze", {"data": x, "axes": i64(*axes)}, opset=13, way=way, parameters=["axes"])
    assert_same(got, np.expand_dims(x, axes))


@pytest.mark.parametrize("operator", ["Squeeze", "Unsqueeze"])
def test_axes_were_an_attribute(operator: str) -> None:
    (got,) = run_operator(operator, {"data": counted(1, 3)}, opset=11, axes=[0])
    assert_same(got, counted(3) if operator == "Squeeze" else counted(1, 1, 3))


def test_what_is_known_of_a_shape_stays_known() -> None:
    model = model_from_text(
        """
        <ir_version: 10, opset_import: ["" : 21]>
        main (float[N, 6, 8] x, int64[1] rows) => (y) {
          rest = Constant <value_ints = [0, -1, 4]> ()
          shape = Concat <axis = 0> (rows, rest)
          y = Reshape (x, shape)
        }
        """
    )
    module = lower_model(check_model(read_model(model)))
    (result,) = module.main.body.results
    assert [str(size) for size in result.shape] == ["length0", "6", "length2", "4"]
    x = counted(2, 6, 8)
    (got,) = interpret(module, {"x": x, "rows": i64(2)})
    assert_same(got, x.reshape(2, 6, 2, 4))


@pytest.mark.parametrize(("to", "rows"), [(2, 44), (6, 300), (7, 300)])
def test_sizes_that_a_narrow_type_does_not_hold_are_not_known(to: int, rows: int) -> None:
    made = model_from_text(
        f"""
        <ir_version: 10, opset_import: ["" : 21]>
        main (float[N] x, int64[1] columns) => (y) {{
          n = Shape (x)
          kept = Cast <to = {to}> (n)
          back = Cast <to = 7> (kept)
          shape = Concat <axis = 0> (back, columns)
          y = ConstantOfShape (shape)
        }}
        """
    )
    assert onnxc.compile(made)(np.zeros(300, np.float32), i64(2)).shape == (rows, 2)
