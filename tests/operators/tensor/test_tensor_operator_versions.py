"""Every version of a tensor operator, on what its signature takes, gives the same."""

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from onnxc.compiler.frontend.schemas import versions
from tests.operators.tensor_operators import i64, run_operator
from tests.support.arrays import assert_same

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
PLANE = np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2)
ROIS = np.array([[0, 0, 1, 1]], np.float32)
HALVES = np.array([[1, 1], [0, 1]], bool)

# operator: rows of (first version, operands, attributes), and the result
Row = tuple[int, tuple[np.ndarray | None, ...], Mapping[str, object]]
ROWS: dict[str, tuple[tuple[Row, ...], np.ndarray]] = {
    "Reshape": (((1, (X,), {"shape": [3, -1]}), (5, (X, i64(3, -1)), {})), X.reshape(3, 2)),
    "Transpose": (((1, (X,), {}),), X.T),
    "Squeeze": (((1, (X[None],), {"axes": [0]}), (13, (X[None], i64(0)), {})), X),
    "Unsqueeze": (((1, (X,), {"axes": [0]}), (13, (X, i64(0)), {})), X[None]),
    "Flatten": (((1, (X,), {"axis": 0}),), X.reshape(1, 6)),
    "Concat": (((1, (X, X), {"axis": 1}),), np.concatenate([X, X], 1)),
    "Split": (((1, (X,), {"axis": 0, "split": [2]}), (13, (X, i64(2)), {})), X),
    "Slice": (
        ((1, (X,), {"starts": [1], "ends": [9], "axes": [1]}), (10, (X, i64(1), i64(9), i64(1)), {})),
        X[:, 1:],
    ),
    "Pad": (
        (
            (1, (X,), {"paddings": [0, 1, 0, 0]}),
            (2, (X,), {"pads": [0, 1, 0, 0]}),
            (11, (X, i64(0, 1, 0, 0)), {}),
        ),
        np.pad(X, ((0, 0), (1, 0))),
    ),
    "Expand": (((8, (X, i64(2, 1, 1)), {}),), np.stack([X, X])),
    "Tile": (
        (
            (1, (X, np.array(2, np.float32), np.array(1, np.float32)), {}),
            (6, (X, i64(1, 2)), {}),
        ),
        np.tile(X, (1, 2)),
    ),
    "Gather": (((1, (X, i64(1, 0)), {}),), X[[1, 0]]),
    "GatherElements": (((11, (X, i64(1, 0, 1)[None]), {}),), X[[1, 0, 1], [0, 1, 2]][None]),
    "GatherND": (((11, (X, i64(1, 2)[None]), {}),), X[1, 2:]),
    "Scatter": (((9, (X, i64(0, 0, 0)[None], -X[:1]), {}),), np.stack([-X[0], X[1]])),
    "ScatterElements": (((11, (X, i64(0, 0, 0)[None], -X[:1]), {}),), np.stack([-X[0], X[1]])),
    "ScatterND": (((11, (X, i64(0)[None], -X[:1]), {}),), np.stack([-X[0], X[1]])),
    "TensorScatter": (((24, (X, -X[:, :2]), {"axis": 1}),), np.concatenate([-X[:, :2], X[:, 2:]], 1)),
    "Shape": (((1, (X,), {}),), i64(2, 3)),
    "Size": (((1, (X,), {}),), np.array(6)),
    "Constant": (((1, (), {"value": numpy_helper.from_array(X, "")}),), X),
    "ConstantOfShape": (((9, (i64(2),), {}),), np.zeros(2, np.float32)),
    "Range": (((11, (np.array(1.0), np.array(3.0), np.array(1.0)), {}),), np.array([1.0, 2.0])),
    "Trilu": (((14, (X,), {}),), np.triu(X)),
    "EyeLike": (((9, (X,), {"dtype": TensorProto.INT32}),), np.eye(2, 3, dtype=np.int32)),
    "CumSum": (((11, (X, np.array(1)), {}),), np.cumsum(X, 1)),
    "CumProd": (((26, (X, np.array(1)), {}),), np.cumprod(X, 1)),
    "Resize": (
        (
            (10, (X, np.array([1, 2], np.float32)), {}),
            (11, (X, np.zeros(0, np.float32), np.array([1, 2], np.float32)), {}),
            (13, (X, None, np.array([1, 2], np.float32)), {}),
        ),
        X.repeat(2, 1),
    ),
    "Upsample": (
        (
            (1, (PLANE,), {"height_scale": 1.0, "width_scale": 2.0}),
            (7, (PLANE,), {"scales": [1.0, 1.0, 1.0, 2.0]}),
            (9, (PLANE, np.array([1, 1, 1, 2], np.float32)), {}),
        ),
        PLANE.repeat(2, 3),
    ),
    "DepthToSpace": (
        ((1, (PLANE,), {"blocksize": 2}),),
        PLANE.reshape(1, 2, 2, 1, 2, 2).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 4, 4),
    ),
    "SpaceToDepth": (
        ((1, (PLANE,), {"blocksize": 2}),),
        PLANE.transpose(0, 2, 3, 1).reshape(1, 16, 1, 1),
    ),
    "TopK": (((1, (X,), {"k": 1}), (10, (X, i64(1)), {})), X[:, 2:]),
    "NonZero": (((9, (HALVES,), {}),), np.argwhere(HALVES).T),
    "OneHot": (((9, (i64(1), np.array(2), X[0, :2]), {}),), np.array([[1, 2]], np.float32)),
    "Identity": (((1, (X,), {}),), X),
    "Compress": (((9, (X, HALVES[1]), {"axis": 0}),), X[1:]),
    "ReverseSequence": (((10, (X, i64(2, 1, 2)), {}),), np.array([[4, 2, 6], [1, 5, 3]], np.float32)),
    "CenterCropPad": (((18, (X, i64(2, 1)), {}),), X[:, 1:2]),
    "Col2Im": (((18, (X.reshape(1, 2, 3), i64(1, 3), i64(1, 1)), {}),), X.reshape(1, 2, 1, 3)),
    "GridSample": (((16, (PLANE, np.zeros((1, 1, 1, 2), np.float32)), {}),), PLANE.mean((2, 3), keepdims=True)),
    "AffineGrid": (((20, (X[None], i64(1, 1, 1, 1)), {}),), X[None, None, None, :, 2]),
    "RoiAlign": (((10, (PLANE, ROIS, i64(0)), {}),), PLANE.mean((2, 3), keepdims=True)),
    "MaxRoiPool": (
        ((1, (PLANE, np.pad(ROIS, ((0, 0), (1, 0)))), {"pooled_shape": [1, 1]}),),
        PLANE.max((2, 3), keepdims=True),
    ),
    "NonMaxSuppression": (((10, (ROIS[None], np.ones((1, 1, 1), np.float32), i64(1)), {}),), i64(0, 0, 0)[None]),
    "Unique": (((11, (np.array([3, 1, 3]),), {}),), i64(1, 3)),
    "BitCast": (((26, (X,), {"to": TensorProto.INT32}),), X.view(np.int32)),
}
# The operands after the first are shapes, axes and the like, or may as well be constants.
PARAMETERS = ("x1", "x2", "x3")
CASES = [(name, version) for name in ROWS for version in versions("", name)]


@pytest.mark.parametrize(("operator", "opset"), CASES)
def test_every_version_gives_the_same(operator: str, opset: int) -> None:
    rows, expected = ROWS[operator]
    _, operands, attributes = [row for row in rows if row[0] <= opset][-1]
    if operator == "RoiAlign" and opset >= 16:
        attributes = {**attributes, "coordinate_transformation_mode": "output_half_pixel"}
    inputs = {f"x{place}": operand for place, operand in enumerate(operands)}
    outputs = 2 if operator == "TopK" else 1
    result, *_ = run_operator(operator, inputs, opset=opset, parameters=PARAMETERS, outputs=outputs, **attributes)
    assert_same(result, expected)
