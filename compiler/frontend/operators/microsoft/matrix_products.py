"""Matrix products of com.microsoft, with transposes, factors and activations that are fused into them."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.fused_activations import activated, named_parameters
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.standard_nodes import first_result, standard_node
from onnxc.compiler.frontend.operators.math.gemm import gemm
from onnxc.compiler.frontend.operators.microsoft.activations import with_last_axis_bias
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value


@operator("FusedMatMul", since=(1,), domain=MICROSOFT)
@operator("TransposeMatMul", since=(1,), domain=MICROSOFT)
def fused_matmul(node: Node, ir: Builder) -> Value:
    """A: T[..., M, K], B: T[..., K, N]  ->  T[..., M, N]: alpha * A' B', rounded once

    transA and transB swap the last two axes, before which transBatchA and transBatchB bring axis 0 next to the last:
    [M, ..., K] to [..., M, K].
    """
    a, b = (_transposed(node.input(name), name, node, ir) for name in ("A", "B"))
    product = ir.matmul(a, b, wide_type(a.dtype))
    alpha = node.float("alpha")
    return ir.cast(product if alpha == 1 else ir.mul(product, alpha), a.dtype)


def _transposed(x: Value, name: str, node: Node, ir: Builder) -> Value:
    if x.rank < 2:
        return x
    order = list(range(x.rank))
    if node.flag(f"transBatch{name}", False):
        order = [*order[1:-1], 0, order[-1]]
    if node.flag(f"trans{name}"):
        order[-2:] = order[-1], order[-2]
    return x if order == sorted(order) else ir.transpose(x, order)


@operator("FusedMatMulActivation", since=(1,), domain=MICROSOFT)
def fused_matmul_activation(node: Node, ir: Builder) -> Value:
    """As FusedMatMul, then the activation."""
    return activated(first_result(fused_matmul, node, ir), named_parameters(node), node, ir)


@operator("FusedGemm", since=(1,), domain=MICROSOFT)
def fused_gemm(node: Node, ir: Builder) -> Value:
    """As Gemm, then the activation."""
    product = first_result(gemm, standard_node(node, "Gemm", 13, node.operands), ir)
    return activated(product, named_parameters(node), node, ir)


@operator("GemmFastGelu", since=(1,), domain=MICROSOFT)
def gemm_fast_gelu(node: Node, ir: Builder) -> Value:
    """X: T[..., K], W: T[K, N], bias: T[N]?  ->  T[..., N]: Gelu of X W + bias, approximated by tanh"""
    x, w = node.inputs("X", "W")
    product = ir.matmul(x, w, wide_type(x.dtype))
    return ir.cast(ir.gelu(with_last_axis_bias(product, "bias", node, ir), "tanh"), x.dtype)
