"""Convolutions of bytes: pixels of the result, each a row of the bytes of its window, times panels of filters.

A unit of work is a chunk of neighbouring pixels, across lines and images, against one panel of the filters. Windows are
unrolled once for all panels of a chunk, zeros in the padding; pixels that are rows as they lie are read in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.byte_panels import byte_library, multiply_bytes, panel_steps
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import FLIPPED_ZERO, GROUP
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import Product, ProductTypes
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import I8, I32, U8
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.views import View, operand_views
from onnxc.compiler.planning.schedules import ConvolutionSchedule


def emit_bytes(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution of bytes, whose channels are innermost."""
    x, w = operand_views(op)
    return _ConvolvedBytes(frame, op, frame.kernel.scheduled(ConvolutionSchedule), x, w).emit(name)


@dataclass(frozen=True)
class _Pixel:
    """A pixel of the result: where its row is unrolled, where its image begins, and its place along each axis."""

    row: Reg
    image: Int
    starts: tuple[Int, ...]


@dataclass
class _ConvolvedBytes:
    frame: KernelFrame
    op: Op
    schedule: ConvolutionSchedule
    x: View
    w: View
    rows: Reg | None = field(init=False)

    def __post_init__(self) -> None:
        schedule, f = self.schedule, self.frame.f
        self.dtype = self.x.base.dtype
        rows = U8 if schedule.arithmetic.operands == str(U8) else I8
        self.types, self.flips = ProductTypes(rows, self.w.base.dtype, I32, GROUP), rows != self.dtype
        self.lanes, self.width, self.chunk = self.frame.lanes, schedule.tile.columns, schedule.tile.rows
        self.filters, self.channels, *self.taps = known_sizes(self.w.shape)
        self.depth = prod(self.taps) * self.channels
        # Taps of a line that lie side by side are copied at once.
        merges = self.op.ints("dilations")[-1] == 1 and self.x.strides[-2] == self.channels
        self.merged = self.taps[-1] if merges else 1
        self.outer_taps = (*self.taps[:-1], self.taps[-1] // self.merged)
        self.vector_bytes = self.lanes * GROUP
        self.line = -(-self.depth // self.vector_bytes) * self.vector_bytes
        self.tile = f.alloca("i32", self.chunk * self.width)
        self.rows = f.alloca("i8", self.chunk * self.line + self.vector_bytes) if schedule.packs_rows else None
        self.pixels: Dim = product(self.op.result.shape[:-1])

    # Units

    def emit(self, name: str) -> KernelCode:
        """The loop over units, panels running fastest."""
        frame, f = self.frame, self.frame.f
        panels = -(-self.filters // self.width)
        chunks = floordiv(self.pixels + self.chunk - 1, self.chunk)

        def unit(ordinal: Reg, before: Reg) -> Sequence[Int]:
            chunk, panel = frame.split(ordinal, (chunks, panels))
            self._unit(f.mul(chunk, self.chunk), panel, f.icmp("ne", chunk, before))
            return (chunk,)

        f.loop(frame.begin, frame.end, 1, unit, (-1,), at_least_once=True)
        f.ret()
        grain = frame.grain(minimum(self.pixels, self.chunk) * self.width * self.depth)
        library = byte_library(self.types, self._shape, frame.target)
        return KernelCode(name, (f,), chunks * panels, grain, library)

    @property
    def _shape(self) -> tuple[int, int, int]:
        """(vectors, lanes, rows) of the micro-kernels."""
        registers = self.schedule.registers
        assert registers is not None, self.schedule
        return self.width // self.lanes, self.lanes, registers.rows

    def _unit(self, first: Int, panel: Int, is_new: Reg) -> None:
        """One unit; is_new: whether its pixels are others than those of the unit before."""
        f = self.frame.f
        count = f.smin(f.sub(self.frame.size(self.pixels), first), self.chunk)
        if self.rows is None:
            a, stride = self._source(f.mul(first, self.channels)), self.channels
        else:
            a, stride = self.rows, self.line
            f.if_(is_new, lambda: self._unroll_chunk(first, count))
        steps = panel_steps(self.depth, f, self.frame.target)
        panel_bytes = f.mul(f.add(steps, int(self.flips)), self.width * GROUP)
        b = f.gep(self._base(self.w), f.mul(panel, panel_bytes))

        def block(k: Int) -> None:
            depth = f.smin(f.sub(steps, k), self.schedule.tile.depth // GROUP)
            columns = f.gep(b, f.mul(k, self.width * GROUP))
            product = Product(f.gep(a, f.mul(k, GROUP)), stride, GROUP, columns, self.tile, depth)
            accumulate = f.convert("zext", f.icmp("ne", k, 0), "i64")
            multiply_bytes(f, product, count, accumulate, self.types, self._shape, self.frame.target)

        f.loop(0, steps, self.schedule.tile.depth // GROUP, block)
        sums = f.gep(b, f.mul(steps, self.width * GROUP)) if self.flips else None
        f.loop(0, count, 1, lambda row: self._finish_row(f.add(first, row), row, f.mul(panel, self.width), sums))

    def _base(self, view: View) -> Reg:
        return self.frame.inputs[self.frame.kernel.block.parameters.index(view.base)]

    def _source(self, offset: Int) -> Reg:
        """The address of an element of the image, from its offset."""
        f = self.frame.f
        return f.gep(self._base(self.x), f.add(self.frame.size(self.x.offset), offset))

    # Windows

    def _unroll_chunk(self, first: Int, count: Int) -> None:
        self.frame.f.loop(0, count, 1, lambda row: self._unroll(first, row))

    def _unroll(self, first: Int, row: Int) -> None:
        """Writes the window of a pixel as a row: its outer taps one after another, what is merged in one piece."""
        f, frame = self.frame.f, self.frame
        assert self.rows is not None
        image, *positions = frame.split(f.add(first, row), self.op.result.shape[:-1])
        steps, lows = self.op.ints("strides"), self.op.dims("low")
        starts = [f.sub(f.mul(p, step), frame.size(low)) for p, step, low in zip(positions, steps, lows, strict=True)]
        offset = f.mul(image, frame.size(self.x.strides[0]))
        pixel = _Pixel(f.gep(self.rows, f.mul(row, self.line)), offset, tuple(starts))
        f.loop(0, prod(self.outer_taps), 1, lambda tap: self._unroll_tap(pixel, tap))

    def _unroll_tap(self, pixel: _Pixel, tap: Int) -> None:
        f, frame = self.frame.f, self.frame
        dilations, sizes = self.op.ints("dilations"), [frame.size(size) for size in self.x.shape[1:-1]]
        taps = frame.split(tap, self.outer_taps)
        positions = [
            f.add(start, f.mul(at, dilation)) for start, at, dilation in zip(pixel.starts, taps, dilations, strict=True)
        ]
        offset = pixel.image
        for p, stride in zip(positions, self.x.strides[1:-1], strict=True):
            offset = f.add(offset, f.mul(p, frame.size(stride)))
        room = f.gep(pixel.row, f.mul(tap, self.merged * self.channels))
        if set(self.op.dims("low")) | set(self.op.dims("high")) <= {0}:
            self._copy(offset, room)
            return
        tests = [f.icmp("ult", p, size) for p, size in zip(positions[:-1], sizes[:-1], strict=True)]
        ahead = f.sub(sizes[-1], positions[-1])
        is_whole = f.and_(f.icmp("sge", positions[-1], 0), f.icmp("sge", ahead, self.merged))
        is_inside = f.constant("i1", 1)
        for test in tests:
            is_inside = f.and_(is_inside, test)
        part = partial(self._copy_part, offset, room, f.smax(f.neg(positions[-1]), 0), f.smin(ahead, self.merged))

        def filled() -> None:
            self._fill(room)
            f.if_(is_inside, part)

        f.if_(f.and_(is_inside, is_whole), lambda: self._copy(offset, room), filled)

    def _fill(self, room: Reg) -> None:
        """Zeros for all of what is merged; what lies behind is written later."""
        f, vector = self.frame.f, vector_type("i8", self.vector_bytes)
        zero = f.constant(vector, FLIPPED_ZERO if self.flips else 0)
        f.loop(0, self.merged * self.channels, self.vector_bytes, lambda at: f.store(zero, f.gep(room, at)))

    def _copy(self, offset: Int, room: Reg) -> None:
        """All of what is merged; what lies behind is written later."""
        f, length = self.frame.f, self.merged * self.channels
        source, vector = self._source(offset), vector_type("i8", self.vector_bytes)
        whole = length // self.vector_bytes * self.vector_bytes
        f.loop(
            0,
            whole,
            self.vector_bytes,
            lambda at: f.store(self._flipped(f.load(vector, f.gep(source, at))), f.gep(room, at)),
        )
        if whole < length:
            mask, zero = f.tail_mask(self.vector_bytes, length - whole), f.constant(vector, 0)
            rest = f.masked_load(vector, f.gep(source, whole), mask, passthru=zero)
            f.store(self._flipped(rest), f.gep(room, whole))

    def _copy_part(self, offset: Int, room: Reg, begin: Int, end: Int) -> None:
        """The taps of what is merged from `begin` to `end`, which lie inside of the image."""
        f, vector = self.frame.f, vector_type("i8", self.vector_bytes)
        zero, length = f.constant(vector, 0), f.mul(end, self.channels)

        def copy(at: Int) -> None:
            mask = f.tail_mask(self.vector_bytes, f.sub(length, at))
            x = f.masked_load(vector, self._source(f.add(offset, at)), mask, passthru=zero)
            f.masked_store(self._flipped(x), f.gep(room, at), mask)

        f.loop(f.mul(begin, self.channels), length, self.vector_bytes, copy)

    def _flipped(self, x: Reg) -> Reg:
        return self.frame.f.xor(x, FLIPPED_ZERO) if self.flips else x

    # The way to the result

    def _finish_row(self, pixel: Int, row: Int, first_filter: Int, sums: Reg | None) -> None:
        """The pointwise ops on one row of the tile: the filters of one pixel."""
        f, frame = self.frame.f, self.frame
        outer = [Index(p) for p in frame.split(pixel, self.op.result.shape[:-1])]
        left = f.sub(self.filters, first_filter)
        for start in range(0, self.width, self.lanes):
            source = f.gep(self.tile, f.add(f.mul(row, self.width), start), "i32")
            behind = None if sums is None else f.gep(sums, start, "i32")
            index = [*outer, Index(f.add(first_filter, start), 1)]
            frame.lanes_left(self.lanes, f.sub(left, start), partial(self._finish_vector, source, behind, index))

    def _finish_vector(self, source: Reg, sums: Reg | None, index: Sequence[Index], mask: Reg | None) -> None:
        f, vector = self.frame.f, vector_type("i32", self.lanes)
        x = f.load(vector, source, align=64)
        if sums is not None:
            x = f.sub(x, f.load(vector, sums, align=4 * self.lanes))
        write_result(self.frame.evaluator(self.lanes, mask), self.frame, self.op, x, index)
