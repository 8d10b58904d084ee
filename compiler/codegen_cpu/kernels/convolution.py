"""Convolution: which algorithm serves which shape, and the one that serves all.

`rows`: pixels, whose windows are read in place, times panels of filters. `winograd`: 3 x 3 taps, 2 x 2 results at
a time. `columns`: pixels times all taps, added up. `depthwise`: one filter per channel, vectors
of channels. `general`: everything else.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.convolutions.bytes import emit_bytes
from onnxc.compiler.codegen_cpu.convolutions.columns import emit_columns
from onnxc.compiler.codegen_cpu.convolutions.depthwise import emit_depthwise
from onnxc.compiler.codegen_cpu.convolutions.planes import emit_planes
from onnxc.compiler.codegen_cpu.convolutions.rows import emit_rows
from onnxc.compiler.codegen_cpu.convolutions.winograd import emit_winograd
from onnxc.compiler.codegen_cpu.element_types import register_type
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.contraction import widened
from onnxc.compiler.codegen_cpu.kernels.pointwise import write_rows
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.ir.primitives.contractions import ConvolutionDimensions, parse_dimensions
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.target import Target


def find_convolution(block: Block) -> Op:
    """The convolution of a kernel block."""
    return next(op for op in block.ops if op.name == "convolution")


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a convolution by the algorithm that its schedule names."""
    frame = open_kernel(kernel, name, target)
    op = find_convolution(kernel.block)
    match kernel.scheduled(ConvolutionSchedule).algorithm:
        case "rows":
            return emit_rows(frame, op, name)
        case "winograd":
            return emit_winograd(frame, op, name)
        case "planes":
            return emit_planes(frame, op, name)
        case "columns":
            return emit_columns(frame, op, name)
        case "bytes":
            return emit_bytes(frame, op, name)
        case "depthwise":
            return emit_depthwise(frame, op, name)
    return _emit_general(frame, op, name)


def _emit_general(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """Any convolution of any type: each result element sums its products in order, vectors along the last axis."""

    def write(e: Evaluator, index: Sequence[Index]) -> None:
        write_result(e, frame, op, _sum_window(e, frame, op, index), index)

    units, grain = write_rows(
        frame, op.results[0].shape, frame.kernel.scheduled(ConvolutionSchedule).tile.columns, write
    )
    frame.f.ret()
    return KernelCode(name, (frame.f,), units, grain)


def _sum_window(e: Evaluator, frame: KernelFrame, op: Op, index: Sequence[Index]) -> Reg:
    f, (x, w) = frame.f, op.operands
    axes = parse_dimensions(op.text("dimensions"))
    type = vector_type(register_type(op.dtype()), e.lanes)
    filter = index[axes.result.channel]
    first_channel = _first_channel(e, op, axes, filter)
    window = [w.shape[axis] for axis in (axes.w.input, *axes.w.spatial)]

    def step(ordinal: Reg, total: Reg) -> tuple[Reg]:
        channel, *taps = frame.split(ordinal, window)
        inner = frame.evaluator(e.lanes, e.mask)
        read_channel = Index(f.add(first_channel.base, channel), first_channel.step, first_channel.vector)
        positions, inside = _positions(inner, op, axes, index, taps)
        a = _read_inside(e, frame, op, (index[axes.result.batch], read_channel, positions), inside)
        b = inner.vector(w, axes.w.arranged(filter, Index(channel), list(map(Index, taps))))
        a, b = widened(a, x.dtype, op.dtype(), e), widened(b, w.dtype, op.dtype(), e)
        if op.dtype().is_float:
            return (f.multiply_add(a, b, total),)
        return (f.add(total, f.mul(a, b)),)

    (total,) = f.loop(0, frame.size(product(window)), 1, step, (f.constant(type, 0),))
    return total


def _first_channel(e: Evaluator, op: Op, axes: ConvolutionDimensions, filter: Index) -> Index:
    """The first channel that a filter reads: that of its group."""
    if op.int("groups") == 1:
        return Index()
    per_group = floordiv(op.result.shape[axes.result.channel], op.int("groups"))
    ordinals = e.as_values(filter)
    length = _like(e, e.f.smax(e.size(per_group), 1), ordinals)
    group = e.f.udiv(ordinals, length)
    return e.from_values(as_reg(e.f.mul(group, _like(e, e.size(op.operands[1].shape[axes.w.input]), ordinals))))


def _positions(
    e: Evaluator, op: Op, axes: ConvolutionDimensions, index: Sequence[Index], taps: Sequence[Int]
) -> tuple[list[Index], Reg]:
    """Where a window reads along each spatial axis, and whether there is an element."""
    f, inside, positions = e.f, e.mask, list[Index]()
    for spatial, tap in enumerate(taps):
        position, fits = _tap_position(e, op, axes, spatial, index[axes.result.spatial[spatial]], tap)
        positions.append(position)
        inside = fits if inside is None else f.and_(_spread(e, inside), _spread(e, fits))
    return positions, f.constant("i1", 1) if inside is None else inside


def _read_inside(e: Evaluator, frame: KernelFrame, op: Op, at: tuple[Index, Index, list[Index]], inside: Reg) -> Reg:
    """The image at (image, channel, places), 0 where that is not `inside`."""
    f, x, axes = frame.f, op.operands[0], parse_dimensions(op.text("dimensions"))
    image, channel, positions = at
    zero = f.constant(vector_type(register_type(x.dtype), e.lanes), 0)
    if inside.lanes == 1 and e.lanes > 1:

        def read() -> list[Reg]:
            return [frame.evaluator(e.lanes, e.mask).vector(x, axes.x.arranged(image, channel, positions))]

        return f.if_(inside, read, lambda: [zero])[0]
    masked = frame.evaluator(e.lanes, _spread(e, inside))
    safe = [_within(masked, op, axes, spatial, each) for spatial, each in enumerate(positions)]
    return f.select(_spread(e, inside), masked.vector(x, axes.x.arranged(image, channel, safe)), zero)


def _spread(e: Evaluator, mask: Reg) -> Reg:
    return mask if mask.lanes == e.lanes else e.f.splat(mask, e.lanes)


def _tap_position(
    e: Evaluator, op: Op, axes: ConvolutionDimensions, spatial: int, output: Index, tap: Int
) -> tuple[Index, Reg]:
    """Where tap `tap` of a window reads along a spatial axis, and whether there is an element."""
    f, stride, spread = e.f, op.ints("strides")[spatial], op.ints("input_dilations")[spatial]
    shift = f.sub(f.mul(tap, op.ints("dilations")[spatial]), e.size(op.dims("low")[spatial]))
    element = e.linear([output], [stride], shift)
    position = e.as_values(element)
    size = e.size(op.operands[0].shape[axes.x.spatial[spatial]])
    if spread == 1:
        return element, f.icmp("ult", position, _like(e, size, position))
    step = _like(e, spread, position)
    quotient = f.sdiv(position, step)
    is_whole = f.icmp("eq", f.mul(quotient, step), position)
    return e.from_values(quotient), f.and_(is_whole, f.icmp("ult", quotient, _like(e, size, position)))


def _like(e: Evaluator, x: Int, shape: Reg) -> Reg:
    return e.f.splat(as_reg(x), shape.lanes)


def _within(e: Evaluator, op: Op, axes: ConvolutionDimensions, spatial: int, position: Index) -> Index:
    """A position that does not depend on the lane, kept within its axis: no scalar load leaves the buffer."""
    if not position.is_uniform:
        return position
    f = e.f
    last = f.smax(f.sub(e.size(op.operands[0].shape[axes.x.spatial[spatial]]), 1), 0)
    return Index(f.smin(f.smax(position.base, 0), last))
