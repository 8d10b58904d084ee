"""Pointwise kernels: values of one shape, element by element, in flat tiles or, where memory is crossed, squares."""

from collections.abc import Sequence

from onnxc.compiler.codegen_gpu.schedules.elements import SMALLEST_CROSSED
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, unravel
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.domain import Domain, affine_domain, crossed_axis
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import PointwiseSchedule
from onnxc.compiler.planning.sink_movements import sink_movements
from onnxc.compiler.target import Target


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a pointwise kernel."""
    kernel = sink_movements(kernel)
    domain = affine_domain(kernel.block)
    schedule = kernel.scheduled(PointwiseSchedule)
    if schedule.algorithm == "squares":
        assert domain is not None, kernel
        return _emit_squares(open_kernel(kernel, target, rank=2), domain, schedule.block)
    frame = open_kernel(kernel, target)
    shape = domain.shape if domain is not None else frame.root.shape
    strides = domain.output if domain is not None else row_major(shape)

    def write(e: Evaluator, offset: Int) -> None:
        write_element(frame, e, domain, strides, unravel(frame.b, offset, [frame.size(size) for size in shape]))

    return frame.flat(product(shape), write, schedule.block)


def write_element(
    frame: KernelFrame, e: Evaluator, domain: Domain | None, strides: Sequence[Dim], index: Sequence[Int]
) -> None:
    """Computes and stores the results at an index of their domain."""
    if domain is not None:
        e.bind_views(domain.leaves, index)
    offset = e.strided(index, strides)
    for ordinal, result in enumerate(frame.kernel.block.results):
        e.store(e.value(result, index), result.dtype, frame.output(ordinal), offset)


def _emit_squares(frame: KernelFrame, domain: Domain, side: int) -> KernelCode:
    """Square tiles over the crossed axis and the last one; the other axes are programs."""
    b, shape, crossed = frame.b, domain.shape, crossed_axis(domain, SMALLEST_CROSSED)
    assert crossed is not None, frame.kernel
    last = len(shape) - 1
    others = [axis for axis in range(last) if axis != crossed]
    tiles = [floordiv(shape[axis] + side - 1, side) for axis in (crossed, last)]
    ordinal: Int = b.program()
    sizes = [shape[axis] for axis in others] + tiles
    *outer, row, column = unravel(b, ordinal, [frame.size(size) for size in sizes])
    index: dict[int, Int] = dict(zip(others, outer, strict=True))
    lanes, masks = dict[int, Expr](), dict[int, Expr]()
    for dim, (axis, tile) in enumerate(((crossed, row), (last, column))):
        lanes[dim] = b.lanes(dim, side)
        index[axis] = b.add(b.mul(tile, side), lanes[dim])
        size = shape[axis]
        if not isinstance(size, int) or size % side:
            masks[dim] = b.compare(index[axis], "<", frame.size(size))
    e = frame.evaluator(lanes, masks)
    write_element(frame, e, domain, domain.output, [index[axis] for axis in range(last + 1)])
    return frame.code((product(sizes),))
