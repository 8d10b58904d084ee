"""What the kernels of a target do with what stands around an anchor: by this ops are put together."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field

from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import KernelKind
from onnxc.compiler.planning.loops.picked_views import PickedView
from onnxc.compiler.planning.loops.views import View
from onnxc.runtime.records import record

__all__ = ["INDEX_LIMIT", "REPEAT_LIMIT", "Computes", "FusionRules", "reads_any_view"]

REPEAT_LIMIT = 3
"""The most work that is done again in a second group rather than read from memory.

An estimate, in the costs of the primitives: three simple instructions take no longer than a store and a load again."""

INDEX_LIMIT = 8
"""The most work that is done again for each vector of elements that an index picks; counting from the end costs 4.

An estimate: a gather of a vector takes longer than eight simple instructions on all machines with code."""

Computes = Mapping[KernelKind, Sequence[int]]
"""For kinds that want their operands in memory: how much work for an element of each they do as they read it."""


def reads_any_view(anchor: Op, ordinal: int, view: View) -> bool:
    """The answer of a target whose kernels step through any view."""
    return True


def reads_no_padding(anchor: Op, ordinal: int) -> bool:
    """The answer of a target whose kernels want padding in memory."""
    return False


def reads_none_picked(anchor: Op, ordinal: int, view: PickedView) -> bool:
    """The answer of a target whose kernels want what is picked in memory."""
    return False


def finishes_all(anchor: Op, op: Op) -> bool:
    """The answer of a target whose kernels do all that follows an anchor as well as a kernel for it would."""
    return True


def pairs_nothing(first: Op, second: Op) -> bool:
    """The answer of a target whose kernels make one product."""
    return False


@record
class FusionRules:
    """Which operands kernels read as they are, what they compute as they read, and how they write.

    reads: whether the kernels of an anchor read an operand, by its ordinal, as such a strided view of a buffer; where
    they do not, it is written first. reads_padding: whether they read what it is padded of, and have the padding
    themselves. reads_picked: whether they read it where indices pick it from a buffer. arranges: the kinds whose
    kernels write their result with its axes in any order and shape. finishes: whether the kernel of an anchor computes
    an elementwise op that follows it. computes: see `Computes`. pairs: whether a kernel makes two products of one
    operand in one pass over that. inlines_movements: whether concatenations of a few parts, and reshapes that join
    axes, are computed where they are read. index_limit: the most work that is done again for each vector of elements
    that an index picks; repeat_limit: that is done again in a second group.
    """

    reads: Callable[[Op, int, View], bool]
    reads_padding: Callable[[Op, int], bool] = reads_no_padding
    reads_picked: Callable[[Op, int, PickedView], bool] = reads_none_picked
    arranges: Collection[KernelKind] = ()
    finishes: Callable[[Op, Op], bool] = finishes_all
    computes: Computes = field(default_factory=dict)
    pairs: Callable[[Op, Op], bool] = pairs_nothing
    inlines_movements: bool = False
    index_limit: int = INDEX_LIMIT
    repeat_limit: int = REPEAT_LIMIT
