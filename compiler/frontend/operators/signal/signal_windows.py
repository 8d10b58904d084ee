"""HannWindow, HammingWindow and BlackmanWindow: sums of cosines over one period.

size: I[]  ->  output: T[size]

Source: https://onnx.ai/onnx/operators/
"""

from collections.abc import Sequence
from math import pi

from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dtypes import F64
from onnxc.compiler.ir.module import Value

# operator: the factors of cos(0), cos(t), cos(2t), ...
ROWS: dict[str, Sequence[float]] = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, 25 / 46 - 1),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


def _lowering(factors: Sequence[float]) -> Lowering:
    def lower(node: Node, ir: Builder) -> Value:
        """Computed in f64; t makes one turn in `size` steps, or in `size` - 1 where the window is symmetric."""
        length = as_scalar(node.input("size"), "size", node, ir)
        (size,) = read_lengths(length, "size", node, ir, code="window-size")
        steps = size if node.flag("periodic") else maximum(1, size - 1)
        turn = ir.div(ir.mul(ir.iota((size,), 0, F64), 2 * pi), ir.cast(ir.size(steps), F64))
        # The constant comes last: in this order the middle of a window is 1, which a cast to integers must not miss.
        total = ir.full((size,), 0.0, F64)
        for harmonic, factor in enumerate(factors[1:], start=1):
            total = ir.add(total, ir.mul(ir.unary("cos", ir.mul(turn, harmonic)), factor))
        return ir.cast(ir.add(total, factors[0]), node.dtype("output_datatype"))

    return lower


for _name, _factors in ROWS.items():
    operator(_name, since=(17,))(_lowering(_factors))
