"""Weighted sums of elements that indices pick along the last axis, as Resize with antialias makes them, turned.

A sum along lines picks its elements one by one; along columns whole vectors of neighbouring lines have one index.
"""

from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule

LEAST_LINES = 8
"""Of how many lines columns are turned. To 224 columns of 224 lines of 3 x 640 six taps each took 583 us on Zen 5, and
take 97 turned, both ways included; 16 columns of 384 x 16 lines of 37 200 and 50."""


def turn_gathered_sums(module: Module) -> Module:
    """Turns what is summed at indices along the last axis, and the sums back."""
    return rewrite(module, [sum_turned])


@rule("reduce")
def sum_turned(op: Op, build: Rewriter) -> Outcome:
    """sum over t of x[.., m, i[n, t]] w[n, t] = transpose(sum over t of transpose(x)[.., i[n, t], m] w[n, t])"""
    product = made_by(op.operands[0], "mul")
    if product is None or op.text("kind") != "sum" or op.ints("axes") != (op.result.rank,):
        return None
    for picked, weights in (product.operands, product.operands[::-1]):
        gather, factors = made_by(picked, "gather"), made_by(weights, "broadcast")
        if gather is None or factors is None or build.uses(picked) != 1 or build.uses(product.result) != 1:
            continue
        if _sums_along_lines(gather, factors):
            return _turned(gather, factors, build)
    return None


def _sums_along_lines(gather: Op, factors: Op) -> bool:
    """Whether indices in a table pick along the last of several axes, with a factor for each, and lines are many."""
    x, indices = gather.operands
    last = x.rank - 1
    if last < 1 or indices.rank != 2 or gather.int("axis") != last or factors.ints("axes") != (last, last + 1):
        return False
    lines = x.shape[-2]
    return factors.operands[0].shape == indices.shape and not (isinstance(lines, int) and lines < LEAST_LINES)


def _turned(gather: Op, factors: Op, build: Rewriter) -> Value:
    x, indices = gather.operands
    last = x.rank - 1
    order = (*range(last - 1), last, last - 1)
    picked = build.gather(build.transpose(x, order), indices, last - 1)
    weights = build.broadcast(factors.operands[0], (last - 1, last), picked.shape)
    return build.transpose(build.reduce(build.mul(picked, weights), "sum", (last,)), order)
