"""Operands of a product that the copy engine of a card can read: blocks of a matrix, by the tensor memory accelerator.

It wants one dimension that is dense, another whose stride is a multiple of 16 bytes, and a start that is one too.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.codegen_gpu.schedules.cards import card_of
from onnxc.compiler.codegen_gpu.source.source_builder import is_multiple
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BF16, F16
from onnxc.compiler.planning.loops.matrix_products import Problem
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

LEAST_ARCHITECTURE, LEAST_COPIED_ROWS = 90, 64
"""The first cards that have the engine; tiles of fewer rows are not worth describing an operand."""

ALIGNED_BYTES = 16


@record
class BlockSide:
    """An operand as matrices of `size` by k, one for each position of the outer letters.

    depth_is_dense: whether neighbours along k are neighbours in memory, else those along the other dimension are;
    `stride` is that of the dimension that is not dense, `strides` those of the outer letters.
    """

    view: View
    size: Dim
    stride: Dim
    depth_is_dense: bool
    strides: Mapping[str, Dim]


def column_strides(problem: Problem, is_packed: bool) -> Mapping[str, Dim]:
    """The strides of columns, which lie one after the other along k where they are packed."""
    if not is_packed:
        return problem.b_strides
    return {**problem.b_strides, problem.n: problem.depth, **dict.fromkeys(problem.k, 1)}


def block_sides(problem: Problem, target: Target, is_packed: bool) -> tuple[BlockSide, BlockSide] | None:
    """Both operands as the engine reads them, or None where it cannot; columns may be packed along k."""
    types = {operand.dtype for operand in problem.dot.operands}
    if card_of(target).architecture < LEAST_ARCHITECTURE or not types <= {F16, BF16}:
        return None
    if not problem.m or problem.gathers:
        return None
    steps = [pick.step for pick in (problem.a_pick, problem.b_pick) if pick is not None]
    if not all(is_multiple(step, ALIGNED_BYTES // problem.dot.operands[0].dtype.itemsize) for step in steps):
        return None
    left = _side(problem, problem.a, problem.a_strides, problem.m, problem.rows)
    right = _side(problem, problem.b, column_strides(problem, is_packed), (problem.n,), problem.columns)
    return None if left is None or right is None else (left, right)


def _side(
    problem: Problem, view: View, strides: Mapping[str, Dim], group: Sequence[str], size: Dim
) -> BlockSide | None:
    own, depth = strides[group[-1]], strides[problem.k[-1]]
    if (own == 1) == (depth == 1):
        return None
    stride = own if depth == 1 else depth
    outer = {letter: strides[letter] for letter in problem.outer}
    steps = ALIGNED_BYTES // problem.dot.operands[0].dtype.itemsize
    aligned = all(is_multiple(dim, steps) for dim in (stride, view.offset, *outer.values()))
    return BlockSide(view, size, stride, depth == 1, outer) if aligned and stride != 0 else None
