"""Turns of axes with reshapes between them are one turn, of axes split as finely as all of them ask for.

Where reshapes split and merge axes, two transposes in turn are none that a rule of the IR puts together: pixels that
become patches, or channels that become groups and go back to lie last. What makes the value writes it in any one order
itself, and what reads it steps through one; each turn more is a launch that only moves.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.simplify.rules.reshapes import merge_reshapes

MOVEMENTS = ("reshape", "transpose")


def compose_turns(module: Module) -> Module:
    """Makes chains of transposes and reshapes one transpose between two reshapes."""
    return rewrite(module, [turn_once, merge_reshapes])


@rule("transpose", "reshape")
def turn_once(op: Op, build: Rewriter) -> Outcome:
    """transpose(reshape(transpose(x, p)), q) = reshape(transpose(reshape(x), r))"""
    chain = _chain(op, build)
    if sum(each.name == "transpose" for each in chain) < 2:
        return None
    x = chain[0].operands[0]
    axes = _SplitAxes(x.shape)
    for each in chain:
        if each.name == "transpose":
            axes.order = [axes.order[axis] for axis in each.ints("permutation")]
        elif not axes.regroup(each.result.shape):
            return None
    return axes.turned(x, op.result.shape, build)


def _chain(op: Op, build: Rewriter) -> list[Op]:
    """The movements that end with `op`, the first one first; the results of all others are used once."""
    chain = [op]
    while (above := made_by(chain[0].operands[0], *MOVEMENTS)) is not None and build.uses(above.result) == 1:
        chain.insert(0, above)
    while chain and (chain[0].name == "reshape" or made_by(chain[0].operands[0], "attention") is not None):
        # What only comes before the first turn stays as it is, and what attention writes is turned by its kernel, which
        # splits no axis.
        del chain[0]
    return chain


class _SplitAxes:
    """Axes of a value as runs of parts, no part of which any movement so far has split.

    sizes: of each part. source: the parts in the order of the value itself. order: those of each axis as it is now.
    """

    def __init__(self, shape: Sequence[Dim]) -> None:
        self.sizes: list[Dim] = [*shape]
        self.source = [*range(len(shape))]
        self.order = [[part] for part in self.source]

    def regroup(self, shape: Sequence[Dim]) -> bool:
        """Makes axes of these sizes of the parts, in order; whether they can be split so that none is left."""
        parts = [part for axis in self.order for part in axis if self.sizes[part] != 1]
        order: list[list[int]] = []
        for size in shape:
            axis: list[int] = []
            while (whole := product(self.sizes[part] for part in axis)) != size:
                if not parts:
                    return False
                part = parts.pop(0)
                wanted = floordiv(size, whole) if whole != 0 else 0
                if product((whole, wanted)) != size or wanted == 0:
                    return False
                rest = floordiv(self.sizes[part], wanted)
                if rest not in (0, 1) and product((wanted, rest)) == self.sizes[part]:
                    parts.insert(0, self._split(part, wanted, rest))
                axis.append(part)
            order.append(axis)
        self.order = order
        return not parts

    def _split(self, part: int, first: Dim, second: Dim) -> int:
        """Makes two parts of one, which keeps its number as the first of them; the number of the second."""
        self.sizes[part] = first
        self.sizes.append(second)
        other = len(self.sizes) - 1
        self.source.insert(self.source.index(part) + 1, other)
        return other

    def turned(self, x: Value, shape: Sequence[Dim], build: Rewriter) -> Value:
        """The value in its order as it is now, in `shape`."""
        now = [part for axis in self.order for part in axis]
        before = [part for part in self.source if part in now]
        runs: list[list[int]] = []
        for part in now:
            if runs and before.index(part) == before.index(runs[-1][-1]) + 1:
                runs[-1].append(part)
            else:
                runs.append([part])
        runs_before = sorted(runs, key=lambda run: before.index(run[0]))
        split = build.with_shape(x, [product(self.sizes[part] for part in run) for run in runs_before])
        return build.with_shape(build.transpose(split, [runs_before.index(run) for run in runs]), shape)
