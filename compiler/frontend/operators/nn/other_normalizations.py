"""LRN, LpNormalization and MeanVarianceNormalization.

Source: https://onnx.ai/onnx/operators/
"""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import in_wide
from onnxc.compiler.frontend.operator_helpers.standardize import moments
from onnxc.compiler.frontend.operators.nn.pooling import power, root
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

# The epsilon of the function body in the standard, where it is no attribute.
MEAN_VARIANCE_EPSILON = 1e-9


@operator("LRN", since=(1, 13))
def lrn(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S]  ->  X / (bias + alpha / size * sum of X^2 over the nearest `size` channels) ^ beta

    Source: https://onnx.ai/onnx/operators/onnx__LRN.html
    """
    x, size = node.input("X"), node.int("size")
    if x.rank < 2:
        node.fail("normalization-rank", f"X has {x.rank} axes, no channels", rule="ONNX LRN")
    if size < 1:
        node.fail("attribute-range", f"size is {size}", rule="ONNX LRN, attribute size")
    return in_wide(lambda wide: ir.div(wide, _divisor(wide, size, node, ir)), x, ir)


def _divisor(x: Value, size: int, node: Node, ir: Builder) -> Value:
    before, after, once = (size - 1) // 2, size // 2, [1] * (x.rank - 2)
    none = [0] * (x.rank - 2)
    squares = ir.reduce_window(
        ir.square(x),
        "sum",
        window=[1, size, *once],
        strides=[1, 1, *once],
        low=[0, before, *none],
        high=[0, after, *none],
        dilations=[1, 1, *once],
    )
    base = ir.add(ir.mul(squares, node.float("alpha") / size), node.float("bias"))
    return ir.pow(base, node.float("beta"))


@operator("LpNormalization", since=(1, 22))
def lp_normalization(node: Node, ir: Builder) -> Value:
    """input: T[...]  ->  input / (sum of |input|^p along the axis)^(1/p), 0 where that is 0

    Source: https://onnx.ai/onnx/operators/onnx__LpNormalization.html
    """
    x, p = node.input("input"), node.int("p")
    axis = node.axis("axis", rank=x.rank)
    if p not in (1, 2):
        node.fail("lp-order", f"p is {p}, not 1 or 2", rule="ONNX LpNormalization, attribute p")

    def normalize(wide: Value) -> Value:
        norm = root(ir.reduce(power(wide, p, ir), "sum", [axis], keepdims=True), p, ir)
        return ir.select(ir.equal(norm, 0), 0, ir.div(wide, norm))

    return in_wide(normalize, x, ir)


@operator("MeanVarianceNormalization", since=(9, 13))
def mean_variance_normalization(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  (X - mean) / (standard deviation + 1e-9) over `axes`

    Source: https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html
    """
    x = node.input("X")
    axes = node.axes_list(node.ints("axes"), x.rank)

    def normalize(wide: Value) -> Value:
        mean, variance = moments(wide, axes, ir)
        return ir.div(ir.sub(wide, mean), ir.add(ir.sqrt(variance), MEAN_VARIANCE_EPSILON))

    return in_wide(normalize, x, ir)
