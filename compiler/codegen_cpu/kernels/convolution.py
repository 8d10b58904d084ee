"""Convolution: which algorithm serves which shape, and the one that serves all.

`panels`: the input is unrolled on the way into panels of output pixels, which the rows of the weights are multiplied
with. `depthwise`: one filter per channel, vectors of output pixels. `general`: everything else.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.convolution_depthwise import emit_depthwise
from onnxc.compiler.codegen_cpu.convolution_panels import emit_panels
from onnxc.compiler.codegen_cpu.element_types import register_type
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.contraction import widened
from onnxc.compiler.codegen_cpu.kernels.pointwise import write_rows
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Reg, vector_type
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.module import Block, Op
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
        case "panels":
            return emit_panels(frame, op, name)
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
    type = vector_type(register_type(op.dtype()), e.lanes)
    per_group = floordiv(op.results[0].shape[1], op.int("groups"))
    group = f.udiv(_scalar(index[1]), frame.size(per_group)) if op.int("groups") > 1 else 0
    first_channel = f.mul(group, frame.size(w.shape[1]))
    window = w.shape[1:]

    def step(number: Reg, total: Reg) -> tuple[Reg]:
        channel, *taps = frame.split(number, window)
        inner = frame.evaluator(e.lanes, e.mask)
        places: list[Index] = [index[0], Index(f.add(first_channel, channel))]
        inside: Reg | None = e.mask
        for axis, tap in enumerate(taps):
            place, fits = _tap_place(inner, op, axis, index[2 + axis], tap)
            places.append(place)
            inside = fits if inside is None else f.and_(_spread(e, inside), _spread(e, fits))
        assert inside is not None
        masked = frame.evaluator(e.lanes, _spread(e, inside))
        safe = [_within(masked, op, axis, place) for axis, place in enumerate(places)]
        a = masked.vector(x, safe)
        a = f.select(_spread(e, inside), a, f.constant(a.type, 0))
        b = inner.vector(w, [index[1], Index(channel), *map(Index, taps)])
        a, b = widened(a, x.dtype, op.dtype(), e), widened(b, w.dtype, op.dtype(), e)
        if op.dtype().is_float:
            return (f.fma(a, b, total),)
        return (f.add(total, f.mul(a, b)),)

    (total,) = f.loop(0, frame.size(product(window)), 1, step, (f.constant(type, 0),))
    return total


def _scalar(index: Index) -> Reg | int:
    assert index.is_uniform, "channels are not vectorised"
    return index.base


def _spread(e: Evaluator, mask: Reg) -> Reg:
    return mask if mask.lanes == e.lanes else e.f.splat(mask, e.lanes)


def _tap_place(e: Evaluator, op: Op, axis: int, output: Index, tap: Reg | int) -> tuple[Index, Reg]:
    """Where tap `tap` of a window reads along spatial `axis`, and whether there is an element."""
    f, stride, spread = e.f, op.ints("strides")[axis], op.ints("input_dilations")[axis]
    shift = f.sub(f.mul(tap, op.ints("dilations")[axis]), e.size(op.dims("low")[axis]))
    place = e.linear([output], [stride], shift)
    position = e.as_values(place)
    size = e.size(op.operands[0].shape[2 + axis])
    if spread == 1:
        return place, f.icmp("ult", position, _like(e, size, position))
    step = _like(e, spread, position)
    quotient = f.sdiv(position, step)
    whole = f.icmp("eq", f.mul(quotient, step), position)
    return e.from_values(quotient), f.and_(whole, f.icmp("ult", quotient, _like(e, size, position)))


def _like(e: Evaluator, number: Reg | int, shape: Reg) -> Reg:
    scalar = number if isinstance(number, Reg) else e.f.constant("i64", number)
    return e.f.splat(scalar, shape.lanes)


def _within(e: Evaluator, op: Op, axis: int, place: Index) -> Index:
    """A position that does not depend on the lane, kept within its axis: no scalar load leaves the buffer."""
    if not place.is_uniform or axis < 2:
        return place
    f = e.f
    last = f.smax(f.sub(e.size(op.operands[0].shape[axis]), 1), 0)
    return Index(f.smin(f.smax(place.base, 0), last))
