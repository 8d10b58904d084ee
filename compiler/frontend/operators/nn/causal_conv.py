"""CausalConvWithState: a depthwise convolution over the past of each channel, with the last inputs as its state."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operators.nn.conv import per_channel
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

RULE = "ONNX CausalConvWithState"


@operator("CausalConvWithState", since=(27,))
def causal_conv_with_state(node: Node, ir: Builder) -> tuple[Value, Value]:
    """input: T[B, C, L], weight: T[C, 1, k], bias: T[C], past_state: T[B, C, k - 1]  ->  T[B, C, L], T[B, C, k - 1]

    Source: https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
    """
    return convolved_with_state(node.input("input"), node.optional("past_state"), 1, node, ir)


def convolved_with_state(x: Value, past: Value | None, dilation: int, node: Node, ir: Builder) -> tuple[Value, Value]:
    """The results for x: T[B, C, L] and past: T[B, C, (k - 1) * dilation]; the other operands are those of the node."""
    weight = node.input("weight")
    if (x.rank, weight.rank) != (3, 3):
        node.fail("causal-conv-rank", f"the input has {x.rank} axes and the weight {weight.rank}, not 3", rule=RULE)
    batch, channels, length = x.shape
    channels = ir.require_equal(
        channels, weight.shape[0], "the channels of input and weight differ", "convolution-channels"
    )
    weight = of_shape(weight, (channels, 1, None), "weight", node, ir, "causal-conv-weight")
    kernel = weight.shape[2]
    if kernel == 0:
        node.fail("causal-conv-weight", f"weight is {weight.type}: its kernel is empty", rule=f"{RULE}, weight")
    held = (kernel - 1) * dilation
    if past is None:
        past = ir.full((batch, channels, held), 0, x.dtype)
    past = of_shape(past, (batch, channels, held), "past_state", node, ir, "causal-conv-state")
    padded = ir.concatenate([past, ir.with_shape(x, (batch, channels, length))], 2)
    state = ir.slice_axis(padded, 2, length, held)
    dtype = wide_type(x.dtype)
    if isinstance(channels, int):
        result = ir.convolution(padded, weight, [1], [0], [0], [dilation], groups=channels, dtype=dtype)
    else:
        result = _windowed(ir.cast(padded, dtype), ir.cast(weight, dtype), length, dilation, ir)
    bias = node.optional("bias")
    if bias is not None:
        result = ir.add(result, per_channel(bias, result, node, ir))
    result = ir.cast(ir.with_shape(result, (batch, channels, length)), x.dtype)
    if node.choice("activation", ("silu", "swish", "none")) != "none":
        wide = ir.cast(result, dtype)
        result = ir.cast(ir.mul(wide, ir.sigmoid(wide)), x.dtype)
    return result, state


def _windowed(padded: Value, weight: Value, length: Dim, dilation: int, ir: Builder) -> Value:
    """[B, C, L + (k - 1) * dilation], [C, 1, k]  ->  [B, C, L]: the sums of windows of however many channels."""
    kernel = weight.shape[2]
    indices = ir.add(ir.iota((length, kernel), 0, I64), ir.mul(ir.iota((length, kernel), 1, I64), dilation))
    taps = ir.reshape(weight, (weight.shape[0], 1, kernel))
    return ir.reduce(ir.mul(ir.gather(padded, indices, 2), taps), "sum", (3,))
