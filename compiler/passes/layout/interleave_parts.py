"""Parts that are joined and then turned to alternate are joined alternating, as channels that two branches shuffle.

Joined one after the other they are written once, and read and written again for the turn.
"""

from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import axis_groups


def interleave_parts(module: Module) -> Module:
    """Joins parts of one size along the axis that a turn makes of their number."""
    return rewrite(module, [join_alternating])


@rule("transpose")
def join_alternating(op: Op, build: Rewriter) -> Outcome:
    """transpose(reshape(concatenate(x, y))) = concatenate(reshape(x), reshape(y)) where only the parts' axis moves"""
    split = made_by(op.operands[0], "reshape")
    joined = None if split is None else made_by(split.operands[0], "concatenate")
    if split is None or joined is None or build.uses(split.result) > 1 or build.uses(joined.result) > 1:
        return None
    parts, axis = joined.operands, joined.int("axis")
    halves = dict(axis_groups(joined.result.shape, split.result.shape) or ()).get((axis,), ())
    if len(halves) != 2:
        return None
    part_axis, size = halves[0], split.result.shape[halves[1]]
    permutation = op.ints("permutation")
    others = [each for each in permutation if each != part_axis]
    is_even = split.result.shape[part_axis] == len(parts) and all(part.shape[axis] == size for part in parts)
    if not is_even or others != sorted(others):
        return None
    position = permutation.index(part_axis)
    shape = [split.result.shape[each] for each in others]
    alone = [build.with_shape(part, (*shape[:position], 1, *shape[position:])) for part in parts]
    return build.concatenate(alone, position)
