"""Illegal nodes: what is certainly wrong is a ModelError with a code, whatever else the model knows."""

import numpy as np
import pytest
from onnx import TensorProto

from onnxc.runtime.errors import ModelError
from tests.operators.tensor_operators import i64, lower_operator

F = np.zeros
X = F((2, 3), np.float32)
IMAGE = F((1, 4, 3, 3), np.float32)

# operator, opset, operands, attributes, code
CASES = [
    ("Reshape", 14, {"x": X, "p": i64(4, 2)}, {}, "reshape-elements"),
    ("Reshape", 14, {"x": X, "p": i64(4, -1)}, {}, "reshape-elements"),
    ("Reshape", 14, {"x": X, "p": i64(-1, -1)}, {}, "reshape-inferred"),
    ("Reshape", 14, {"x": X, "p": i64(0, -1)}, {"allowzero": 1}, "reshape-inferred"),
    ("Reshape", 14, {"x": X, "p": i64(2, 3, 0)}, {}, "reshape-copied"),
    ("Reshape", 14, {"x": X, "p": i64(-2, 3)}, {}, "reshape-size"),
    ("Reshape", 14, {"x": X, "p": F((1, 2), np.int64)}, {}, "not-a-vector"),
    ("Flatten", 13, {"x": X}, {"axis": 3}, "axis-out-of-range"),
    ("Transpose", 13, {"x": X}, {"perm": [0, 0]}, "not-a-permutation"),
    ("Transpose", 13, {"x": X}, {"perm": [0]}, "not-a-permutation"),
    ("Squeeze", 13, {"x": X, "p": i64(2)}, {}, "axis-out-of-range"),
    ("Squeeze", 13, {"x": X, "p": i64(0)}, {}, "squeeze-size"),
    ("Unsqueeze", 13, {"x": X, "p": i64(0, 0)}, {}, "repeated-axis"),
    ("Unsqueeze", 13, {"x": X, "p": i64(4)}, {}, "axis-out-of-range"),
    ("Concat", 13, {"x": X, "y": F((2, 3, 1), np.float32)}, {"axis": 0}, "concat-rank"),
    ("Concat", 13, {"x": X, "y": F((2, 2), np.float32)}, {"axis": 0}, "concat-sizes"),
    ("Concat", 13, {"x": X, "y": X}, {"axis": 2}, "axis-out-of-range"),
    ("Split", 18, {"x": X, "p": i64(1)}, {"axis": 0}, "split-sum"),
    ("Split", 18, {"x": X, "p": i64(1, 1)}, {}, "split-count"),
    ("Split", 18, {"x": X, "p": i64(2)}, {"num_outputs": 1}, "split-twice"),
    ("Split", 18, {"x": X}, {"num_outputs": 2}, "split-count"),
    ("Split", 11, {"x": X}, {"split": [-2]}, "split-length"),
    ("Slice", 13, {"x": X, "p": i64(0), "q": i64(1), "a": i64(0), "s": i64(0)}, {}, "slice-step"),
    ("Slice", 13, {"x": X, "p": i64(0), "q": i64(1, 2)}, {}, "slice-lengths"),
    ("Slice", 13, {"x": X, "p": i64(0), "q": i64(1), "a": i64(2)}, {}, "axis-out-of-range"),
    ("Slice", 1, {"x": X}, {"starts": [0], "ends": [1, 1]}, "slice-lengths"),
    ("Pad", 13, {"x": X, "p": i64(1, 1)}, {}, "pads-length"),
    ("Pad", 13, {"x": X, "p": i64(-2, 0, -1, 0)}, {}, "pads-beyond-size"),
    ("Pad", 13, {"x": F((0,)), "p": i64(1, 0)}, {"mode": "edge"}, "pads-empty-axis"),
    ("Pad", 18, {"x": X, "p": i64(1, 0, 0, 0)}, {"mode": "circular"}, "attribute-value"),
    ("Pad", 2, {"x": X}, {"pads": [1]}, "pads-length"),
    ("Expand", 13, {"x": X, "p": i64(5, 3)}, {}, "expand-incompatible"),
    ("Expand", 13, {"x": X, "p": i64(-1, 3)}, {}, "negative-size"),
    ("Tile", 13, {"x": X, "p": i64(2)}, {}, "tile-repeats"),
    ("Gather", 13, {"x": X, "p": i64(0, 2)}, {}, "index-out-of-range"),
    ("Gather", 13, {"x": X, "p": i64(-3)}, {}, "index-out-of-range"),
    ("Gather", 13, {"x": F(()), "p": i64(0)}, {}, "axis-out-of-range"),
    ("GatherElements", 13, {"x": X, "p": i64(0)}, {}, "gather-rank"),
    ("GatherElements", 13, {"x": X, "p": F((3, 3), np.int64)}, {"axis": 1}, "gather-sizes"),
    ("GatherND", 13, {"x": X, "p": F((1, 3), np.int64)}, {}, "index-depth"),
    ("GatherND", 13, {"x": X, "p": F((1, 1), np.int64)}, {"batch_dims": 2}, "batch-dims"),
    ("ScatterElements", 18, {"x": X, "p": F((1, 3), np.int64), "u": X}, {}, "scatter-updates"),
    ("ScatterElements", 18, {"x": X, "p": F((2, 3), np.int64), "u": X}, {"reduction": "mean"}, "attribute-value"),
    ("ScatterND", 18, {"x": X, "p": F((1, 1), np.int64), "u": F((1, 2), np.float32)}, {}, "scatter-updates"),
    ("TensorScatter", 24, {"x": X, "u": X}, {"axis": 0}, "tensor-scatter-axis"),
    ("TensorScatter", 24, {"x": X, "u": F((2, 4), np.float32)}, {"axis": 1}, "tensor-scatter-update"),
    ("Constant", 13, {}, {"value_int": 1, "value_float": 1.0}, "constant-value"),
    ("ConstantOfShape", 20, {"p": i64(-1)}, {}, "negative-size"),
    ("Range", 11, {"p": np.array(0), "q": np.array(1), "r": np.array(0)}, {}, "range-delta"),
    ("Trilu", 14, {"x": F(3)}, {}, "trilu-rank"),
    ("EyeLike", 9, {"x": F(3)}, {}, "eye-rank"),
    ("EyeLike", 9, {"x": X}, {"dtype": 99}, "unknown-element-type"),
    ("CumSum", 14, {"x": X, "p": np.array(2)}, {}, "axis-out-of-range"),
    ("CumSum", 14, {"x": X, "p": i64(0, 1)}, {}, "not-a-scalar"),
    ("DepthToSpace", 13, {"x": IMAGE}, {"blocksize": 3}, "block-size"),
    ("DepthToSpace", 13, {"x": IMAGE}, {"blocksize": 0}, "block-size"),
    ("SpaceToDepth", 13, {"x": X}, {"blocksize": 1}, "depth-to-space-rank"),
    ("TopK", 11, {"x": X, "p": i64(4)}, {}, "top-k"),
    ("TopK", 1, {"x": X}, {"k": -1}, "top-k"),
    ("Compress", 11, {"x": X, "p": F((2, 2), bool)}, {"axis": 0}, "not-a-vector"),
    ("Compress", 11, {"x": X, "p": F((), bool)}, {}, "not-a-vector"),
    ("Compress", 11, {"x": X, "c": F(4, bool)}, {"axis": 1}, "compress-length"),
    ("OneHot", 11, {"x": i64(0), "p": np.array(2), "v": F(3)}, {}, "one-hot-values"),
    ("OneHot", 11, {"x": i64(0), "p": np.array(-2), "v": F(2)}, {}, "negative-size"),
    ("BitCast", 26, {"x": X}, {"to": TensorProto.INT16}, "bit-width"),
    ("ReverseSequence", 10, {"x": X, "l": i64(1, 1)}, {}, "reverse-lengths"),
    ("ReverseSequence", 10, {"x": X, "l": i64(1, 1)}, {"time_axis": 1}, "reverse-axes"),
    ("CenterCropPad", 18, {"x": X, "p": i64(1)}, {}, "crop-shape"),
    ("Resize", 19, {"x": X, "": None, " ": None}, {}, "resize-target"),
    ("Resize", 19, {"x": X, "": None, "p": np.array([1, 0], np.float32)}, {}, "resize-scale"),
    ("Resize", 19, {"x": X, "": None, "p": np.ones(3, np.float32)}, {}, "resize-lengths"),
    ("Resize", 19, {"x": X, "": None, "p": np.ones(2, np.float32)}, {"mode": "area"}, "attribute-value"),
    ("Resize", 19, {"x": X, "": None, "p": np.ones(2, np.float32)}, {"antialias": 1}, "resize-antialias"),
    (
        "Resize",
        13,
        {"x": X, "": None, "p": np.ones(2, np.float32)},
        {"coordinate_transformation_mode": "quarter_pixel"},
        "attribute-value",
    ),
    (
        "Resize",
        13,
        {"x": X, "": None, "p": np.ones(2, np.float32)},
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        "resize-region",
    ),
    ("Upsample", 1, {"x": X}, {"height_scale": 1.0, "width_scale": 1.0}, "upsample-rank"),
    ("Col2Im", 18, {"x": X, "p": i64(2, 2), "q": i64(1, 1)}, {}, "col2im-rank"),
    ("Col2Im", 18, {"x": F((1, 1, 4)), "p": i64(2, 2), "q": i64(1, 1)}, {"pads": [0]}, "attribute-length"),
    ("GridSample", 20, {"x": IMAGE, "g": F((1, 2, 2, 3), np.float32)}, {}, "grid-shape"),
    ("GridSample", 20, {"x": X, "g": X}, {}, "grid-sample-rank"),
    ("AffineGrid", 20, {"x": F((1, 2, 3), np.float32), "p": i64(1, 1, 2)}, {}, "affine-grid-size"),
    ("RoiAlign", 16, {"x": IMAGE, "r": F((1, 5), np.float32), "b": i64(0)}, {}, "roi-shape"),
    ("MaxRoiPool", 1, {"x": IMAGE, "r": F((1, 5), np.float32)}, {"pooled_shape": [0, 1]}, "attribute-range"),
    (
        "NonMaxSuppression",
        11,
        {"x": F((1, 2, 3), np.float32), "s": F((1, 1, 2), np.float32)},
        {},
        "nms-boxes",
    ),
]


@pytest.mark.parametrize(("operator", "opset", "operands", "attributes", "code"), CASES)
def test_what_is_certainly_wrong_is_a_model_error(
    operator: str, opset: int, operands: dict[str, np.ndarray | None], attributes: dict[str, object], code: str
) -> None:
    outputs = 2 if operator == "TopK" else 1
    with pytest.raises(ModelError, match=rf"error\[{code}\]"):
        lower_operator(
            operator, operands, opset=opset, parameters=["p", "q", "a", "s", "r"], outputs=outputs, **attributes
        )
