"""SVMRegressor: a weighted sum of kernels, or a linear function."""

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.score_transforms import TRANSFORMS
from onnxc.compiler.frontend.operator_helpers.svm_kernels import (
    constant_of,
    kernel_values,
    merged_vectors,
    support_vectors,
)
from onnxc.compiler.frontend.operators.ml.linear_models import rows_of_features
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value


@operator("SVMRegressor", since=(1,), domain="ai.onnx.ml")
def svm_regressor(node: Node, ir: Builder) -> Value:
    """X: T[N, F]  ->  f32[N, 1]; with `one_class` its sign, -1 for 0

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_SVMRegressor.html
    """
    x, count = rows_of_features(node, ir), node.int("n_supports")
    coefficients = np.array(node.floats("coefficients"))
    node.choice("post_transform", TRANSFORMS)
    if count < 0:
        node.fail("svm-vectors", f"n_supports is {count}, below 0", rule="ONNX SVMRegressor, n_supports")
    if not node.floats("rho"):
        node.fail("svm-rho", "rho has no entry", rule="ONNX SVMRegressor, rho")
    if count > 0:
        vectors, coefficients = merged_vectors(support_vectors(count, node), coefficients, node)
        seen = kernel_values(x, vectors, node, ir)
    else:
        seen = x
    ir.require_equal(
        seen.shape[1], coefficients.size, "the values and their coefficients differ in number", "svm-coefficients"
    )
    # Not a product of matrices: it would have one column, where panels have sixteen.
    scores = ir.reduce(ir.mul(seen, constant_of(coefficients, x, ir)), "sum", (1,))
    scores = ir.unsqueeze(ir.add(scores, node.floats("rho")[0]), (1,))
    if node.flag("one_class"):
        scores = ir.select(ir.less(0, scores), ir.full(scores.shape, 1.0, scores.dtype), -1.0)
    return ir.cast(scores, F32)
