"""A model with an operator of its own: compiled in, saved, and loaded where the operator is not known."""

import tempfile
from pathlib import Path

import numpy as np
import onnx

import onnxc

MODEL = """
<ir_version: 10, opset_import: ["": 21, "example.ops": 1]>
scores (float[N, C] x) => (float[N, C] y) { y = example.ops.SmoothClip <limit = 3.0> (x) }
"""


def smooth_clip(node, ir):
    """limit * tanh(x / limit)"""
    x, limit = node.input("x"), node.float("limit")
    if not x.dtype.is_float:
        node.fail("smooth-clip-type", f"x is {x.dtype}, expected floats")
    return ir.mul(ir.tanh(ir.div(x, limit)), limit)


def main() -> None:
    operator = onnxc.custom_operator(
        "SmoothClip", "example.ops", inputs=["x"], outputs=["y"], attributes={"limit": "float"}, build=smooth_clip
    )
    compiled = onnxc.compile(onnx.parser.parse_model(MODEL), operators=[operator])
    x = np.array([[-100, -1, 0, 1, 100]], np.float32)
    print("clipped:", np.round(compiled(x), 3))
    with tempfile.TemporaryDirectory() as scratch:
        artifact = Path(scratch) / "scores.onnxc"
        compiled.save(artifact)
        print("same answer without the operator:", np.array_equal(compiled(x), onnxc.load(artifact)(x)))


if __name__ == "__main__":
    main()
