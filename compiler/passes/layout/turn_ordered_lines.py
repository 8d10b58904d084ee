"""Lines that are ordered whole, and cross memory: they are turned to lie side by side, and back behind that."""

from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule

SHORTEST_TURNED = 33
"""Shorter lines are ordered several at once, as they lie. Of longer ones the digits are counted where they are dense:
16 lines of 1,000 f32 took 485 us as they lay and take 142, of i64 1,030 and 125; 512 lines of 100 f32 1,213 and 669."""


def turn_ordered_lines(module: Module) -> Module:
    """Turns long lines that are ordered whole along another axis than the last."""
    return rewrite(module, [turn_sorted, turn_best])


@rule("sort")
def turn_sorted(op: Op, build: Rewriter) -> Outcome:
    """sort(x, axis) = transpose(sort(transpose(x), last)), of long lines"""
    return _turned(op, build)


@rule("top_k")
def turn_best(op: Op, build: Rewriter) -> Outcome:
    """top_k(x, k, axis) = transpose(top_k(transpose(x), k, last)), of long lines of which all are kept"""
    is_whole = op.results[0].shape[op.int("axis")] == op.operands[0].shape[op.int("axis")]
    return _turned(op, build) if is_whole else None


def _turned(op: Op, build: Rewriter) -> Outcome:
    (x,), axis = op.operands, op.int("axis")
    last, length = x.rank - 1, x.shape[axis]
    if axis == last or (isinstance(length, int) and length < SHORTEST_TURNED):
        return None
    # The two axes change places, so that one order is its own inverse.
    order = [{axis: last, last: axis}.get(each, each) for each in range(x.rank)]
    ordered = build.op(op.name, [build.transpose(x, order)], {**op.attributes, "axis": last})
    return tuple(build.transpose(result, order) for result in ordered)
