"""Quantization annotations: what they tell of ranges, and that nothing is computed by them."""

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.quantization_annotations import QuantizationHint, quantization_hints
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.dtypes import I4, I8, I32, U8, U16, DType
from tests.frontend.model_texts import IF, RELU, model, warnings


def annotated(scale: object, zero: object, dtype: DType | None = U8, name: str = "x") -> ModelProto:
    """A model with an annotation; without a type of the zero point there is none."""
    made = model(RELU)
    annotation = made.graph.quantization_annotation.add(tensor_name=name)
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    made.graph.initializer.append(numpy_helper.from_array(np.asarray(scale, np.float32), "s"))
    if dtype is not None:
        annotation.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="z")
        zeros = np.asarray(zero).astype(dtype.numpy)
        made.graph.initializer.append(onnx.helper.make_tensor("z", code_of(dtype), zeros.shape, zeros.reshape(-1)))
    return made


def hints(official: ModelProto) -> tuple[QuantizationHint, ...]:
    loaded = read_model(official)
    return quantization_hints(loaded, check_model(loaded))


@pytest.mark.parametrize(
    ("scale", "zero", "dtype", "low", "high"),
    [
        (0.5, 128, U8, -64.0, 63.5),
        (0.5, 0, I8, -64.0, 63.5),
        (2.0, -3, I4, -10.0, 20.0),
        (1.0, 0, U16, 0.0, 65535.0),
        ([0.5, 2.0], [0, 100], U8, -200.0, 310.0),
        ([0.5, 2.0], 0, I8, -256.0, 254.0),
        (0.0, 0, I8, 0.0, 0.0),
    ],
)
def test_the_range_is_what_the_quantized_type_can_stand_for(
    scale: object, zero: object, dtype: DType, low: float, high: float
) -> None:
    (hint,) = hints(annotated(scale, zero, dtype))
    assert hint == QuantizationHint("main", "x", "s", "z", dtype, low, high)


@pytest.mark.parametrize(
    ("scale", "zero", "dtype", "quantized"),
    [
        (0.5, 0, None, None),
        (0.5, 0, I32, None),
        ([], [], U8, U8),
        ([1.0, 2.0], [1, 2, 3], U8, U8),
    ],
)
def test_without_parameters_that_go_together_there_is_no_range(
    scale: object, zero: object, dtype: DType | None, quantized: DType | None
) -> None:
    (hint,) = hints(annotated(scale, zero, dtype))
    assert (hint.quantized, hint.low, hint.high) == (quantized, None, None)


def test_annotations_of_nested_graphs_have_their_place() -> None:
    made = model(IF)
    branch = made.graph.node[0].attribute[0].g
    branch.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    made.graph.initializer.append(numpy_helper.from_array(np.float32(1), "s"))
    assert hints(made) == (QuantizationHint("main/If_0.then_branch", "x", "s", ""),)


def test_a_nested_graph_that_annotates_twice_is_wrong() -> None:
    made = model(IF)
    for _ in range(2):
        made.graph.node[0].attribute[0].g.quantization_annotation.add(tensor_name="a")
    assert [finding.code for finding in onnxc.check(made)] == ["duplicate-quantization"]


def test_a_pair_that_tells_no_range_is_a_warning() -> None:
    assert "quantization-pair" not in warnings(annotated(0.5, 3))
    assert "quantization-pair" in warnings(annotated([1.0, 2.0], [1, 2, 3]))
    alone = annotated(0.5, 3)
    del alone.graph.quantization_annotation[0].quant_parameter_tensor_names[0]
    assert "quantization-pair" in warnings(alone)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_nothing_that_is_computed_depends_on_them(precision: str) -> None:
    plain, hinted = annotated(0.5, 3), annotated(0.5, 3)
    del plain.graph.quantization_annotation[:]
    assert str(lower_model(check_model(read_model(plain)))) == str(lower_model(check_model(read_model(hinted))))
    x = np.linspace(-1000, 1000, 7, dtype=np.float32)
    left, right = (onnxc.compile(each, "interpreter", precision=precision).run({"x": x}) for each in (plain, hinted))
    np.testing.assert_array_equal(left["y"], right["y"], strict=True)
