"""The listing of a kernel's machine code: instructions in order as nvdisasm writes them, and the loops that they form.

A loop is what its branch back goes around: all from which that branch is reached without passing where the loop begins.
A branch backwards is none where other ways lead behind it, as from code that waits for a copy and stands at the end.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from onnxc.runtime.records import record

__all__ = ["Listing", "disassembled", "parse_listing"]

# An instruction: its offset as a comment, perhaps a predicate, its name and its operands.
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?P<predicate>@!?U?P\w+\s+)?(?P<name>[A-Z][\w.]*)(?P<operands>.*)")
_LABEL = re.compile(r"^(?P<label>[.$]\S+):")
_TARGET = re.compile(r"`\((?P<label>[^)]+)\)")

# What goes on elsewhere, and what nothing is executed behind unless it has a condition: a predicate, or an operand that
# stands before the target.
_GOING = ("BRA", "JMP", "CALL", "WARPSYNC")
_LEAVING = ("BRA", "BRX", "JMP", "JMX", "BSYNC", "EXIT", "RET")


@record
class Listing:
    """The names of the instructions with their modifiers, in order, and for each loop the ordinals of those in it."""

    instructions: tuple[str, ...]
    loops: tuple[frozenset[int], ...]

    def innermost(self, *names: str) -> tuple[frozenset[int], ...]:
        """The loops with an instruction whose name begins so, in which there is no other such loop."""
        loops = [loop for loop in self.loops if any(self.instructions[each].startswith(names) for each in loop)]
        return tuple(loop for loop in loops if not any(other < loop for other in loops))


@record
class _Instruction:
    """target: the label that it goes on at, empty for none. falls: whether what follows may be executed next."""

    name: str
    target: str
    falls: bool


def disassembled(cubin: bytes, disassembler: str | os.PathLike[str]) -> str:
    """What nvdisasm prints; triton brings it along (backends/nvidia/bin)."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [os.fspath(disassembler), "-c", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def parse_listing(text: str) -> Listing:
    """The instructions and loops of what nvdisasm printed for a cubin of one kernel."""
    instructions: list[_Instruction] = []
    labels: dict[str, int] = {}
    barriers: dict[str, str] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label["label"]] = len(instructions)
        elif match := _INSTRUCTION.match(line):
            instructions.append(_instruction(match, barriers))
    names = tuple(each.name for each in instructions)
    return Listing(names, tuple(_loops(_blocks(instructions, labels))) if instructions else ())


def _instruction(match: re.Match[str], barriers: dict[str, str]) -> _Instruction:
    """An instruction; `barriers` are where the threads meet that each BSSY before has named."""
    name, operands = match["name"], match["operands"]
    base, aim = name.partition(".")[0], _TARGET.search(operands)
    first = operands.strip(" ;").partition(",")[0]
    target = aim["label"] if aim and base in _GOING else ""
    if aim and base == "BSSY":
        barriers[first] = aim["label"]
    elif base == "BSYNC":
        target = barriers.get(first, "")
    has_condition = bool(match["predicate"]) or bool(aim and base in _GOING and operands[: aim.start()].strip())
    return _Instruction(name, target, falls=has_condition or base not in _LEAVING)


@record
class _Block:
    """Instructions without a branch between them, and the blocks that may follow, by their ordinals."""

    instructions: range
    next: tuple[int, ...]


def _blocks(instructions: Sequence[_Instruction], labels: Mapping[str, int]) -> list[_Block]:
    count = len(instructions)
    behind = (at + 1 for at, each in enumerate(instructions) if each.target or not each.falls)
    starts = sorted({0, count, *(at for at in labels.values() if at < count), *(at for at in behind if at < count)})
    ordinals = {start: ordinal for ordinal, start in enumerate(starts[:-1])}
    blocks = []
    for start, end in pairwise(starts):
        last = instructions[end - 1]
        targets = (labels.get(last.target, count), end if last.falls else count)
        blocks.append(_Block(range(start, end), tuple(ordinals[at] for at in targets if at in ordinals)))
    return blocks


def _loops(blocks: Sequence[_Block]) -> Iterator[frozenset[int]]:
    """The instructions of each loop; branches back to one place are one loop."""
    order = _in_order(blocks)
    before = _before(blocks, order)
    dominators = _dominators(order, before)
    bodies: dict[int, set[int]] = {}
    for ordinal in order:
        for head in blocks[ordinal].next:
            if head in dominators[ordinal]:
                bodies.setdefault(head, {head}).update(_reaching(ordinal, head, before))
    for body in bodies.values():
        yield frozenset(each for ordinal in body for each in blocks[ordinal].instructions)


def _reaching(end: int, head: int, before: Mapping[int, Sequence[int]]) -> set[int]:
    """The blocks from which `end` is reached without passing `head`, and both."""
    reached, left = {head}, [end]
    while left:
        ordinal = left.pop()
        if ordinal not in reached:
            reached.add(ordinal)
            left += before[ordinal]
    return reached


def _before(blocks: Sequence[_Block], order: Sequence[int]) -> Mapping[int, Sequence[int]]:
    """For each block that is reached those that it may follow."""
    before: dict[int, list[int]] = {ordinal: [] for ordinal in order}
    for ordinal in order:
        for follower in blocks[ordinal].next:
            before[follower].append(ordinal)
    return before


def _dominators(order: Sequence[int], before: Mapping[int, Sequence[int]]) -> Mapping[int, frozenset[int]]:
    """For each block that is reached, the blocks that every way to it from the first passes, itself included."""
    first, *others = order
    dominators = {first: frozenset((first,))}
    changed = True
    while changed:
        changed = False
        for ordinal in others:
            known = [dominators[each] for each in before[ordinal] if each in dominators]
            passed = frozenset.intersection(*known) | {ordinal}
            if passed != dominators.get(ordinal):
                dominators[ordinal], changed = passed, True
    return dominators


def _in_order(blocks: Sequence[_Block]) -> list[int]:
    """The blocks that are reached from the first, each behind one that it may follow."""
    order, seen, left = [], {0}, [0]
    while left:
        ordinal = left.pop()
        order.append(ordinal)
        fresh = [each for each in blocks[ordinal].next if each not in seen]
        seen.update(fresh)
        left += fresh
    return order
