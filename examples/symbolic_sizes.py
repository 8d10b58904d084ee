"""One compilation for every batch size: a model in ONNX text form, called at several sizes within a declared range."""

import numpy as np
from onnx import parser

import onnxc

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
nearest (float[batch, 2] points, float[clusters, 2] centres) => (int64[batch] index) {
    axis = Constant <value_ints = [1]> ()
    last = Constant <value_ints = [-1]> ()
    middle = Constant <value_ints = [0]> ()
    column = Unsqueeze (points, axis)
    row = Unsqueeze (centres, middle)
    offset = Sub (column, row)
    distance = ReduceL2 <keepdims = 0> (offset, last)
    index = ArgMin <axis = 1, keepdims = 0> (distance)
}
"""


def main() -> None:
    model = parser.parse_model(MODEL)
    nearest = onnxc.compile(model, dims={"batch": (0, 1000)})
    centres = np.array([[0, 0], [1, 1], [5, 5]], np.float32)
    rng = np.random.default_rng(0)
    for batch in (0, 1, 7, 1000):
        index = nearest(rng.uniform(0, 6, (batch, 2)).astype(np.float32), centres)
        print(f"batch {batch}: {np.bincount(index, minlength=3)} points near each centre")
    print(f"compiled {nearest.stats.compilations} time, called {nearest.stats.calls} times")
    try:
        nearest(np.zeros((1001, 2), np.float32), centres)
    except onnxc.InputError as problem:
        print(problem)


if __name__ == "__main__":
    main()
