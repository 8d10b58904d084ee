"""The figures of a lower precision: what counts as an error, and which node gets the blame."""

import numpy as np
import pytest

from onnxc.compiler.options import make_options
from onnxc.compiler.precision_errors import OutputError, layer_errors, output_errors
from onnxc.runtime.errors import InputError
from tests.support.models import model_from_text


def error_of(exact: list[object], lowered: list[object], dtype: type = np.float32) -> OutputError:
    (found,) = output_errors([{"y": np.array(exact, dtype)}], [{"y": np.array(lowered, dtype)}])
    return found


def test_errors_are_shares_of_the_largest_magnitude_and_of_the_mean_square() -> None:
    assert error_of([3, -4, 0, 0], [3, -5, 0, 2]) == OutputError("y", 4, 4, 2, 0.5, 5**0.5 / 2, 5**0.5 / 5, 0, 0, 2)


def test_what_is_not_finite_is_counted_and_not_measured() -> None:
    nan, inf = float("nan"), float("inf")
    found = error_of([nan, inf, 1, 2, 3, inf], [nan, inf, nan, inf, 3, 1])
    assert (found.nan, found.infinite, found.changed, found.max_absolute) == (1, 1, 3, 0)


def test_an_output_of_nothing_or_of_zeros_has_no_share_to_divide_by() -> None:
    assert error_of([], []) == OutputError("y", 0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert error_of([0.0], [-0.0]) == OutputError("y", 1, 0, 0, 0, 0, 0, 0, 0, 0)
    assert error_of([0.0], [2.0]) == OutputError("y", 1, 0, 2, 1, 2, 1, 0, 0, 1)


def test_integers_and_scalars_are_compared_as_numbers() -> None:
    assert error_of([2**40, 1], [2**40, 3], np.int64).max_absolute == 2
    assert error_of([True, False], [False, False], np.bool_).changed == 1
    (found,) = output_errors([{"y": np.array(1.0)}], [{"y": np.array(1.5)}])
    assert (found.elements, found.max_relative) == (1, 0.5)


def test_samples_are_taken_together_and_texts_left_out() -> None:
    exact = [{"t": np.array(["a"], object), "y": np.array([size])} for size in (1.0, 10.0)]
    lowered = [{"t": np.array(["b"], object), "y": np.array([size])} for size in (2.0, 10.0)]
    (found,) = output_errors(exact, lowered)
    assert (found.name, found.elements, found.max_relative, found.changed) == ("y", 2, 0.1, 1)


def test_shapes_that_depend_on_the_precision_are_an_error() -> None:
    with pytest.raises(InputError, match=r"output y is \[2\] in fp32 and \[1\] lowered") as refused:
        output_errors([{"y": np.zeros(2)}], [{"y": np.zeros(1)}])
    assert refused.value.code == "shapes-differ"


def test_the_node_that_rounds_is_named_first() -> None:
    """The first product is exact in bf16, the second is not, and what follows only passes its error on."""
    model = model_from_text("""
    <ir_version: 8, opset_import: ["": 17]>
    m (float[N, 2] x) => (float[N, 2] y)
    <float[2, 2] whole = {1, 2, 3, 4}, float[2, 2] fraction = {0.3, 0.1, 0.7, 0.9}>
    {
      [first] a = MatMul (x, whole)
      [second] b = MatMul (a, fraction)
      [third] y = Relu (b)
    }
    """)
    inputs = {"x": np.array([[1, 2], [3, 4]], np.float32)}
    first, *rest = layer_errors(model, make_options("interpreter", precision="bf16"), inputs)
    assert (first.location.name, first.operator) == ("second", "dot")
    assert first.growth == first.relative_rms > 0
    errors = {layer.location.name: layer for layer in rest}
    assert errors["first"].relative_rms == 0
    assert abs(errors["third"].growth) < first.growth / 10
