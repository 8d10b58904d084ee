"""Softmax, LogSoftmax and Hardmax along an axis; before opset 13, of rows that the trailing axes are flattened into.

input: T[...]  ->  T[...]

Source: https://onnx.ai/onnx/operators/
"""

from collections.abc import Callable

from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

AlongAxis = Callable[[Builder, Value, int], Value]


def _hardmax(ir: Builder, x: Value, axis: int) -> Value:
    """1 at the first maximum along the axis, 0 elsewhere."""
    index = ir.unsqueeze(ir.arg_reduce(x, "max", axis), [axis])
    return ir.cast(ir.equal(ir.iota(x.shape, axis, I64), index), x.dtype)


ROWS: dict[str, AlongAxis] = {"Softmax": Builder.softmax, "LogSoftmax": Builder.log_softmax, "Hardmax": _hardmax}


def _along_axis(function: AlongAxis) -> Lowering:
    def lower(node: Node, ir: Builder) -> Value:
        x = node.input("input")
        return function(ir, x, node.axis("axis", rank=x.rank))

    return lower


def _of_rows(function: AlongAxis) -> Lowering:
    """The axes from `axis` on are one row."""

    def lower(node: Node, ir: Builder) -> Value:
        x = node.input("input")
        axis = node.axis("axis", rank=x.rank)
        if all(size == 1 for size in x.shape[axis + 1 :]):
            return function(ir, x, axis)
        rows = ir.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))
        return ir.reshape(function(ir, rows, 1), x.shape)

    return lower


ROWS_OF_TRAILING_AXES = {name: _of_rows(function) for name, function in ROWS.items()}
ROWS_ALONG_AXIS = {name: _along_axis(function) for name, function in ROWS.items()}

for _name in ROWS:
    operator(_name, since=(1, 11))(ROWS_OF_TRAILING_AXES[_name])
    operator(_name, since=(13,))(ROWS_ALONG_AXIS[_name])
