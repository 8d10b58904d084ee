"""What the lowering of a node asks for where it depends on what only data tells: cases, each lowered for itself."""

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

MOST_AXES = 6
"""The greatest rank that an operand of unknown rank may have: that of a batch of volumes, and one more.

Each more is a copy of all that follows.
"""

CaseKey = tuple[tuple[Location, int], ...]
"""One of the times that a node is lowered: the nodes around it, each with the ordinal of the call of its graph."""


@record
class RankSplit:
    """A case for each rank that `value` may have, or for each size of its `axis`; `reason` is what data decides.

    rank: the only one that the node takes, where the standard, or the rank of another operand, says it. is_element: the
    node takes one element, of whatever rank it comes in, as a tensor of `rank` 0.
    """

    value: Value
    reason: str
    axis: int | None = None
    rank: int | None = None
    is_element: bool = False


@record
class ConditionSplit:
    """A case in which `condition` holds and one in which it does not; the node of `key` asks for them."""

    condition: Value
    key: CaseKey


CaseSplit = RankSplit | ConditionSplit


class CasesNeeded(Exception):
    """Ends the lowering of a node that goes on in cases only; who called the operator takes `split` as its result."""

    def __init__(self, split: CaseSplit) -> None:
        super().__init__()
        self.split = split
