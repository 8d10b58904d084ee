"""BatchNormalization: by given statistics, or in training by those of the batch, which then move the running ones."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.standardize import moments
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.module import Value

Statistics = tuple[Value, Value]


@operator("BatchNormalization", since=(1, 6))
def batch_normalization_with_test_flag(node: Node, ir: Builder) -> tuple[Value, ...]:
    """As BatchNormalization-7, in inference form also where `is_test` says so."""
    return _lower(node, ir, ("mean", "var"), training=not node.flag("is_test") and node.output_count > 1)


@operator("BatchNormalization", since=(7, 9))
def batch_normalization_by_outputs(node: Node, ir: Builder) -> tuple[Value, ...]:
    """X: T[N, C, *S], scale, B, mean, var: T[C]  ->  Y: T[N, C, *S], in training mean, var, saved_mean, saved_var: T[C]

    More than one output means training. Before version 9, `spatial` = 0 gives each element its own: T[C, *S].
    Source: https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
    """
    return _lower(node, ir, ("mean", "var"), training=node.output_count > 1)


@operator("BatchNormalization", since=(14, 15))
def batch_normalization(node: Node, ir: Builder) -> tuple[Value, ...]:
    """X: T[N, C, *S], scale, B: T1[C], input_mean, input_var: T2[C]  ->  Y: T[N, C, *S], in training the running T2[C]s

    Source: https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
    """
    extra, training = node.wants(1) or node.wants(2), node.int("training_mode")
    if (extra and not training) or (training and node.output_count != 3):
        message = f"the node has {node.output_count} outputs and training_mode is {training}"
        node.fail("batch-normalization-outputs", message, rule="ONNX BatchNormalization, outputs")
    return _lower(node, ir, ("input_mean", "input_var"), training=node.flag("training_mode"))[:3]


def _lower(node: Node, ir: Builder, names: Sequence[str], *, training: bool) -> tuple[Value, ...]:
    """Y, the new running statistics, and those of the batch; Y alone in inference."""
    given, x = node.inputs("scale", "B", *names), node.input("X")
    if not x.rank:
        node.fail("normalization-rank", "X is a scalar", rule="ONNX BatchNormalization")
    axes = _parameter_axes(x, node)
    wide = ir.cast(x, F64 if x.dtype == F64 else F32)
    parameters = [_parameter(*named, wide, axes, node, ir) for named in zip(given, ("scale", "B", *names), strict=True)]
    scale, bias, mean, variance = parameters
    if not training:
        return (ir.cast(_applied(wide, scale, bias, (mean, variance), node.float("epsilon"), axes, ir), x.dtype),)
    current = _of_batch(wide, scale, axes, ir)
    y = _applied(wide, scale, bias, current, node.float("epsilon"), axes, ir)
    momentum, kept = node.float("momentum"), node.input(names[0]).dtype
    running = [
        ir.add(ir.mul(old, momentum), ir.mul(new, 1 - momentum))
        for old, new in zip((mean, variance), current, strict=True)
    ]
    shape = node.input(names[0]).shape if not axes else mean.shape
    return ir.cast(y, x.dtype), *(ir.reshape(ir.cast(statistic, kept), shape) for statistic in (*running, *current))


def _parameter_axes(x: Value, node: Node) -> tuple[int, ...]:
    """The axes of X that the parameters have: the channels; all but the batch where not `spatial`; none of a vector."""
    if x.rank == 1:
        return ()
    return (1,) if node.flag("spatial", True) else tuple(range(1, x.rank))


def _parameter(value: Value, name: str, x: Value, axes: Sequence[int], node: Node, ir: Builder) -> Value:
    """A parameter in the type of `x`, with the sizes that `x` has on `axes`."""
    if not axes:
        return ir.cast(ir.reshape(value, ()), x.dtype)
    if value.rank != len(axes):
        message = f"{name} is {value.type}, with {value.rank} axes and not {len(axes)}"
        node.fail("channel-parameter", message, rule="ONNX BatchNormalization")
    sizes = [
        ir.require_equal(size, x.shape[axis], f"{name} does not fit axis {axis} of X", "channel-parameter")
        for axis, size in zip(axes, value.shape, strict=True)
    ]
    return ir.cast(ir.with_shape(value, sizes), x.dtype)


def _of_batch(x: Value, like: Value, axes: Sequence[int], ir: Builder) -> Statistics:
    """The mean and variance over all axes that the parameters do not have."""
    mean, variance = moments(x, [axis for axis in range(x.rank) if axis not in axes], ir)
    return ir.with_shape(mean, like.shape), ir.with_shape(variance, like.shape)


def _applied(
    x: Value, scale: Value, bias: Value, statistics: Statistics, epsilon: float, axes: Sequence[int], ir: Builder
) -> Value:
    """x * factor + offset, factor = scale / sqrt(variance + epsilon), offset = bias - mean * factor"""
    mean, variance = statistics
    factor = ir.div(scale, ir.sqrt(ir.add(variance, epsilon)))
    offset = ir.sub(bias, ir.mul(mean, factor))
    return ir.add(ir.mul(x, ir.broadcast(factor, axes, x.shape)), ir.broadcast(offset, axes, x.shape))
