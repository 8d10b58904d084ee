"""A node that is lowered again under overrides, held against itself in the graph as declared."""

from collections.abc import Mapping
from typing import NoReturn

from onnxc.compiler.diagnostics import error, model_error
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.overriding.as_declared import ADVICE, AsDeclared, Seen
from onnxc.compiler.frontend.overriding.held_sizes import Held, HeldSize
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.known_elements import partly_known
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.records import record

__all__ = ["Operands", "Renewal", "ShapePair", "shape_pair"]

Operands = tuple[Value | None, ...]
ShapePair = tuple[tuple[Dim, ...], tuple[Dim, ...]]
"""A shape as declared, and now."""


def shape_pair(value: Value | None, seen: Seen | None) -> ShapePair | None:
    """The shape of a value as declared and now, where both are known and of one rank."""
    if value is None or seen is None or not isinstance(value.type, TensorType):
        return None
    old, new = seen.shape, value.type.shape
    return (old, new) if old is not None and new is not None and len(old) == len(new) else None


@record
class Renewal:
    """A node that is lowered again: its operands now and as declared, and its results as declared."""

    node: GraphNode
    operands: Operands
    before: tuple[Seen | None, ...]
    results: tuple[Seen | None, ...]
    declared: AsDeclared
    ir: Builder

    def shapes(self, index: int) -> ShapePair | None:
        """The shape of an operand as declared and now, where both are known and of one rank."""
        if index >= len(self.operands) or index >= len(self.before):
            return None
        return shape_pair(self.operands[index], self.before[index])

    def changed(self, index: int) -> tuple[int, ...]:
        """The axes of an operand whose sizes became others."""
        shapes = self.shapes(index)
        sizes = () if shapes is None else enumerate(zip(*shapes, strict=True))
        return tuple(axis for axis, (old, new) in sizes if old != new)

    def held(self, index: int) -> Held:
        """The overridden sizes that the axes of an operand hold."""
        shapes, value = self.shapes(index), self.operands[index] if index < len(self.operands) else None
        return () if shapes is None or value is None else self.declared.held_in(value, *shapes)

    def batch(self, index: int, axis: int) -> HeldSize | None:
        """The batch, of one before, that an axis of an operand holds; None where it holds none."""
        held = self.held(index)
        return next((part for part in held[axis] if part.is_batch), None) if axis < len(held) else None

    def leading_batch(self, index: int, axis: int) -> Dim | None:
        """How large the batch is that an axis holds as its slower index, beside nothing that is overridden.

        None where the axis is as it was, or is as a whole another. Of others it cannot be told what indices mean now.
        """
        shapes, held = self.shapes(index), self.held(index)
        if shapes is None or axis >= len(held) or not held[axis]:
            return None
        (part, *others), whole = held[axis], shapes[0][axis]
        if part.is_batch and part.slower == 1 and not others:
            return part.new
        if part.old != whole:
            self.refuse(f"{self.node.operator} takes elements of axis {axis}, in which {part.new} lies beside others")
        return None

    def integers(self, index: int) -> tuple[int | None, ...] | None:
        """The elements of an operand that the model holds as numbers, None for others; None where it is no vector."""
        shapes = self.shapes(index)
        if shapes is None or len(shapes[0]) > 1 or shapes[0] != shapes[1]:
            return None
        seen, value = self.before[index], self.operands[index]
        if seen is None or value is None or seen.known is None or not isinstance(value.tensor.elements, int):
            return None
        now = partly_known(value)
        return tuple(b if isinstance(b, int) and a == b else None for a, b in zip(seen.known, now, strict=True))

    def with_operand(self, index: int, value: Value) -> Operands:
        """The operands, with `value` at `index`."""
        return (*self.operands[:index], value, *self.operands[index + 1 :])

    def with_sizes(self, index: int, sizes: Mapping[int, Dim]) -> Operands:
        """The operands, where in that at `index` some elements are these sizes."""
        value = self.operands[index]
        assert value is not None, index
        if not sizes:
            return self.operands
        ir, scalars = self.ir, []
        for at in range(len(self.integers(index) or ())):
            old = ir.slice(value, (at,), (1,))
            scalars.append(ir.sizes((sizes[at],), value.dtype) if at in sizes else old)
        return self.with_operand(index, ir.concatenate(scalars, 0))

    def repeated(self, index: int, sizes: Mapping[int, Dim]) -> Operands:
        """The operands, where that at `index` is repeated along axes along which it still has size 1."""
        shapes = self.shapes(index)
        if shapes is None:
            return self.operands
        value, shape = self.operands[index], list(shapes[1])
        assert value is not None, index
        for axis, size in sizes.items():
            if axis < len(shape) and shape[axis] == 1:
                shape[axis] = size
        return self.with_operand(index, self.ir.broadcast_to(value, shape))

    def axis(self, index: int) -> int:
        """The attribute `axis`, counted from the start of the axes of an operand."""
        axis, shapes = self.node.attributes.get("axis"), self.shapes(index)
        return axis % len(shapes[0]) if isinstance(axis, int) and shapes is not None and shapes[0] else 0

    def refuse(self, message: str) -> NoReturn:
        """ModelError: the node holds the old size in a way that cannot be followed."""
        rule = f"onnxc.compile, shapes, {self.node.operator}"
        raise model_error([error("overridden-size", f"{message}; {ADVICE}", self.node.location, (), rule)])
