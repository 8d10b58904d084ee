"""Convolutions and pools of com.microsoft: with sums and activations fused into them, and with channels last."""

from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.fused_activations import activated
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import known_integers, of_shape
from onnxc.compiler.frontend.operator_helpers.standard_nodes import first_result, standard_node
from onnxc.compiler.frontend.operators.nn.conv import conv
from onnxc.compiler.frontend.operators.nn.conv_transpose import conv_transpose
from onnxc.compiler.frontend.operators.nn.pooling import max_pool
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

CODE = "fused-sum"


@operator("FusedConv", since=(1,), domain=MICROSOFT)
def fused_conv(node: Node, ir: Builder) -> Value:
    """As Conv, plus Z: T[N, M, *O], then the activation."""
    operands = (*node.inputs("X", "W"), node.optional("B"))
    total = plus(first_result(conv, standard_node(node, "Conv", 11, operands), ir), node.optional("Z"), node, ir)
    return activated(total, node.floats("activation_params", ()), node, ir)


def plus(y: Value, addend: Value | None, node: Node, ir: Builder) -> Value:
    """y + addend, which has the shape of y, or y where there is none; 16-bit floats are rounded once more."""
    if addend is None:
        return y
    addend = of_shape(addend, y.shape, "the fused addend", node, ir, CODE)
    return ir.cast(ir.add(widened(y, ir), widened(addend, ir)), y.dtype)


def channels_first(x: Value, ir: Builder) -> Value:
    """T[N, *S, C] -> T[N, C, *S]"""
    return ir.transpose(x, (0, x.rank - 1, *range(1, x.rank - 1)))


def channels_last(x: Value, ir: Builder) -> Value:
    """T[N, C, *S] -> T[N, *S, C]"""
    return ir.transpose(x, (0, *range(2, x.rank), 1))


def _with_channels_last(name: str, version: int, lowering: Lowering, last: tuple[int, ...] = (0,)) -> Lowering:
    """The lowering of the standard's operator `name` for operands, those numbered `last`, and a result of that form."""

    def lower(node: Node, ir: Builder) -> Value:
        operands = [
            _channels_first_operand(value, node, ir) if index in last else value
            for index, value in enumerate(node.operands)
        ]
        return channels_last(first_result(lowering, standard_node(node, name, version, operands), ir), ir)

    return lower


def _channels_first_operand(value: Value | None, node: Node, ir: Builder) -> Value | None:
    if value is None:
        return None
    tensor = node.tensor_of(value)
    if tensor.rank < 3:
        rule = f"ONNX Runtime {node.operator}"
        node.fail("convolution-rank", f"an operand is {tensor.type}, without spatial axes", rule=rule)
    return channels_first(tensor, ir)


# W: T[M, *K, C/group], which is how the optimiser writes it and the CUDA kernel reads it, whatever the schema says.
operator("NhwcConv", since=(1,), domain=MICROSOFT)(_with_channels_last("Conv", 11, conv, (0, 1)))
operator("NhwcMaxPool", since=(1,), domain=MICROSOFT)(_with_channels_last("MaxPool", 12, max_pool))


@operator("NhwcFusedConv", since=(1,), domain=MICROSOFT)
def nhwc_fused_conv(node: Node, ir: Builder) -> Value:
    """As FusedConv, with the channels of X, Z and the result last; W: T[M, C/group, *K]"""
    x, w = node.inputs("X", "W")
    images = _channels_first_operand(x, node, ir)
    plain = standard_node(node, "Conv", 11, (images, w, node.optional("B")))
    y = channels_last(first_result(conv, plain, ir), ir)
    return activated(plus(y, node.optional("Z"), node, ir), node.floats("activation_params", ()), node, ir)


@operator("ConvTransposeWithDynamicPads", since=(1,), domain=MICROSOFT)
def conv_transpose_with_dynamic_pads(node: Node, ir: Builder) -> Value:
    """As ConvTranspose, with the attribute `pads` as the input Pads: i64[2 * number of spatial axes]."""
    given = node.optional("Pads")
    pads = () if given is None else known_integers(given, ir)
    if pads is None:
        node.unsupported("Pads are only known at run time; make them a constant")
    operands = (*node.inputs("X", "W"), node.optional("B"))
    plain = standard_node(node, "ConvTranspose", 11, operands, {"pads": pads} if pads else {})
    return first_result(conv_transpose, plain, ir)
