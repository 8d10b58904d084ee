"""Panels of a constant operand of a contraction, packed when the program is compiled."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.layouts import Batch, PackedPanels, known_sizes
from onnxc.compiler.planning.loops.matrix_products import Problem

__all__ = ["constant_panels", "has_constant_panels"]


def has_constant_panels(problem: KernelProblem, found: Problem) -> bool:
    """Whether B is a constant of which no size or stride is known to a call alone."""
    parameter = problem.block.parameters.index(found.b.base)
    return problem.is_constant(parameter) and all(isinstance(size, int) for size in _sizes(found))


def constant_panels(found: Problem, width: int, *, group: int = 1, sums_by: int = 0, whole: int = 1) -> PackedPanels:
    """A constant B in panels of so many columns; the rest as of `PackedPanels`."""
    depth, columns, depth_stride, column_stride, offset, *rest = known_sizes(_sizes(found))
    batches = tuple(Batch(size, stride) for size, stride in zip(rest[::2], rest[1::2], strict=True))
    return PackedPanels(width, depth, columns, depth_stride, column_stride, offset, batches, group, sums_by, whole)


def _sizes(found: Problem) -> Sequence[Dim]:
    """Depth, columns, their strides, the offset; then the sizes and strides of the matrices that B has."""
    outer = [letter for letter in (*found.outer, *found.outer_k) if found.b_strides[letter] != 0]
    matrix = (found.depth, found.columns, found.b_stride(found.k), found.b_strides[found.n], found.b.offset)
    return (*matrix, *(size for letter in outer for size in (found.sizes[letter], found.b_strides[letter])))
