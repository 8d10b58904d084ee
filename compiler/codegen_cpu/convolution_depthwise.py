"""Depthwise convolution: each output channel reads one input channel; lanes are neighbouring output columns."""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.views import operand_view


def emit_depthwise(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code: a unit of work is one channel of one image, row after row."""
    f, shape = frame.f, op.results[0].shape
    rows = shape[2:-1]

    def unit(number: Reg) -> None:
        image, channel = frame.split(number, shape[:2])
        plane, filter = _plane(frame, op, image, channel), _filter(frame, op, channel)
        f.loop(0, frame.size(product(rows)), 1, lambda row: _row(frame, op, (image, channel, row), plane, filter))

    f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
    f.ret()
    return KernelCode(name, (f,), shape[0] * shape[1], frame.grain(product(shape[2:])))


def _plane(frame: KernelFrame, op: Op, image: Int, channel: Int) -> Reg:
    """The first element of the input channel that an output channel reads."""
    f, x, w = frame.f, op.operands[0], op.operands[1]
    multiplier = w.shape[0] // op.int("groups") if isinstance(w.shape[0], int) else 1
    source = f.udiv(channel, multiplier) if multiplier != 1 else channel
    place = f.add(f.mul(image, frame.size(x.shape[1])), source)
    return f.gep(_base(frame, op, 0), f.mul(place, frame.size(product(x.shape[2:]))), memory_type(x.dtype))


def _filter(frame: KernelFrame, op: Op, channel: Int) -> Reg:
    f, w = frame.f, op.operands[1]
    return f.gep(_base(frame, op, 1), f.mul(channel, frame.size(product(w.shape[1:]))), memory_type(w.dtype))


def _base(frame: KernelFrame, op: Op, operand: int) -> Reg:
    view = operand_view(op.operands[operand])
    assert view is not None
    return frame.inputs[frame.kernel.block.parameters.index(view.base)]


def _row(frame: KernelFrame, op: Op, place: tuple[Int, Int, Int], plane: Reg, filter: Reg) -> None:
    """One row of output columns, in vectors."""
    f, lanes = frame.f, frame.lanes
    image, channel, row = place
    length = frame.size(op.results[0].shape[-1])
    outer = [Index(row)] if len(op.results[0].shape) == 4 else []

    def vector(column: Int) -> None:
        total = _window(frame, op, row, column, plane, filter)
        left = f.sub(length, column)
        index = [Index(image), Index(channel), *outer, Index(column, 1)]
        frame.lanes_left(lanes, left, lambda mask: write_result(frame.evaluator(lanes, mask), frame, op, total, index))

    f.loop(0, length, lanes, vector)


def _window(frame: KernelFrame, op: Op, row: Int, column: Int, plane: Reg, filter: Reg) -> Reg:
    """The products of one window for each lane, summed in the order of the taps."""
    f, (x, w) = frame.f, op.operands
    type = vector_type(memory_type(op.dtype()), frame.lanes)
    start = f.constant(type, 0.0)
    taps = [size for size in w.shape[2:] if isinstance(size, int)]
    width = frame.size(x.shape[-1])
    columns = _columns(frame, op, column)
    if len(taps) == 1:
        return _taps(frame, op, plane, filter, columns, start)
    height, step, dilation = frame.size(x.shape[2]), op.ints("strides")[0], op.ints("dilations")[0]
    top = f.sub(f.mul(row, step), frame.size(op.dims("low")[0]))

    def tap_row(tap: Int, total: Reg) -> Sequence[Reg]:
        line = f.add(top, f.mul(tap, dilation))

        def read() -> Sequence[Reg]:
            source = f.gep(plane, f.mul(line, width), memory_type(x.dtype))
            weights = f.gep(filter, f.mul(tap, taps[1]), memory_type(w.dtype))
            return (_taps(frame, op, source, weights, columns, total),)

        return f.if_(f.icmp("ult", line, height), read, lambda: (total,))

    (total,) = f.loop(0, taps[0], 1, tap_row, (start,))
    return total


def _columns(frame: KernelFrame, op: Op, column: Int) -> Int:
    """Where the first tap of the first lane reads along a row; before the row in the padding."""
    f = frame.f
    return f.sub(f.mul(column, op.ints("strides")[-1]), frame.size(op.dims("low")[-1]))


def _taps(frame: KernelFrame, op: Op, line: Reg, weights: Reg, first: Int, total: Reg) -> Reg:
    """The taps along one row of the input added to `total`."""
    f, (x, w), lanes = frame.f, op.operands, frame.lanes
    element, count = memory_type(x.dtype), w.shape[-1]
    assert isinstance(count, int)
    for tap in range(count):
        place = f.add(first, tap * op.ints("dilations")[-1])
        read = read_strided(frame, line, place, op.ints("strides")[-1], x.shape[-1], element, lanes)
        factor = f.load(element, f.gep(weights, tap, element))
        total = f.fma(read, f.splat(factor, lanes), total)
    return total


def read_strided(frame: KernelFrame, line: Reg, first: Int, stride: int, length: Dim, element: str, lanes: int) -> Reg:
    """Lanes of line[first + lane * stride], 0 where that is outside [0, length)."""
    f, type, places = frame.f, vector_type(element, lanes), vector_type("i32", lanes)
    size = f.splat(_narrow(frame, frame.size(length)), lanes)
    start = f.splat(_narrow(frame, first), lanes)
    zero = f.constant(type, 0.0)

    def part(offset: int) -> Reg:
        """A vector of neighbours, from `offset` on."""
        position = f.add(f.add(start, offset), f.lane_ids(places))
        inside = f.icmp("ult", position, size)
        return f.masked_load(type, f.gep(line, f.add(first, offset), element), inside, passthru=zero)

    if stride == 1:
        return part(0)
    if stride == 2:
        return f.shuffle(part(0), part(lanes), range(0, 2 * lanes, 2))
    steps = f.mul(f.lane_ids(places), f.constant(places, stride))
    inside = f.icmp("ult", f.add(start, steps), size)
    return f.gather(type, f.gep(line, first, element), steps, inside, passthru=zero)


def _narrow(frame: KernelFrame, number: Int) -> Reg:
    f = frame.f
    if isinstance(number, int):
        return f.constant("i32", number)
    result = f.convert("trunc", number, "i32")
    assert isinstance(result, Reg)
    return result
