"""The factors of an op: which axes of its operands and results can be divided together, by its axes rule.

An op without a rule has none, and then each device computes it whole.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.sharding import Axes, Mesh, is_divisible
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.records import record

__all__ = ["Claim", "Dims", "Factor", "claims", "factors_of", "has_axes", "may_divide"]

Dims = Mapping[Value, Sequence[Axes]]
"""For each value the axes of the mesh that divide each of its axes."""


@record
class Factor:
    """Axes that are divided together; an operand or result that has none of them has None.

    combine: where the axis is reduced, what makes one value of the parts. is_even: blocks must all be full.
    """

    operands: tuple[int | None, ...]
    results: tuple[int | None, ...]
    combine: str = ""
    is_even: bool = False

    def axes(self, op: Op) -> Iterator[tuple[Value, int]]:
        """The axes of operands, then of results."""
        for value, axis in zip((*op.operands, *op.results), (*self.operands, *self.results), strict=True):
            if axis is not None:
                yield value, axis


@record
class Claim:
    """The axes of the mesh that divide a factor of an op."""

    factor: Factor
    axes: Axes


def has_axes(value: Value) -> bool:
    """Whether the value can be divided: a dense tensor of numbers and of known rank."""
    return isinstance(value.type, TensorType) and value.type.shape is not None and not value.dtype.is_string


def factors_of(op: Op) -> tuple[Factor, ...]:
    """The factors of `op`, in the order of its axes rule."""
    if op.blocks or not all(map(has_axes, (*op.operands, *op.results))):
        return ()
    links = PRIMITIVES[op.name].axes_rule(op)
    kept = [link for link in links if link.kind in ("map", "reduce")]
    factors = [Factor(link.operands, link.results, link.combine, link.is_even) for link in kept]
    if op.name == "reshape":
        factors += _leading_factors(op, {factor.operands[0] for factor in factors})
    if op.name == "attention":
        factors += _grouped_heads(op)
    return tuple(factors)


def claims(op: Op, dims: Dims, mesh: Mesh) -> tuple[Claim, ...]:
    """How each factor of `op` is divided where its values are divided as `dims` says; no axis divides two factors.

    What operands say goes before what results say, and an earlier factor before a later one.
    """
    claimed: list[Claim] = []
    used: set[str] = set()
    for factor in factors_of(op):
        for value, axis in factor.axes(op):
            axes = tuple(dims[value][axis])
            if axes and not used & set(axes) and may_divide(factor, op, mesh.shards(axes)):
                claimed.append(Claim(factor, axes))
                used.update(axes)
                break
    return tuple(claimed)


def may_divide(factor: Factor, op: Op, shards: int) -> bool:
    """Whether the axes of the factor may be divided into so many blocks, of which the last ones may be short."""
    return not factor.is_even or all(is_divisible(value.shape[axis], shards) for value, axis in factor.axes(op))


def _leading_factors(op: Op, whole: set[int | None]) -> Iterator[Factor]:
    """Where a reshape splits or joins axes, the slowest of them: full blocks of it are full blocks of the product."""
    old, new = op.operands[0].shape, op.results[0].shape
    ends = {product(new[:axis]): axis for axis in range(len(new) + 1)}
    cuts = [(axis, ends[product(old[:axis])]) for axis in range(len(old) + 1) if product(old[:axis]) in ends]
    for (start, new_start), (stop, new_stop) in itertools.pairwise(cuts):
        first, new_first = _first_axis(old, start, stop), _first_axis(new, new_start, new_stop)
        if first is not None and new_first is not None and first not in whole:
            yield Factor((first,), (new_first,), is_even=True)


def _grouped_heads(op: Op) -> Iterator[Factor]:
    """Heads that share keys in groups: an equal part of the heads reads an equal part of the groups."""
    q, k, _, *mask = op.operands
    if q.shape[1] != k.shape[1]:
        heads = (None if each.shape[1] == 1 else 1 for each in mask)
        yield Factor((1, 1, 1, *heads), (1,), is_even=True)


def _first_axis(shape: Sequence[Dim], start: int, stop: int) -> int | None:
    return next((axis for axis in range(start, stop) if shape[axis] != 1), None)
