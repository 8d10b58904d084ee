"""What only constants decide is computed once, when a model is compiled, where a call would have to write it to memory.

That are weights that are widened or turned before a kernel reads them, and what no kernel computes at all. What kernels
compute as they read it, as the rows that are picked from a quantised table, stays as narrow as it is.
"""

from collections.abc import Iterator

import numpy as np

from onnxc.compiler.ir.meanings import apply_meaning
from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.rewriter import Rewriter, Rule, rewrite
from onnxc.compiler.ir.types import TensorType, type_symbols
from onnxc.compiler.planning.choose_schedules import PlanTarget
from onnxc.compiler.planning.fuse_kernels import fuse_kernels
from onnxc.compiler.planning.plan import needed_after
from onnxc.compiler.planning.split_steps import split_steps

__all__ = ["compute_constants"]

KEPT = ("control", "collective", "random", "host")
"""Kinds of what is not the same whenever it is computed, or is to happen in a call."""

MOST_GROWTH = 8
"""A result of more times the bytes of the constants that it is made of only repeats them: of 4 bits f32 is 8 times."""


def compute_constants(module: Module, target: PlanTarget, most_bytes: int) -> Module:
    """`module` with constants in place of what calls would compute of constants and write to memory.

    What would make it take more than `most_bytes`, all together, is left to the calls.
    """
    left = most_bytes
    wanted = frozenset(_wanted(module.main.body, target))

    def compute(op: Op, build: Rewriter) -> Value | None:
        """f(constants) = constants"""
        nonlocal left
        if op not in wanted:
            return None
        array = np.asarray(_evaluated(op.result), order="C")
        if array.nbytes > left:
            return None
        left -= array.nbytes
        return build.constant(array)

    names = tuple(dict.fromkeys(op.name for op in module.main.body.ops if op in wanted))
    changed = rewrite(module, [Rule("compute_constants", names, compute)]) if wanted else module
    # What is made of a new constant is seen when it is there.
    return compute_constants(changed, target, left) if left < most_bytes else changed


def _wanted(block: Block, target: PlanTarget) -> Iterator[Op]:
    """The ops to compute: those of constants alone whose results another op reads, from memory or from the host."""
    known = _of_constants(block)
    if not known:
        return
    outside = {value for op in block.ops if not known.issuperset(op.results) for value in op.operands}
    written = frozenset(_written(block, target))
    for value in known:
        op = value.op
        if op is not None and (value in outside or value in block.results):
            cone = _cone(op)
            constants = sum(each.array().nbytes for each in cone if each.name == "constant")
            needs_memory = op in written or any(each in written and not target.is_native(each) for each in cone)
            if needs_memory and _bytes(value) <= MOST_GROWTH * constants:
                yield op


def _of_constants(block: Block) -> frozenset[Value]:
    """The values that ops make of constants alone."""
    same: set[Value] = set()
    made: set[Value] = set()
    for op in block.ops:
        primitive = PRIMITIVES[op.name]
        is_static = all(isinstance(type, TensorType) and type.is_static for type in op.result_types)
        if len(op.results) != 1 or not is_static or op.blocks or primitive.effects or primitive.kind in KEPT:
            continue
        if same.issuperset(op.operands):
            same.update(op.results)
            made.update(op.results if op.operands else ())
    return frozenset(made)


def _written(block: Block, target: PlanTarget) -> Iterator[Op]:
    """The ops whose results a call has in memory."""
    symbols = frozenset(name for parameter in block.parameters for name in type_symbols(parameter.type))
    steps = split_steps(block, target.is_native, symbols)
    for step, outputs in zip(steps, needed_after(steps, block), strict=True):
        if isinstance(step, tuple):
            groups, _ = fuse_kernels(step, outputs, target.reads, target.arranges, target.reads_padding)
            yield from (group.last for group in groups)
        else:
            yield step


def _cone(op: Op) -> frozenset[Op]:
    """The op and all that it is made of."""
    seen, waiting = {op}, [op]
    while waiting:
        makers = {operand.op for operand in waiting.pop().operands if operand.op is not None} - seen
        seen |= makers
        waiting += makers
    return frozenset(seen)


def _bytes(value: Value) -> int:
    elements = value.tensor.elements
    assert isinstance(elements, int), value
    return elements * value.dtype.itemsize


def _evaluated(value: Value) -> np.ndarray:
    op = value.op
    assert op is not None, value
    if op.name == "constant":
        return op.array()
    return apply_meaning(op.name, [_evaluated(operand) for operand in op.operands], op.attributes, {})[0]
