"""What an element of a value costs, in simple instructions."""

from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitive import PRIMITIVES

FLOAT_TO_INTEGER = 5
"""The work of an integer that a float becomes: it is bounded, compared with itself for NaN, and converted."""


def element_cost(op: Op) -> int:
    """The work of having an element of the result, in simple instructions: computing it, or reading what is written."""
    if op.name == "cast" and op.operands[0].dtype.is_float and op.dtype().is_integer:
        return FLOAT_TO_INTEGER
    cost = PRIMITIVES[op.name].cost
    return 1 if cost is None else cost
