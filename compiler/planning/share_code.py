"""Kernels that differ in numbers alone as one kernel, which reads these: layers share code, whatever their scales are.

Quantised models have scales and zero points of their own in every layer. A kernel that is like no other keeps its
numbers in the code, and so does each kernel those on which a target says that its code depends.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.printer import print_block
from onnxc.compiler.planning.build_kernels import BoundProblem, build_kernel, inline_constants
from onnxc.compiler.planning.fusion.groups import Group
from onnxc.runtime.records import record

__all__ = ["share_code"]


@record
class _Apart:
    """A group whose ops are in the order in which its results lead to them, each use of a number with one of its own.

    So equal work has one text, whatever else in the program uses its numbers. bare: its kernel if it read them all.
    """

    group: Group
    constants: Collection[Op]
    bare: BoundProblem


def share_code(groups: Sequence[Group], reads: Callable[[Op, int], bool]) -> list[BoundProblem]:
    """The kernels of `groups`; numbers in which otherwise equal ones differ are read from the weights.

    reads: whether the code of an op is as good where it reads the number that is the operand of that ordinal.
    """
    outlines = [_outline(group) for group in groups]
    counts = Counter(outlines)
    copies = {ordinal: _apart(groups[ordinal], reads) for ordinal, each in enumerate(outlines) if counts[each] > 1}
    alike: dict[str, list[int]] = {}
    for ordinal, copy in copies.items():
        problem = copy.bare.problem
        alike.setdefault(f"{problem.kind}\n{print_block(problem.block)}", []).append(ordinal)
    kernels: dict[int, BoundProblem] = {}
    for ordinals in alike.values():
        if len(ordinals) == 1:
            continue
        for ordinal, read in zip(ordinals, _differing([copies[ordinal] for ordinal in ordinals]), strict=True):
            kernel = build_kernel(copies[ordinal].group, read)
            kernels[ordinal] = replace(kernel, outputs=groups[ordinal].outputs)
    return [kernels.get(ordinal) or build_kernel(group) for ordinal, group in enumerate(groups)]


def _outline(group: Group) -> tuple[str, tuple[str, ...]]:
    """What groups of equal text have in common for sure: only those that share it are worth writing out."""
    return group.kind, tuple(sorted(op.name for op in group.ops if op.name not in ("broadcast", "constant")))


def _differing(copies: Sequence[_Apart]) -> list[set[Op]]:
    """For each of some groups of equal text its numbers that are not the same in all of them."""
    read = [set[Op]() for _ in copies]
    for column in zip(*(copy.bare.inputs for copy in copies), strict=True):
        constants = [
            value.op if value.op in copy.constants else None for value, copy in zip(column, copies, strict=True)
        ]
        if len({None if constant is None else constant.array().tobytes() for constant in constants}) > 1:
            for own, constant in zip(read, constants, strict=True):
                own.update(() if constant is None else (constant,))
    return read


def _apart(group: Group, reads: Callable[[Op, int], bool]) -> _Apart:
    constants = inline_constants(group)
    copies: dict[Op, Op] = {}
    ops: dict[Op, None] = {}
    own: list[Op] = []

    def copied(value: Value) -> Value:
        op = value.op
        if op is None or op not in group.ops:
            return value
        repeats = op.name == "broadcast" and op is not group.anchor and op.operands[0].op in constants
        if repeats or op in constants:
            return made(op).results[value.index]
        if op not in copies:
            copies[op] = made(op)
        return copies[op].results[value.index]

    def made(op: Op) -> Op:
        copy = replace(op, operands=tuple(map(copied, op.operands)))
        ops[copy] = None
        if op in constants:
            own.append(copy)
        return copy

    outputs = tuple(map(copied, group.outputs))
    apart = Group(group.kind, copies[group.anchor], outputs, ops)
    kept = {
        _repeated(operand).op
        for op in ops
        for ordinal, operand in enumerate(op.operands)
        if op.name != "broadcast" and not reads(op, ordinal)
    }
    read = [constant for constant in own if constant not in kept]
    return _Apart(apart, frozenset(read), build_kernel(apart, read))


def _repeated(value: Value) -> Value:
    """What a value is the broadcast of, or it itself."""
    return value.op.operands[0] if value.op is not None and value.op.name == "broadcast" else value
