"""Contractions as strided loops: the letters of an equation in groups, and the strides of both operands along each.

The letters become five groups: outer (batch, and whatever cannot be merged), m, n, k.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.views import View, operand_view


@dataclass(frozen=True)
class Problem:
    """A contraction as strided loops. Strides of letters that an operand lacks are 0."""

    dot: Op
    a: View
    b: View
    outer: tuple[str, ...]
    m: tuple[str, ...]
    n: str
    k: tuple[str, ...]
    sizes: Mapping[str, Dim]
    a_strides: Mapping[str, Dim]
    b_strides: Mapping[str, Dim]

    @cached_property
    def rows(self) -> Dim:
        return product(self.sizes[letter] for letter in self.m)

    @cached_property
    def columns(self) -> Dim:
        return self.sizes[self.n] if self.n else 1

    @cached_property
    def depth(self) -> Dim:
        return product(self.sizes[letter] for letter in self.k)

    def a_stride(self, group: Sequence[str]) -> Dim:
        """The stride of merged letters in A."""
        return self.a_strides[group[-1]] if group else 0

    def b_stride(self, group: Sequence[str]) -> Dim:
        """The stride of merged letters in B."""
        return self.b_strides[group[-1]] if group else 0


def sums_shared_letters(op: Op) -> bool:
    """Whether every summed letter is in both operands."""
    left, right, result = parse_equation(op.attributes["equation"])
    return all(letter in left and letter in right for letter in set(left + right) - set(result))


def find_problem(block: Block) -> Problem | None:
    """The contraction of a kernel block as strided loops, or None where its operands or its k cannot be."""
    dot = next(op for op in block.ops if op.name == "dot")
    views = [operand_view(operand) for operand in dot.operands]
    left, right, result = parse_equation(dot.attributes["equation"])
    if views[0] is None or views[1] is None:
        return None
    (a, a_letters), (b, b_letters) = (views[0], left), (views[1], right)
    if result and result[-1] in left and result[-1] not in right:
        (a, a_letters), (b, b_letters) = (b, b_letters), (a, a_letters)
    sizes = dict(zip(a_letters + b_letters, a.shape + b.shape, strict=True))
    a_strides = dict.fromkeys(sizes, 0) | dict(zip(a_letters, a.strides, strict=True))
    b_strides = dict.fromkeys(sizes, 0) | dict(zip(b_letters, b.strides, strict=True))
    n = result[-1] if result and result[-1] not in a_letters else ""
    k = _merge([letter for letter in a_letters if letter not in result], sizes, a_strides, b_strides)
    if len(k) > 1:
        return None
    m_letters = [letter for letter in result if letter in a_letters and letter not in b_letters]
    m = _merge(m_letters, sizes, a_strides)
    rows = m[-1] if m else ()
    outer = tuple(letter for letter in result if letter not in rows and letter != n)
    return Problem(dot, a, b, outer, rows, n, k[0] if k else (), sizes, a_strides, b_strides)


def _merge(letters: Sequence[str], sizes: Mapping[str, Dim], *strides: Mapping[str, Dim]) -> list[tuple[str, ...]]:
    """Neighbouring letters joined where each operand steps through both as one."""
    groups: list[tuple[str, ...]] = []
    for letter in letters:
        joins = groups and all(s[groups[-1][-1]] == s[letter] * sizes[letter] for s in strides)
        if joins:
            groups[-1] = (*groups[-1], letter)
        else:
            groups.append((letter,))
    return groups
