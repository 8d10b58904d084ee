"""A group of ops that share a kernel, and what a target says of what its kernels read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import KernelKind
from onnxc.compiler.planning.loops.picked_views import PickedView
from onnxc.compiler.planning.loops.views import View

GROUP_LIMIT = 96
"""The most ops in a group: beyond it code grows faster than memory traffic shrinks.

An estimate: models that people export have up to some thirty elementwise ops in a row, and compiling takes time that
grows faster than a kernel does."""

Indices = frozenset[int]

Reads = Callable[[Op, int, View], bool]
"""Whether the kernels of an anchor read an operand, by its ordinal, as such a strided view of a buffer."""


def reads_any_view(anchor: Op, ordinal: int, view: View) -> bool:
    """The answer of a target whose kernels step through any view."""
    return True


Computes = Mapping[KernelKind, Sequence[int]]
"""For kinds beyond `INLINES_OPERANDS`: how much work for an element of each operand kernels do as they read it."""

ReadsPadding = Callable[[Op, int], bool]
"""Whether the kernel of an anchor reads what an operand, by its ordinal, is padded of, and has the padding itself."""


ReadsPicked = Callable[[Op, int, PickedView], bool]
"""Whether the kernel of an anchor reads an operand, by its ordinal, where indices pick it from a buffer."""


def reads_none_picked(anchor: Op, ordinal: int, view: PickedView) -> bool:
    """The answer of a target whose kernels want what is picked in memory."""
    return False


def reads_no_padding(anchor: Op, ordinal: int) -> bool:
    """The answer of a target whose kernels want padding in memory."""
    return False


@dataclass(eq=False)
class Group:
    """The ops of one kernel, in program order; `outputs` is what it writes.

    beside: a product of the same first operand as that of the anchor, whose results are computed with.
    """

    kind: KernelKind
    anchor: Op
    outputs: tuple[Value, ...]
    ops: dict[Op, None] = field(default_factory=dict)
    beside: Op | None = None
    indices: dict[Op, Indices] = field(default_factory=dict)
    """For each op the different indices at which it is evaluated, as hashes of the movements that lead to it."""

    @property
    def last(self) -> Op:
        """The op whose results the group writes."""
        op = self.outputs[0].op
        assert op is not None, self.outputs
        return op
