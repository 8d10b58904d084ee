"""Branches that tell apart whether a size is 0, where the one for other sizes does for 0 what the other one does.

Exporters write `if there are no boxes: return none` around a suppression, which finds none among none anyway. What only
a device knows, a branch would have the host wait for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnxc.compiler.ir.derived_sizes import Truth, truth_elements
from onnxc.compiler.ir.dims import Apply, Atom, Dim, only_atom, product, terms_of
from onnxc.compiler.ir.index_range import is_indexed
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.op_facts import has_effects
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.compiler.passes.analysis.size_facts import SizeFacts

__all__ = ["Chosen", "branch_for_all"]


@dataclass(frozen=True)
class Chosen:
    """The branch that serves all sizes; `equal` are what the symbols of the results are in those of the branch."""

    block: Block
    equal: Mapping[str, Dim]


def branch_for_all(condition: Value, op: Op, facts: SizeFacts) -> Chosen | None:
    """The branch of an `if` that does what is right in place of either; None where none is known to."""
    truths = truth_elements(condition)
    if truths is None:
        return None
    (truth,) = truths.flat
    for decided, empty, other in ((truth, *op.blocks), (truth.negated(), *reversed(op.blocks))):
        none = _where_it_holds(decided, facts)
        equal = _named(op.result_types, [result.type for result in other.results])
        if none is not None and equal is not None and _serves_none(other, empty, none):
            return Chosen(other, equal)
    return None


def _where_it_holds(truth: Truth, facts: SizeFacts) -> SizeFacts | None:
    """What is known where it holds, if that is where a size is 0; None where it is about anything else."""
    atom = only_atom(truth.fails)
    if not isinstance(atom, Apply) or atom.function != "min" or 1 not in atom.arguments:
        return None
    names = [name for argument in atom.arguments if argument != 1 for name in _zero_with(argument)]
    for name in names:
        facts = facts.with_symbol(name, 0)
    return facts if names else None


def _zero_with(size: Dim) -> tuple[str, ...]:
    """Symbols that are all 0 where a size is; none where one of several is."""
    names: list[str] = []
    for monomial, factor in terms_of(size):
        name = _symbol_in(monomial[0]) if len(monomial) == 1 else None
        if name is None or factor < 0:
            return ()
        names.append(name)
    return tuple(names)


def _symbol_in(atom: Atom) -> str | None:
    """The symbol x, where this is x or min(c, x) for a number c above 0."""
    if isinstance(atom, str):
        return None if atom.startswith("?") else atom
    others = [argument for argument in atom.arguments if not (isinstance(argument, int) and argument > 0)]
    inner = only_atom(others[0]) if atom.function == "min" and len(others) == 1 else None
    return inner if isinstance(inner, str) and not inner.startswith("?") else None


def _named(declared: Sequence[Type], made: Sequence[Type]) -> Mapping[str, Dim] | None:
    """What the symbols that results declare are in a branch; None where results are more than sizes tell."""
    equal: dict[str, Dim] = {}
    for whole, part in zip(declared, made, strict=True):
        if not isinstance(whole, TensorType) or not isinstance(part, TensorType):
            return None
        if whole.shape is None or part.shape is None or len(whole.shape) != len(part.shape):
            return None
        for size, own in zip(whole.shape, part.shape, strict=True):
            name = only_atom(size)
            if size != own and (not isinstance(name, str) or equal.setdefault(name, own) != own):
                return None
    return equal


def _serves_none(block: Block, empty: Block, none: SizeFacts) -> bool:
    """Whether the block, where there is nothing, refuses nothing and makes what `empty` does: no elements."""
    for op in block.ops:
        if op.blocks or has_effects(op) or PRIMITIVES[op.name].kind == "host":
            return False
        if is_indexed(op) and none.dim(product(op.operands[1].shape)) != 0:
            return False
        if op.name == "non_zero" and none.dim(product(op.operands[0].shape)) == 0:
            none = none.with_symbol(op.text("symbol"), 0)
    results = zip(block.results, empty.results, strict=True)
    pairs = [(none.type(one.type), none.type(other.type)) for one, other in results]
    return all(isinstance(a, TensorType) and a == b and 0 in a.known_shape for a, b in pairs)
