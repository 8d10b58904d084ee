"""What only constants decide is computed once, when a model is compiled, where a call would have to write it to memory.

That are weights that are widened or turned before a kernel reads them, and what no kernel computes at all. What kernels
compute as they read it, as the rows that are picked from a quantised table, stays as narrow as it is.
"""

from collections.abc import Iterator

import numpy as np

from onnxc.compiler.ir.meanings import bytes_of, computes, cone_of, elements_of_cone, repeats
from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.rewriter import Rewriter, Rule, rewrite
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.passes.notes import note
from onnxc.compiler.planning.choose_schedules import PlanTarget
from onnxc.compiler.planning.fuse_kernels import fuse_kernels
from onnxc.compiler.planning.plan import needed_after
from onnxc.compiler.planning.split_steps import split_steps

__all__ = ["compute_constants"]


def compute_constants(module: Module, target: PlanTarget, most_bytes: int) -> Module:
    """`module` with constants in place of what calls would compute of constants and write to memory.

    What would make it take more than `most_bytes`, all together, is left to the calls, and noted.
    """
    left = most_bytes
    ops = module.main.body.ops
    wanted = frozenset(_wanted(module.main.body, target))

    def compute(op: Op, build: Rewriter) -> Value | None:
        """f(constants) = constants"""
        nonlocal left
        if op not in wanted:
            return None
        cone = cone_of(op)
        if max(bytes_of(each.result) for each in cone) > left:
            note(
                "folding-limit", "what is made of constants is left to the calls: it takes too much memory", op.location
            )
            return None
        left -= bytes_of(op.result)
        return build.constant(np.asarray(elements_of_cone(cone), order="C"))

    names = tuple(dict.fromkeys(op.name for op in ops if op in wanted))
    changed = rewrite(module, [Rule("compute_constants", names, compute)]) if wanted else module
    # What is made of a new constant is seen when it is there.
    return compute_constants(changed, target, left) if left < most_bytes else changed


def _wanted(block: Block, target: PlanTarget) -> Iterator[Op]:
    """The ops to compute: those of constants alone whose results another op reads, from memory or from the host."""
    known = _of_constants(block)
    outside = {value for op in block.ops if not known.issuperset(op.results) for value in op.operands}
    outside.update(block.results)
    read = known & outside
    cones = {op: cone_of(op) for op in block.ops if not read.isdisjoint(op.results)}
    kept = [op for op, cone in cones.items() if not repeats(op, cone)]
    written = frozenset(_written(block, target) if kept else ())
    for op in kept:
        if not written.isdisjoint(cones[op]):
            yield op


def _of_constants(block: Block) -> frozenset[Value]:
    """The values that ops with one result make of constants alone."""
    constant: set[Value] = set()
    computed: set[Value] = set()
    for op in block.ops:
        if computes(op) and constant.issuperset(op.operands):
            constant.update(op.results)
            computed.update(op.results if op.operands else ())
    return frozenset(computed)


def _written(block: Block, target: PlanTarget) -> Iterator[Op]:
    """The ops whose results a call has in memory."""
    symbols = frozenset(name for parameter in block.parameters for name in type_symbols(parameter.type))
    steps = split_steps(block, target.is_native, symbols)
    for step, outputs in zip(steps, needed_after(steps, block.results), strict=True):
        if isinstance(step, tuple):
            groups, _ = fuse_kernels(step, outputs, target.fusion)
            yield from (group.last for group in groups)
        else:
            yield step
