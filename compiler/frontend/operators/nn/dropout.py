"""Dropout: the identity, unless the model trains; then each element is kept by chance, and scaled."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar
from onnxc.compiler.frontend.operators.random.mersenne_twister import mersenne_twister_uniform
from onnxc.compiler.frontend.operators.random.random import own_seed, uniform
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, F32, F64, DType
from onnxc.compiler.ir.module import Value


@operator("Dropout", since=(1, 6))
def dropout_with_test_flag(node: Node, ir: Builder) -> tuple[Value, ...]:
    """data: T[...]  ->  output: T[...], mask: T[...]; the identity where `is_test` says so

    Source: https://onnx.ai/onnx/operators/onnx__Dropout.html
    """
    data = node.input("data")
    if node.flag("is_test"):
        return _identity(node, ir, data.dtype)
    output, mask = _dropped(data, ir.scalar(node.float("ratio"), F64), node, ir)
    return output, ir.cast(mask, data.dtype)


@operator("Dropout", since=(7,))
def dropout_in_inference(node: Node, ir: Builder) -> tuple[Value, ...]:
    """data: T[...]  ->  output: T[...], mask: T[...] of ones

    Source: https://onnx.ai/onnx/operators/onnx__Dropout.html
    """
    return _identity(node, ir, node.input("data").dtype)


@operator("Dropout", since=(10,))
def dropout_with_bool_mask(node: Node, ir: Builder) -> tuple[Value, ...]:
    """data: T[...]  ->  output: T[...], mask: bool[...], all true

    Source: https://onnx.ai/onnx/operators/onnx__Dropout.html
    """
    return _identity(node, ir, BOOL)


@operator("Dropout", since=(12, 13, 22))
def dropout(node: Node, ir: Builder) -> tuple[Value, ...]:
    """data: T[...], ratio: T1[], training_mode: bool[]  ->  output: T[...], mask: bool[...]

    In training, an element is kept with probability 1 - ratio and divided by that; else all are kept as they are.
    Source: https://onnx.ai/onnx/operators/onnx__Dropout.html
    """
    data, ratio, training = node.input("data"), node.optional("ratio"), node.optional("training_mode")
    ratio = None if ratio is None else _ratio(ratio, node, ir)
    if training is None or _is_known_zero(training, ir) or (ratio is not None and _is_known_zero(ratio, ir)):
        return _identity(node, ir, BOOL)
    training = as_scalar(training, "training_mode", node, ir)
    share = ir.scalar(0.5, F64) if ratio is None else ir.cast(ratio, F64)
    return _dropped(data, ir.select(training, share, 0), node, ir)


def _ratio(ratio: Value, node: Node, ir: Builder) -> Value:
    """The share of elements to drop, at rank 0."""
    known = ir.known_array(ratio)
    if known is not None and not all(0 <= float(share) < 1 for share in known.flat):
        node.fail("dropout-ratio", f"ratio is {known}, outside [0, 1)", rule="ONNX Dropout, ratio")
    return as_scalar(ratio, "ratio", node, ir)


def _dropped(data: Value, ratio: Value, node: Node, ir: Builder) -> tuple[Value, Value]:
    """`data` with the share `ratio` of its elements 0 and the others scaled up, and which are kept."""
    mask = ir.less_equal(ratio, _draws(data, node, ir))
    dtype = wide_type(data.dtype) if data.dtype.bits > 8 else F32
    kept = ir.mul(ir.cast(data, dtype), ir.cast(ir.reciprocal(ir.sub(1, ratio)), dtype))
    return ir.cast(ir.select(mask, kept, 0), data.dtype), mask


def _draws(data: Value, node: Node, ir: Builder) -> Value:
    """f64[...] within [0, 1), one for each element.

    A seed asks for the stream of the standard's own tests.
    """
    if node.has("seed"):
        return mersenne_twister_uniform(node.int("seed"), data.shape, ir)
    return uniform(node, ir, data.shape, own_seed(node), F64)


def _is_known_zero(value: Value, ir: Builder) -> bool:
    known = ir.known_array(value)
    return known is not None and not known.any()


def _identity(node: Node, ir: Builder, mask: DType) -> tuple[Value, ...]:
    data = node.input("data")
    return (data, ir.full(data.shape, 1, mask)) if node.wants(1) else (data,)
