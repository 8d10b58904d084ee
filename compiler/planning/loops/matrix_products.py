"""Contractions as strided loops: the letters of an equation in groups, and the strides of both operands along each.

The letters become five groups: outer (batch, and whatever cannot be merged), m, n, k, and what is summed outside of k.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, at_least, product
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.loops.picked_views import PickedView, operand_pick
from onnxc.compiler.planning.loops.views import View, operand_view
from onnxc.runtime.records import record

UNKNOWN_STEPS = 16
"""What counts for steps that only a call tells: they may be one, as a batch beside the rows of a transposed operand.

Batches of 1 to 64 of [M, 196] by [196, 384], the first transposed, GFLOP/s of a thread with the batch as rows and then
with M as rows: M = 16 52 to 123, 142 to 166; M = 64 20 to 84, 144 to 166; M = 384 48 to 100, 137 to 156.
"""


@record
class Problem:
    """A contraction as strided loops. Strides of letters that an operand lacks are 0.

    left: which operand of the op A is. outer_k: letters that are summed and that no stride joins with k. gathers: rows
    of A lie behind one another in no one stride. a_pick, b_pick: what picks an operand, by letters that are outer ones.
    """

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
    left: int = 0
    outer_k: tuple[str, ...] = ()
    gathers: bool = False
    a_pick: PickedView | None = None
    b_pick: PickedView | None = None

    @cached_property
    def rows(self) -> Dim:
        return product(self.sizes[letter] for letter in self.m)

    @cached_property
    def columns(self) -> Dim:
        return self.sizes[self.n] if self.n else 1

    @cached_property
    def depth(self) -> Dim:
        return product(self.sizes[letter] for letter in self.k)

    @cached_property
    def outer_depth(self) -> Dim:
        """How often a sum goes along k."""
        return product(self.sizes[letter] for letter in self.outer_k)

    def operand(self, ordinal: int) -> tuple[View, Mapping[str, Dim], PickedView | None]:
        """An operand of the op: its view, its strides, and what picks it."""
        return (self.a, self.a_strides, self.a_pick) if ordinal == self.left else (self.b, self.b_strides, self.b_pick)

    def letters(self, ordinal: int) -> str:
        """The letters of an operand of the op."""
        return parse_equation(self.dot.attributes["equation"])[ordinal]

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
    """The contraction of a kernel block with columns along the last axis of the result.

    None where its operands are not strided, or what is summed has no one stride.
    """
    dot = next(op for op in block.ops if op.name == "dot")
    left, right, result = parse_equation(dot.attributes["equation"])
    swaps = bool(result) and result[-1] in left and result[-1] not in right
    loops = _loops(dot, int(swaps))
    if loops is None:
        return None
    n = result[-1] if result and result[-1] not in loops.a_letters else ""
    k = loops.merged(letter for letter in loops.a_letters if letter not in result)
    if len(k) > 1:
        return None
    m = _merge(loops.rows, loops.sizes, loops.a_strides)
    return loops.problem(m[-1] if m else (), n, k[0] if k else (), ())


def gathered_problem(block: Block, least: int) -> Problem | None:
    """The same with rows along all axes that A alone has, wherever they lie; axes of size 1 are no letters of it.

    Rows that lie behind one another in A are in that order, whatever that of the result is: a result is written row by
    row in any order, but only such rows are read as one matrix. Of rows in several strides the last ones are alone
    where they are known to be `least` or more.
    """
    plain = find_problem(block)
    if plain is None:
        return None
    loops = _loops(plain.dot, plain.left)
    assert loops is not None, plain
    rows = loops.wide(loops.rows)
    groups = _merge(rows, loops.sizes, loops.a_strides)
    in_memory = _merge_in_any_order(rows, loops.sizes, loops.a_strides)
    if len(in_memory) == 1:
        return loops.wide_problem(in_memory[0], plain)
    last = product(loops.sizes[letter] for letter in groups[-1]) if groups else 1
    if len(groups) < 2 or (isinstance(last, int) and last >= least):
        return loops.wide_problem(groups[-1] if groups else (), plain)
    return replace(loops.wide_problem(tuple(rows), plain), gathers=True)


def panel_problem(block: Block, left: int) -> Problem | None:
    """The contraction with operand `left` as A, and columns along the last axis that only the other one has.

    None where no axis is of the other one alone, or the operands are not strided.
    """
    loops = _loops(next(op for op in block.ops if op.name == "dot"), left)
    n = "" if loops is None else next((x for x in reversed(loops.result) if x not in loops.a_letters), "")
    if loops is None or not n:
        return None
    rows = [letter for letter in loops.result if letter not in loops.b_letters]
    m = _largest(_merge_in_any_order(loops.wide(rows), loops.sizes, loops.a_strides), loops.sizes)
    return loops.problem(m, n, *loops.summed())


def line_problem(block: Block, left: int) -> Problem | None:
    """The contraction with operand `left` as A, and without columns: each row of A is multiplied by a line of B."""
    loops = _loops(next(op for op in block.ops if op.name == "dot"), left)
    if loops is None:
        return None
    rows = [
        (letter,)
        for letter in loops.wide(letter for letter in loops.result if letter in loops.a_letters)
        if letter not in loops.picked
    ]
    return loops.problem(_largest(rows, loops.sizes), "", *loops.summed())


@record
class _Loops:
    """The letters of a contraction with their sizes and strides, one operand chosen as A."""

    dot: Op
    left: int
    a: View
    b: View
    a_letters: str
    b_letters: str
    result: str
    sizes: Mapping[str, Dim]
    a_strides: Mapping[str, Dim]
    b_strides: Mapping[str, Dim]
    a_pick: PickedView | None
    b_pick: PickedView | None

    @property
    def picked(self) -> str:
        """The letters by which an operand is picked."""
        sides = (self.a_letters, self.a_pick), (self.b_letters, self.b_pick)
        return "".join(picked_letters(letters, pick) for letters, pick in sides if pick is not None)

    @property
    def rows(self) -> list[str]:
        """The letters of the result that A alone has."""
        return [letter for letter in self.result if letter in self.a_letters and letter not in self.b_letters]

    def wide(self, letters: Iterable[str]) -> list[str]:
        """Those of more than one step: what lies next to an axis of size 1 is joined across it."""
        return [letter for letter in letters if self.sizes[letter] != 1]

    def merged(self, letters: Iterable[str]) -> list[tuple[str, ...]]:
        """The letters in groups that both operands step through as one."""
        return _merge(list(letters), self.sizes, self.a_strides, self.b_strides)

    def summed(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is summed: the largest group that both operands step through as one, and the letters outside of it."""
        letters = self.wide(letter for letter in self.a_letters if letter not in self.result)
        k = _largest(self.merged(letters), self.sizes)
        return k, tuple(letter for letter in letters if letter not in k)

    def problem(self, m: tuple[str, ...], n: str, k: tuple[str, ...], outer_k: tuple[str, ...]) -> Problem:
        """The strided loops with these groups."""
        outer = tuple(letter for letter in self.result if letter not in m and letter != n)
        groups, strides = (outer, m, n, k), (self.a_strides, self.b_strides)
        plain = Problem(self.dot, self.a, self.b, *groups, self.sizes, *strides, self.left, outer_k)
        return replace(plain, a_pick=self.a_pick, b_pick=self.b_pick)

    def wide_problem(self, m: tuple[str, ...], plain: Problem) -> Problem:
        """A problem with these rows; what has one step is no outer letter."""
        problem = self.problem(m, plain.n, plain.k, ())
        return replace(problem, outer=tuple(self.wide(problem.outer)))


def picked_letters(letters: str, pick: PickedView) -> str:
    """Those of the letters of an operand along which indices pick it."""
    return "".join(letter for letter, count in zip(letters, pick.ordinals.strides, strict=True) if count != 0)


def picks_matrices(dot: Op, ordinal: int, pick: PickedView) -> bool:
    """Whether an operand is picked along axes alone along which a contraction is many: it is matrices of a batch.

    Where there may be nothing to pick from, no index is to be asked for.
    """
    *terms, result = parse_equation(dot.attributes["equation"])
    is_of_batch = all(
        letter in terms[1 - ordinal] and letter in result for letter in picked_letters(terms[ordinal], pick)
    )
    return is_of_batch and at_least(product(pick.pick.operands[0].shape), 1)


def _loops(dot: Op, left: int) -> _Loops | None:
    """The letters of a contraction; None where an operand is neither strided nor matrices that are picked."""
    *letters, result = parse_equation(dot.attributes["equation"])
    (a, a_pick), (b, b_pick) = (_operand(dot, ordinal) for ordinal in (left, 1 - left))
    if a is None or b is None:
        return None
    sizes = dict(zip(letters[left] + letters[1 - left], a.shape + b.shape, strict=True))
    a_strides = dict.fromkeys(sizes, 0) | dict(zip(letters[left], a.strides, strict=True))
    b_strides = dict.fromkeys(sizes, 0) | dict(zip(letters[1 - left], b.strides, strict=True))
    strides, picks = (a_strides, b_strides), (a_pick, b_pick)
    return _Loops(dot, left, a, b, letters[left], letters[1 - left], result, sizes, *strides, *picks)


def _operand(dot: Op, ordinal: int) -> tuple[View | None, PickedView | None]:
    """An operand as a strided view, which a pick shifts."""
    operand = dot.operands[ordinal]
    view = operand_view(operand)
    pick = operand_pick(operand) if view is None else None
    if pick is None or not picks_matrices(dot, ordinal, pick):
        return view, None
    return pick.data, pick


def _largest(groups: Sequence[tuple[str, ...]], sizes: Mapping[str, Dim]) -> tuple[str, ...]:
    """The group of most steps, the last of equals; what only a call tells counts as UNKNOWN_STEPS or more."""

    def steps(group: tuple[str, ...]) -> int:
        size = product(sizes[letter] for letter in group)
        return size if isinstance(size, int) else max(UNKNOWN_STEPS, evaluate(size, dict.fromkeys(symbols_of(size), 1)))

    return max(reversed(groups), key=steps, default=())


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


def _merge_in_any_order(
    letters: Sequence[str], sizes: Mapping[str, Dim], strides: Mapping[str, Dim]
) -> list[tuple[str, ...]]:
    """The letters joined where strides let them, whatever their order: rows of A may be those of the result turned."""
    groups: list[tuple[str, ...]] = [(letter,) for letter in letters]
    while pair := _first_pair(groups, sizes, strides):
        outer, inner = pair
        groups[groups.index(outer)] = (*outer, *inner)
        groups.remove(inner)
    return groups


def _first_pair(
    groups: Sequence[tuple[str, ...]], sizes: Mapping[str, Dim], strides: Mapping[str, Dim]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Two groups of which the first steps over all of the second."""
    pairs = ((outer, inner) for outer in groups for inner in groups if outer != inner)
    return next((pair for pair in pairs if strides[pair[0][-1]] == strides[pair[1][0]] * sizes[pair[1][0]]), None)
