"""Operands of a node that held sizes which the options override, with the new sizes in their place.

One rule for each operator that takes sizes or wants equal ones: it compares the node with itself in the graph as
declared. A rule changes what certainly followed from an overridden size, and refuses what may have.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from onnxc.compiler.diagnostics import error, model_error
from onnxc.compiler.frontend.case_split import CaseKey
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.lower.overrides import AsDeclared, Seen
from onnxc.compiler.frontend.lower.reshaped_sizes import ratio_of, renewed_target
from onnxc.compiler.frontend.operator_helpers.shape_inputs import partly_known
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType

__all__ = ["renewed_operands"]

Operands = tuple[Value | None, ...]
Pair = tuple[tuple[Dim, ...], tuple[Dim, ...]]
"""A shape as declared, and now."""

_ADVICE = "export the model with this size left open, or compute it by Shape"


@dataclass(frozen=True)
class _Renewal:
    """A node that is lowered again: its operands now and as declared, and its results as declared."""

    node: GraphNode
    operands: Operands
    before: tuple[Seen | None, ...]
    results: tuple[Seen | None, ...]
    overridden: tuple[tuple[Dim, Dim], ...]
    ir: Builder

    def shapes(self, index: int) -> Pair | None:
        """The shape of an operand as declared and now, where both are known and of one rank."""
        if index >= len(self.operands) or index >= len(self.before):
            return None
        value, seen = self.operands[index], self.before[index]
        if value is None or seen is None or not isinstance(value.type, TensorType):
            return None
        old, new = seen.shape, value.type.shape
        return (old, new) if old is not None and new is not None and len(old) == len(new) else None

    def changed(self, index: int) -> tuple[int, ...]:
        """The axes of an operand whose sizes became others."""
        shapes = self.shapes(index)
        return (
            ()
            if shapes is None
            else tuple(axis for axis, (old, new) in enumerate(zip(*shapes, strict=True)) if old != new)
        )

    def numbers(self, index: int) -> tuple[int | None, ...] | None:
        """The elements of an operand that the model holds as numbers, None for others; None where it is no vector."""
        shapes = self.shapes(index)
        if shapes is None or len(shapes[0]) > 1 or shapes[0] != shapes[1]:
            return None
        seen, value = self.before[index], self.operands[index]
        if seen is None or value is None or seen.known is None or not isinstance(value.tensor.elements, int):
            return None
        now = partly_known(value, self.ir)
        return tuple(b if isinstance(b, int) and a == b else None for a, b in zip(seen.known, now, strict=True))

    def with_sizes(self, index: int, sizes: Mapping[int, Dim]) -> Operands:
        """The operands, where in that at `index` some elements are these sizes."""
        value = self.operands[index]
        assert value is not None, index
        if not sizes:
            return self.operands
        ir, scalars = self.ir, []
        for at in range(len(self.numbers(index) or ())):
            old = ir.slice(value, (at,), (1,))
            scalars.append(ir.sizes((sizes[at],), value.dtype) if at in sizes else old)
        renewed = ir.concatenate(scalars, 0)
        return (*self.operands[:index], renewed, *self.operands[index + 1 :])

    def repeated(self, index: int, sizes: Mapping[int, Dim]) -> Operands:
        """The operands, where that at `index` is repeated along axes along which it still has size 1."""
        shapes = self.shapes(index)
        if shapes is None:
            return self.operands
        value, shape = self.operands[index], list(shapes[1])
        assert value is not None, index
        for axis, size in sizes.items():
            if shape[axis] == 1:
                shape[axis] = size
        return (*self.operands[:index], self.ir.broadcast_to(value, shape), *self.operands[index + 1 :])

    def axis(self, index: int) -> int:
        """The attribute `axis`, counted from the start of the axes of an operand."""
        axis, shapes = self.node.attributes.get("axis"), self.shapes(index)
        return axis % len(shapes[0]) if isinstance(axis, int) and shapes is not None and shapes[0] else 0

    def refuse(self, message: str) -> NoReturn:
        """ModelError: the node holds the old size in a way that cannot be followed."""
        rule = f"onnxc.compile, shapes, {self.node.operator}"
        raise model_error([error("overridden-size", f"{message}; {_ADVICE}", self.node.location, (), rule)])


def renewed_operands(node: GraphNode, operands: Operands, before: AsDeclared, key: CaseKey, ir: Builder) -> Operands:
    """The operands of the node, renewed where they held sizes that are overridden.

    Raises ModelError where they may have, and what is meant now cannot be told.
    """
    rule = _RULES.get(node.operator) if not node.domain else None
    if rule is None or key not in before.operands:
        return operands
    return rule(_Renewal(node, operands, before.operands[key], before.results.get(key, ()), before.overridden, ir))


def _reshape(at: _Renewal) -> Operands:
    """data, shape: the numbers of `shape` that changed sizes of `data` have become part of."""
    shapes, numbers = at.shapes(0), at.numbers(1)
    result = at.results[0].shape if at.results and at.results[0] is not None else None
    if not at.changed(0) or shapes is None or numbers is None or result is None or 0 in (*shapes[0], *result):
        return at.operands
    free = [axis for axis, number in enumerate(numbers) if number]
    now = _without_followed(at, shapes, numbers, result)
    if now is None:
        return at.operands
    target = renewed_target(shapes[0], now, result, free, at.overridden)
    if target is None:
        was, given = (f"[{', '.join(map(str, shape))}]" for shape in shapes)
        message = f"Reshape to {list(numbers)} was made for {was}, and the shape for {given} cannot be told"
        at.refuse(message)
    return at.with_sizes(
        1, {axis: target[axis] for axis in free if numbers[axis] != -1 and target[axis] != result[axis]}
    )


def _without_followed(
    at: _Renewal, shapes: Pair, numbers: Sequence[int | None], result: Sequence[Dim]
) -> tuple[Dim, ...] | None:
    """The sizes of the data, but as declared where the shape follows already, copied or computed; None: cannot tell."""
    old, now = shapes[0], list(shapes[1])
    value = at.operands[1]
    assert value is not None, at.node
    for axis, (number, size) in enumerate(zip(numbers, partly_known(value, at.ir), strict=True)):
        if number == 0:
            now[axis] = old[axis]
        elif number is None and size != result[axis]:
            ratio = None if size is None else ratio_of(size, result[axis])
            source = next((i for i in at.changed(0) if now[i] != old[i] and ratio_of(now[i], old[i]) == ratio), None)
            if ratio is None or source is None:
                return None
            now[source] = old[source]
    return tuple(now)


def _expand(at: _Renewal) -> Operands:
    """input, shape: numbers that are the size of the axis that they are for."""
    shapes, numbers = at.shapes(0), at.numbers(1)
    if shapes is None or numbers is None:
        return at.operands
    lead = len(numbers) - len(shapes[0])
    sizes = {lead + axis: shapes[1][axis] for axis in at.changed(0) if shapes[0][axis] != 1 and lead + axis >= 0}
    return at.with_sizes(1, {i: size for i, size in sizes.items() if numbers[i] == shapes[0][i - lead]})


def _slice(at: _Renewal) -> Operands:
    """data, starts, ends, axes, steps: ends that are the size of their axis, so that all up to its end is taken."""
    shapes, ends = at.shapes(0), at.numbers(2)
    if shapes is None or ends is None:
        return at.operands
    axes = at.numbers(3) if len(at.operands) > 3 and at.operands[3] is not None else tuple(range(len(ends)))
    rank = len(shapes[0])
    sizes: dict[int, Dim] = {}
    for position, (axis, end) in enumerate(zip(axes or (), ends, strict=False)):
        if axis is not None and -rank <= axis < rank and axis % rank in at.changed(0) and end == shapes[0][axis]:
            sizes[position] = shapes[1][axis]
    return at.with_sizes(2, sizes)


def _split(at: _Renewal) -> Operands:
    """input, split: the only part is all there is."""
    axis, shapes, parts = at.axis(0), at.shapes(0), at.numbers(1)
    if shapes is None or parts is None or len(parts) != 1 or axis not in at.changed(0) or parts[0] != shapes[0][axis]:
        return at.operands
    return at.with_sizes(1, {0: shapes[1][axis]})


def _resize(at: _Renewal) -> Operands:
    """X, roi, scales, sizes: sizes of axes that are not resized."""
    shapes, sizes = at.shapes(0), at.numbers(3)
    if shapes is None or sizes is None:
        return at.operands
    chosen = at.node.attributes.get("axes")
    axes = chosen if isinstance(chosen, tuple) else tuple(range(len(shapes[0])))
    renewed = {
        position: shapes[1][axis]
        for position, (axis, size) in enumerate(zip(axes, sizes, strict=False))
        if isinstance(axis, int) and axis % len(shapes[0]) in at.changed(0) and size == shapes[0][axis]
    }
    return at.with_sizes(3, renewed)


def _gather(at: _Renewal) -> Operands:
    """data, indices: what took the only element of an axis may have meant each, or the first."""
    axis, shapes = at.axis(0), at.shapes(0)
    if shapes is not None and axis in at.changed(0) and shapes[0][axis] == 1 and at.numbers(1) is not None:
        at.refuse(f"Gather takes elements of axis {axis}, which had size 1 and now has {shapes[1][axis]}")
    return at.operands


def _gather_elements(at: _Renewal) -> Operands:
    """data, indices: the indices are the same for all along axes that were of size 1."""
    axis, shapes, indices = at.axis(0), at.shapes(0), at.shapes(1)
    if shapes is None or indices is None or len(shapes[0]) != len(indices[0]):
        return at.operands
    return at.repeated(
        1, {other: shapes[1][other] for other in at.changed(0) if other != axis and shapes[0][other] == 1}
    )


def _concat(at: _Renewal) -> Operands:
    """inputs: floats that do not depend on what is overridden are the same for all along axes that were of size 1.

    Integers are left: they may be indices, which differ along the axis.
    """
    axis = at.axis(0)
    wanted: dict[int, Dim] = {}
    for index in range(len(at.operands)):
        shapes = at.shapes(index)
        if shapes is None or not shapes[0]:
            return at.operands
        wanted |= {other: shapes[1][other] for other in at.changed(index) if other != axis and shapes[0][other] == 1}
    operands = at.operands
    for index, value in enumerate(operands):
        if value is not None and value.dtype.is_float:
            operands = replace(at, operands=operands).repeated(index, wanted)
    return operands


def _recurrent(at: _Renewal) -> Operands:
    """X, W, R, B, sequence_lens, initial_h, initial_c: what all sequences begin with, and their one length."""
    layout = at.node.attributes.get("layout")
    batch, shapes = (0 if layout == 1 else 1), at.shapes(0)
    if shapes is None or batch not in at.changed(0) or shapes[0][batch] != 1:
        return at.operands
    operands = at.repeated(4, {0: shapes[1][batch]})
    for index in (5, 6):
        operands = replace(at, operands=operands).repeated(index, {batch: shapes[1][batch]})
    return operands


_RULES: Mapping[str, Callable[[_Renewal], Operands]] = {
    "Concat": _concat,
    "Expand": _expand,
    "GRU": _recurrent,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "LSTM": _recurrent,
    "RNN": _recurrent,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
}
