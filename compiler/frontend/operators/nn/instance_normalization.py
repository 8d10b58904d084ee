"""InstanceNormalization and GroupNormalization: over the spatial axes of each channel, or of each group of channels."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import wide_type, widened
from onnxc.compiler.frontend.operator_helpers.standardize import standardize
from onnxc.compiler.frontend.operators.nn.conv import per_channel
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Value


@operator("InstanceNormalization", since=(1, 6, 22))
def instance_normalization(node: Node, ir: Builder) -> Value:
    """input: T[N, C, *S], scale, B: T[C]  ->  T[N, C, *S]; 16-bit floats are computed in f32, rounded once

    Source: https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html
    """
    x, scale, bias = node.inputs("input", "scale", "B")
    _expect_channels(x, node)
    normal = standardize(widened(x, ir), range(2, x.rank), node.float("epsilon"), ir)
    scaled = ir.mul(normal, per_channel(scale, normal, node, ir))
    return ir.cast(ir.add(scaled, per_channel(bias, normal, node, ir)), x.dtype)


def _expect_channels(x: Value, node: Node) -> None:
    if x.rank < 2:
        node.fail("normalization-rank", f"X has {x.rank} axes, no channels", rule=f"ONNX {node.operator}")


@operator("GroupNormalization", since=(18,))
def group_normalization_by_group(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S], scale, bias: T[num_groups]  ->  T[N, C, *S]

    Source: https://onnx.ai/onnx/operators/onnx__GroupNormalization.html
    """
    x = node.input("X")
    normal = _by_groups(x, wide_type(x.dtype), node, ir)
    scale, bias = (per_channel(node.input(name), normal, node, ir) for name in ("scale", "bias"))
    return ir.reshape(ir.cast(ir.add(ir.mul(normal, scale), bias), x.dtype), x.shape)


@operator("GroupNormalization", since=(21,))
def group_normalization(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S], scale, bias: T[C]  ->  T[N, C, *S]; only the scaling is in T, the rest in `stash_type`

    Source: https://onnx.ai/onnx/operators/onnx__GroupNormalization.html
    """
    x = node.input("X")
    normal = ir.reshape(ir.cast(_by_groups(x, stash_type(x, node), node, ir), x.dtype), x.shape)
    scale, bias = (per_channel(node.input(name), normal, node, ir) for name in ("scale", "bias"))
    return ir.add(ir.mul(normal, scale), bias)


def stash_type(x: Value, node: Node) -> DType:
    """The type that the attribute `stash_type` names; f32, its default, does not narrow f64."""
    dtype = node.dtype("stash_type")
    if not dtype.is_float:
        node.fail(
            "stash-type", f"stash_type is {dtype}, not a float", rule=f"ONNX {node.operator}, attribute stash_type"
        )
    return F64 if (x.dtype, dtype) == (F64, F32) else dtype


def _by_groups(x: Value, dtype: DType, node: Node, ir: Builder) -> Value:
    """dtype[N, num_groups, C/num_groups, *S], standardised over all axes from 2 on."""
    _expect_channels(x, node)
    batch, channels, *spatial = x.shape
    groups = node.int("num_groups")
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        message = f"{channels} channels cannot be split into {groups} groups"
        node.fail("normalization-groups", message, rule="ONNX GroupNormalization, attribute num_groups")
    grouped = ir.reshape(ir.cast(x, dtype), (batch, groups, floordiv(channels, groups), *spatial))
    return standardize(grouped, range(2, grouped.rank), node.float("epsilon"), ir)
