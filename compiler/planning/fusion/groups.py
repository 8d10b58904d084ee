"""A group of ops that share a kernel."""

from dataclasses import dataclass, field

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import KernelKind

GROUP_LIMIT = 96
"""The most ops in a group: beyond it code grows faster than memory traffic shrinks.

An estimate: models that people export have up to some thirty elementwise ops in a row, and compiling takes time that
grows faster than a kernel does."""

Indices = frozenset[int]


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
