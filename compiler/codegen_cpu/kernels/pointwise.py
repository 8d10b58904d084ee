"""Pointwise kernels: one value, computed element by element along its rows."""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.planning.domain import Domain, affine_domain
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import PointwiseSchedule
from onnxc.compiler.planning.sink_movements import sink_movements
from onnxc.compiler.planning.views import row_major
from onnxc.compiler.target import Target


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a pointwise kernel."""
    frame = open_kernel(sink_movements(kernel), name, target)
    domain = affine_domain(frame.kernel.block)
    shape = domain.shape if domain is not None else frame.root.shape
    strides = domain.output if domain is not None else row_major(shape)
    block = frame.kernel.scheduled(PointwiseSchedule).block
    units, grain = write_rows(frame, shape, block, lambda e, index: _store(frame, e, domain, strides, index))
    frame.f.ret()
    return KernelCode(name, (frame.f,), units, grain)


def _store(
    frame: KernelFrame, e: Evaluator, domain: Domain | None, strides: Sequence[Dim], index: Sequence[Index]
) -> None:
    if domain is not None:
        e.bind_views(domain.leaves, index)
    root = frame.root
    place = e.strided(index, strides)
    x = e.bound.get(root)
    x = x if x is not None else e.value(root, index)
    e.store(to_memory(x, root.dtype, frame.f), frame.output, memory_type(root.dtype), place)


def write_rows(
    frame: KernelFrame, shape: Sequence[Dim], row_block: int, write: Callable[[Evaluator, Sequence[Index]], None]
) -> tuple[Dim, Dim]:
    """Loops over a box, vectors along its last axis, a masked one at the end of a row; (units, grain) of the work.

    row_block: the most elements of a row in a unit.
    """
    f = frame.f
    rows, length = tuple(shape[:-1]), shape[-1] if shape else 1
    blocks = floordiv(length + row_block - 1, row_block)

    def unit(number: Reg) -> None:
        row, block = (number, 0) if blocks == 1 else frame.split(number, (1, blocks))
        outer = tuple(Index(coordinate) for coordinate in frame.split(row, rows))
        start = f.mul(block, row_block)
        stop = frame.size(length) if blocks == 1 else f.smin(f.add(start, row_block), frame.size(length))
        write_row(frame, start, stop, lambda e, column: write(e, (*outer, column) if shape else ()))

    f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
    return product(rows) * blocks, frame.grain(minimum(length, row_block))


def write_row(frame: KernelFrame, start: Int, stop: Int, write: Callable[[Evaluator, Index], None]) -> None:
    """`write` at vectors of columns from `start` to `stop`, the last one masked."""
    f, lanes = frame.f, frame.lanes
    count = f.sub(stop, start)
    whole = f.add(start, f.mul(f.sdiv(count, lanes), lanes))
    f.loop(start, whole, lanes, lambda column: write(frame.evaluator(), Index(column, 1)))
    rest = f.sub(stop, whole)
    if rest == 0:
        return
    if rest == 1:
        write(frame.evaluator(lanes=1), Index(whole, 0))
        return

    def tail() -> None:
        write(frame.evaluator(mask=f.tail_mask(lanes, rest)), Index(whole, 1))

    f.if_(f.icmp("sgt", rest, 0), tail)
