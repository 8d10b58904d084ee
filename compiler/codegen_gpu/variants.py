"""Two ways to carry out one kernel: which of them a call takes depends on its sizes, and both stand in the artifact."""

from dataclasses import replace

from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode, SizeRange
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, at_least

__all__ = ["few_and_long"]


def few_and_long(shared: KernelCode, general: KernelCode, few: tuple[Dim, int], long: tuple[Dim, int]) -> KernelCode:
    """`shared` for the calls where one size is at most, and another one at least, the number given; else `general`."""
    (count, most), (length, least) = few, long
    if at_least(count, most + 1) or at_least(least - 1, length):
        return general
    if at_least(most, count) and at_least(length, least):
        return shared
    size = maximum(0, minimum(most + 1 - count, length + 1 - least))
    steps = (
        *(replace(step, when=SizeRange(size, 1, None)) for step in shared.steps),
        *(replace(step, when=SizeRange(size, 0, 0)) for step in general.steps),
    )
    return KernelCode(steps, maximum(shared.scratch_bytes, general.scratch_bytes), general.element_counts)
