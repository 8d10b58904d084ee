"""Control flow. The ops declare their result types; blocks are isolated, so what they use from outside is operands.

if(condition: bool[], captures...): two blocks, each of the captures, with the results of the op.

while(limit: i64[], condition: bool[], carried..., captures...) {carried, scans, symbol}: one block of
(iteration: i64[], carried..., captures...) with the results (condition: bool[], carried..., scanned elements...). It
runs while iteration < limit and the condition holds. Results: the last carried values, then for each scanned element
one tensor with all of them stacked along a new first axis, whose size is `symbol`. Elements of a rank that only data
tells are stacked to such a tensor, too; of no rounds that has one axis.

recurrence(states..., captures...) {trips, carried, scans}: loops of `trips` rounds side by side, a block for each, of
(iteration: i64[], carried..., captures...) with the results (carried..., scanned elements...). Operands begin with the
`carried` first values of each loop; the results are, loop after loop, its last carried values and stacked elements.
It is what becomes of loops whose rounds one kernel computes (passes/loops/fuse_recurrences.py).

call(operands...) {function}: another function of the module.
"""

from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitive import Anchor, Primitive, define, no_axes


def _if_captures(op: Op) -> int:
    return len(op.operands) - 1


def _while_captures(op: Op) -> int:
    return len(op.operands) - 2 - op.int("carried")


def _recurrence_captures(op: Op) -> int:
    return len(op.operands) - len(op.blocks) * op.int("carried")


define(Primitive("if", "control", None, no_axes, structural=True, captures=_if_captures, kernel=None))
define(
    Primitive("while", "control", None, no_axes, structural=True, captures=_while_captures, binds="symbol", kernel=None)
)
define(
    Primitive(
        "recurrence",
        "control",
        None,
        no_axes,
        structural=True,
        captures=_recurrence_captures,
        kernel=Anchor("recurrence"),
    )
)
define(Primitive("call", "control", None, no_axes, effects=True, structural=True, kernel=None))
