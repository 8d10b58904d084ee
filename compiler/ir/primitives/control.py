"""Control flow. The ops declare their result types; blocks are isolated, so what they use from outside is operands.

if(condition: bool[], captures...): two blocks, each of the captures, with the results of the op.

while(limit: i64[], condition: bool[], carried..., captures...) {carried, scans, symbol}: one block of
(iteration: i64[], carried..., captures...) with the results (condition: bool[], carried..., scanned elements...). It
runs while iteration < limit and the condition holds. Results: the last carried values, then for each scanned element
one tensor with all of them stacked along a new first axis, whose size is `symbol`.

call(operands...) {function}: another function of the module.
"""

from onnxc.compiler.ir.primitive import Primitive, define, no_axes

define(Primitive("if", "control", None, no_axes, effects=True, structural=True))
define(Primitive("while", "control", None, no_axes, effects=True, structural=True))
define(Primitive("call", "control", None, no_axes, effects=True, structural=True))
