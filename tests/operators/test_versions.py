"""Every version of an operator whose meaning never changed gives what the newest gives."""

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import TensorProto

from onnxc.compiler.frontend.schemas import versions
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_same

X = np.float32([[[0.25, 0.5], [0.75, 0.125]]])
ABOVE_ONE = X + np.float32(1)
BOOLS = np.array([True, False])
SCALE, ZERO = np.array(0.125, np.float32), np.array(3, np.uint8)
WINDOW: Mapping[str, object] = {"kernel_shape": [2]}

ONE_OPERAND = (
    "Abs Acos Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor IsInf IsNaN Log Neg Reciprocal Round Sign Sin Sinh "
    "Sqrt Tan Tanh Relu Sigmoid Softplus Softsign Elu HardSigmoid HardSwish LeakyRelu Mish ThresholdedRelu "
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum "
    "ReduceLogSumExp GlobalAveragePool GlobalMaxPool GlobalLpPool"
)
TWO_OPERANDS = "Add Sub Mul Div Pow Greater Less GreaterOrEqual LessOrEqual Max Min Sum Mean"

Row = tuple[tuple[np.ndarray, ...], Mapping[str, object]]
ROWS: dict[str, Row] = {
    **dict.fromkeys(ONE_OPERAND.split(), ((X,), {})),
    **dict.fromkeys(TWO_OPERANDS.split(), ((X, ABOVE_ONE), {})),
    **dict.fromkeys(("ArgMax", "ArgMin"), ((X,), {"axis": 1})),
    **dict.fromkeys(("AveragePool", "MaxPool"), ((X,), WINDOW)),
    **dict.fromkeys(("RandomNormal", "RandomUniform"), ((), {"shape": [3]})),
    **dict.fromkeys(("RandomNormalLike", "RandomUniformLike", "Bernoulli"), ((X,), {"seed": 5.0})),
    "Acosh": ((ABOVE_ONE,), {}),
    "Equal": ((BOOLS, ~BOOLS), {}),
    "PRelu": ((X, SCALE.reshape(1)), {}),
    "LpPool": ((X,), {**WINDOW, "p": 2}),
    "CastLike": ((X, ZERO), {}),
    "QuantizeLinear": ((X, SCALE, ZERO), {}),
    "DequantizeLinear": ((np.uint8([1, 2]), SCALE, ZERO), {}),
    "SoftmaxCrossEntropyLoss": ((X, np.int64([[1, 0]])), {}),
    "Where": ((BOOLS, X, ABOVE_ONE), {}),
}
CASES = [(name, version) for name in ROWS for version in versions("", name)]


def run(operator: str, opset: int) -> np.ndarray:
    operands, attributes = ROWS[operator]
    if operator == "LpPool" and opset == 1:
        attributes = {**attributes, "p": 2.0}
    named = {f"x{place}": operand for place, operand in enumerate(operands)}
    (result,) = run_operator(operator, named, opset=opset, **attributes)
    return result


@pytest.mark.parametrize(("operator", "opset"), CASES)
def test_versions_agree(operator: str, opset: int) -> None:
    assert_same(run(operator, opset), run(operator, versions("", operator)[-1]))


@pytest.mark.parametrize("opset", [version for version in versions("", "Cast") if version > 1])
def test_versions_of_cast_agree(opset: int) -> None:
    assert_same(*run_operator("Cast", {"x": X}, opset=opset, to=TensorProto.FLOAT16), X.astype(np.float16))
