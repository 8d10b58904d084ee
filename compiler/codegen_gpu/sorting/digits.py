"""Sorts of long lines: keys and ordinals are sorted by digits, then elements are picked in that order."""

from onnxc.compiler.codegen_gpu.schedules.radix import RadixSort
from onnxc.compiler.codegen_gpu.sorting.keys import key_of
from onnxc.compiler.codegen_gpu.sorting.lines import Lines
from onnxc.compiler.codegen_gpu.sorting.radix_passes import radix_steps
from onnxc.compiler.codegen_gpu.source.element_types import memory_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Int, dims_of, unravel
from onnxc.compiler.ir.dtypes import I32
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import OrderingSchedule
from onnxc.compiler.target import Target

__all__ = ["sort_by_digits"]


def sort_by_digits(kernel: Kernel, lines: Lines, radix: RadixSort, target: Target) -> KernelCode:
    """The launches: keys, three for each digit, and the results."""
    block = kernel.scheduled(OrderingSchedule).block
    first = _write_keys(open_kernel(kernel, target), lines, radix, block)
    last = _write_results(open_kernel(kernel, target), lines, radix, block)
    return KernelCode((first, *radix_steps(radix), last), element_counts(kernel))


def _write_keys(frame: KernelFrame, lines: Lines, radix: RadixSort, block: int) -> DeviceStep:
    """The launch that writes the key of each element, and its place in its line."""
    keys = frame.scratch("keys", radix.key, radix.keys(0))
    ordinals = frame.scratch("ordinals", I32, radix.ordinals(0))

    def write(e: Evaluator, element: Int) -> None:
        b = frame.b
        line, position = unravel(b, element, [frame.size(lines.count), frame.size(lines.length)])
        key = key_of(e.value(lines.operand, lines.at(frame, line, position)), lines.operand.dtype, lines.descending, b)
        e.store(b.let(f"{key}.to({memory_type(radix.key)})", key.dims), radix.key, keys, element)
        e.store(b.let(f"{position} + 0", dims_of(position)), I32, ordinals, element)

    return frame.flat_step(lines.count * lines.length, write, block)


def _write_results(frame: KernelFrame, lines: Lines, radix: RadixSort, block: int) -> DeviceStep:
    """The launch that picks elements in the order of their ordinals."""
    ordinals = frame.scratch("ordinals", I32, radix.ordinals(radix.digits.count))

    def write(e: Evaluator, element: Int) -> None:
        b = frame.b
        line, rank = unravel(b, element, [frame.size(lines.count), frame.size(lines.kept)])
        position = e.load(I32, ordinals, b.add(b.mul(line, frame.size(lines.length)), rank))
        lines.write(frame, e, (line, rank), position)

    return frame.flat_step(lines.count * lines.kept, write, block)
