"""Panels of a constant operand of a contraction, packed when the program is compiled."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.layouts import Batch, PackedPanels, known_sizes
from onnxc.compiler.planning.loops.matrix_products import Problem

__all__ = ["constant_panels", "has_constant_panels"]


def has_constant_panels(problem: KernelProblem, gemm: Problem) -> bool:
    """Whether B is a constant of which no size or stride is known to a call alone, and no part is picked."""
    if gemm.b_pick is not None:
        return False
    parameter = problem.block.parameters.index(gemm.b.base)
    return problem.is_constant(parameter) and all(isinstance(size, int) for size in _sizes(gemm))


def constant_panels(gemm: Problem, width: int, *, group: int = 1, sums_by: int = 0, whole: int = 1) -> PackedPanels:
    """A constant B in panels of so many columns; the rest as of `PackedPanels`."""
    depth, columns, depth_stride, column_stride, offset, *rest = known_sizes(_sizes(gemm))
    batches = tuple(Batch(size, stride) for size, stride in zip(rest[::2], rest[1::2], strict=True))
    return PackedPanels(width, depth, columns, depth_stride, column_stride, offset, batches, group, sums_by, whole)


def _sizes(gemm: Problem) -> Sequence[Dim]:
    """Depth, columns, their strides, the offset; then the sizes and strides of the matrices that B has.

    A kernel goes from panel to panel along all letters that are summed outside of k, those too along which a constant
    of equal elements repeats.
    """
    outer = [*(letter for letter in gemm.outer if gemm.b_strides[letter] != 0), *gemm.outer_k]
    matrix = (gemm.depth, gemm.columns, gemm.b_stride(gemm.k), gemm.b_strides[gemm.n], gemm.b.offset)
    return (*matrix, *(size for letter in outer for size in (gemm.sizes[letter], gemm.b_strides[letter])))
