"""Convolutions of bytes: pixels of the result, each a row of the bytes of its window, times panels of filters.

A unit of work is a chunk of neighbouring pixels, across lines and images, against one panel of the filters. Windows are
unrolled once for all panels of a chunk, zeros in the padding; pixels that are rows as they lie are read in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.byte_panels import byte_library, multiply_bytes, panel_steps
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import FLIPPED_ZERO
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import Product
from onnxc.compiler.codegen_cpu.inner_loops.packing import Conversion
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.schedules.byte_products import byte_types, flipped_sums
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_masks import masked_load, masked_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.views import View, operand_views
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.runtime.records import record


def emit_bytes(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution of bytes, whose channels are innermost."""
    x, w = operand_views(op)
    return _ConvolvedBytes(frame, op, frame.kernel.scheduled(ConvolutionSchedule), x, w).emit(name)


@record
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
        self.types = byte_types(schedule.arithmetic, self.w.base.dtype)
        self.group, self.element = self.types.group, memory_type(self.types.a)
        self.flips = flipped_sums(self.types.a, self.dtype) != 0
        self.lanes, self.width, self.chunk = self.frame.lanes, schedule.tile.columns, schedule.tile.rows
        self.filters, self.channels, *self.taps = known_sizes(self.w.shape)
        self.depth = prod(self.taps) * self.channels
        # Taps of a line that lie side by side are copied at once.
        merges = self.op.ints("dilations")[-1] == 1 and self.x.strides[-2] == self.channels
        self.merged = self.taps[-1] if merges else 1
        self.outer_taps = (*self.taps[:-1], self.taps[-1] // self.merged)
        self.row_lanes = self.lanes * self.group
        self.conversion = Conversion(self.dtype, self.types.a, self.row_lanes)
        self.line = -(-self.depth // self.row_lanes) * self.row_lanes
        self.tile = f.alloca("i32", self.chunk * self.width)
        self.rows = f.alloca(self.element, self.chunk * self.line + self.row_lanes) if schedule.packs_rows else None
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
        panel_bytes = f.mul(f.add(steps, int(self.flips)), self.width * self.group)
        b = f.gep(self._base(self.w), f.mul(panel, panel_bytes))

        def block(k: Int) -> None:
            depth = f.smin(f.sub(steps, k), self.schedule.tile.depth // self.group)
            columns = f.gep(b, f.mul(k, self.width * self.group))
            rows = f.gep(a, f.mul(k, self.group), self.element)
            product = Product(rows, stride, self.group, columns, self.tile, depth)
            accumulate = f.convert("zext", f.icmp("ne", k, 0), "i64")
            multiply_bytes(f, product, count, accumulate, self.types, self._shape, self.frame.target)

        f.loop(0, steps, self.schedule.tile.depth // self.group, block)
        sums = f.gep(b, f.mul(steps, self.width * self.group)) if self.flips else None
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
        pixel = _Pixel(f.gep(self.rows, f.mul(row, self.line), self.element), offset, tuple(starts))
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
        room = f.gep(pixel.row, f.mul(tap, self.merged * self.channels), self.element)
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
        f, vector = self.frame.f, vector_type(self.element, self.row_lanes)
        zero = f.constant(vector, FLIPPED_ZERO if self.flips else 0)
        store = partial(self._store, zero, room)
        f.loop(0, self.merged * self.channels, self.row_lanes, store)

    def _copy(self, offset: Int, room: Reg) -> None:
        """All of what is merged; what lies behind is written later."""
        f, length = self.frame.f, self.merged * self.channels
        source, vector = self._source(offset), self.conversion.vector
        whole = length // self.row_lanes * self.row_lanes

        def copy(at: Int) -> None:
            self._store(self.conversion.convert(f.load(vector, f.gep(source, at)), f), room, at)

        f.loop(0, whole, self.row_lanes, copy)
        if whole < length:
            mask, zero = f.tail_mask(self.row_lanes, length - whole), f.constant(vector, 0)
            rest = masked_load(f, vector, f.gep(source, whole), mask, passthru=zero)
            self._store(self.conversion.convert(rest, f), room, whole)

    def _copy_part(self, offset: Int, room: Reg, begin: Int, end: Int) -> None:
        """The taps of what is merged from `begin` to `end`, which lie inside of the image."""
        f, vector = self.frame.f, self.conversion.vector
        zero, length = f.constant(vector, 0), f.mul(end, self.channels)

        def copy(at: Int) -> None:
            mask = f.tail_mask(self.row_lanes, f.sub(length, at))
            x = masked_load(f, vector, self._source(f.add(offset, at)), mask, passthru=zero)
            masked_store(f, self.conversion.convert(x, f), f.gep(room, at, self.element), mask)

        f.loop(f.mul(begin, self.channels), length, self.row_lanes, copy)

    def _store(self, x: Reg, room: Reg, at: Int) -> None:
        self.frame.f.store(x, self.frame.f.gep(room, at, self.element))

    # The way to the result

    def _finish_row(self, pixel: Int, row: Int, first_filter: Int, sums: Reg | None) -> None:
        """The pointwise ops on one row of the tile: the filters of one pixel."""
        f, frame = self.frame.f, self.frame
        outer = [Index(p) for p in frame.split(pixel, self.op.result.shape[:-1])]
        panel = (self.filters, self.width, f.sub(self.filters, first_filter))
        for start in range(0, self.width, self.lanes):
            source = f.gep(self.tile, f.add(f.mul(row, self.width), start), "i32")
            behind = None if sums is None else f.gep(sums, start, "i32")
            index = [*outer, Index(f.add(first_filter, start), 1)]
            frame.panel_lanes(self.lanes, panel, start, partial(self._finish_vector, source, behind, index))

    def _finish_vector(self, source: Reg, sums: Reg | None, index: Sequence[Index], mask: Reg | None) -> None:
        f, vector = self.frame.f, vector_type("i32", self.lanes)
        x = f.load(vector, source, align=64)
        if sums is not None:
            x = f.sub(x, f.load(vector, sums, align=4 * self.lanes))
        write_result(self.frame.evaluator(self.lanes, mask), self.frame, self.op, x, index)
