"""Cast and CastLike: elements converted to another type."""

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.numbers_as_texts import numbers_in, texts_of
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import at_common_rank
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F8E8M0, DType
from onnxc.compiler.ir.module import Value

BY_NAME = {element.name.upper(): element.dtype for element in ELEMENT_TYPES.values()}
ROUND_MODES = ("up", "down", "nearest")


@operator("Cast", since=(1,))
@at_common_rank
def cast_to_named(node: Node, ir: Builder) -> Value:
    """input: T1[...]  ->  T2[...], T2 named by the text `to`

    Source: https://onnx.ai/onnx/operators/onnx__Cast.html
    """
    name = node.string("to")
    if name.upper() not in BY_NAME:
        node.fail("unknown-element-type", f"to is {name!r}, which is no element type", rule="TensorProto.DataType")
    return _converted(node.input("input"), BY_NAME[name.upper()], node, ir)


@operator("Cast", since=(6, 9, 13, 19, 21, 23, 24, 25, 28))
@at_common_rank
def cast(node: Node, ir: Builder) -> Value:
    """input: T1[...]  ->  T2[...], T2 = `to`

    Source: https://onnx.ai/onnx/operators/onnx__Cast.html
    """
    return _converted(node.input("input"), node.dtype("to"), node, ir)


@operator("CastLike", since=(15, 19, 21, 23, 24, 25))
def cast_like(node: Node, ir: Builder) -> Value:
    """input: T1[...], target_type: T2[...]  ->  T2[...]

    Source: https://onnx.ai/onnx/operators/onnx__CastLike.html
    """
    return _converted(node.input("input"), node.input("target_type").dtype, node, ir)


def _converted(x: Value, dtype: DType, node: Node, ir: Builder) -> Value:
    """`x` as `dtype`; float8 saturates as the attribute says, and only the power-of-two type has a rounding mode."""
    round_mode = node.choice("round_mode", ROUND_MODES, "nearest")
    if x.dtype == dtype:
        return x
    if dtype.is_string:
        return texts_of(x, ir)
    if x.dtype.is_string:
        return numbers_in(x, dtype, node, ir)
    saturate = node.flag("saturate", True)
    if dtype != F8E8M0:
        return ir.cast(x, dtype, saturate=saturate)
    return ir.cast(x, dtype, saturate=saturate, round_mode=round_mode)
