"""Convolutions of bytes: pixels of the result, each a row of the bytes of its window, times panels of filters.

A unit of work is a chunk of neighbouring pixels, across lines and images, against one panel of the filters of a group.
Windows are unrolled once for all panels of a group, zeros in the padding; pixels that are rows as they lie are read in
place. Filters that only the call knows are packed in each unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.byte_panels import byte_library, multiply_bytes, panel_steps, whole_steps
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import FLIPPED_ZERO
from onnxc.compiler.codegen_cpu.inner_loops.integer_packing import pack_groups
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import Product
from onnxc.compiler.codegen_cpu.inner_loops.packing import Conversion, Copied
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.schedules.byte_convolutions import filter_sizes
from onnxc.compiler.codegen_cpu.schedules.byte_products import byte_types, flipped_sums
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_masks import masked_load, masked_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.loops.views import View, operand_views
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.runtime.records import record


def emit_bytes(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution of bytes, whose channels are innermost."""
    x, w = operand_views(op)
    return _ConvolvedBytes(frame, op, frame.kernel.scheduled(ConvolutionSchedule), x, w).emit(name)


@record
class _Panel:
    """A panel of filters of a group: which filter is its first, and where its elements are, or what it is packed from.

    filters: how many it has, at least. sums: what the sums of its columns are too large by; None where they are exact.
    """

    first: Int
    filters: Int
    address: Reg
    sums: Reg | None


@record
class _Pixel:
    """A pixel of the result: where its row is unrolled, where the channels of the group begin in its image, and its
    place along each axis."""

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
        self.groups, (self.filters, self.channels, taps) = self.op.int("groups"), filter_sizes(self.op)
        self.depth = prod(taps) * self.channels
        # Taps of a line that lie side by side are copied at once.
        merges = self.op.ints("dilations")[-1] == 1 and self.x.strides[-2] == self.channels
        self.merged = taps[-1] if merges else 1
        self.outer_taps = (*taps[:-1], taps[-1] // self.merged)
        self.row_lanes = self.lanes * self.group
        self.conversion = Conversion(self.dtype, self.types.a, self.row_lanes)
        self.line = -(-self.depth // self.row_lanes) * self.row_lanes
        self.tile = f.alloca("i32", self.chunk * self.width)
        self.rows = f.alloca(self.element, self.chunk * self.line + self.row_lanes) if schedule.packs_rows else None
        self.pixels: Dim = product(self.op.result.shape[:-1])
        if schedule.packing is None:
            self._reserve_panel()

    def _reserve_panel(self) -> None:
        """Memory on the stack for a panel that is packed on the way, and for what its sums are too large by."""
        f = self.frame.f
        whole = whole_steps(self.frame.target) * self.group
        self.packed = f.alloca("i8", -(-min(self.depth, self.schedule.tile.depth) // whole) * whole * self.width)
        self.zeros, self.flipped_sums = f.alloca("i8", self.group), f.alloca("i32", self.width)
        f.store(f.constant(vector_type("i8", self.group), FLIPPED_ZERO), self.zeros)

    # Units

    def emit(self, name: str) -> KernelCode:
        """The loop over units, panels running fastest."""
        frame, f = self.frame, self.frame.f
        panels = floordiv(self.filters + self.width - 1, self.width)
        chunks = floordiv(self.pixels + self.chunk - 1, self.chunk)

        def unit(ordinal: Reg, before: Reg) -> Sequence[Int]:
            chunk, group, panel = frame.split(ordinal, (chunks, self.groups, panels))
            rows = f.udiv(ordinal, frame.size(panels))
            self._unit(f.mul(chunk, self.chunk), group, self._panel(group, panel), f.icmp("ne", rows, before))
            return (rows,)

        f.loop(frame.begin, frame.end, 1, unit, (-1,), at_least_once=True)
        f.ret()
        grain = frame.grain(minimum(self.pixels, self.chunk) * self.width * self.depth)
        library = byte_library(self.types, self._shape, frame.target)
        return KernelCode(name, (f,), chunks * self.groups * panels, grain, library)

    @property
    def _shape(self) -> tuple[int, int, int]:
        """(vectors, lanes, rows) of the micro-kernels."""
        registers = self.schedule.registers
        assert registers is not None, self.schedule
        return self.width // self.lanes, self.lanes, registers.rows

    def _panel(self, group: Int, ordinal: Int) -> _Panel:
        """A panel of a group: among the packed ones, or the filters that are packed here, block by block."""
        f = self.frame.f
        filters, first = self.frame.size(self.filters), f.mul(ordinal, self.width)
        left, channel = f.sub(filters, first), f.add(f.mul(group, filters), first)
        if self.schedule.packing is None:
            sums = self.flipped_sums if self.flips else None
            return _Panel(channel, left, f.gep(self._base(self.w), f.mul(channel, self.depth)), sums)
        steps = panel_steps(self.depth, f, self.frame.target)
        panel_bytes = f.mul(f.add(steps, int(self.flips)), self.width * self.group)
        ordinal = f.add(f.mul(group, f.udiv(f.add(filters, self.width - 1), self.width)), ordinal)
        address = f.gep(self._base(self.w), f.mul(ordinal, panel_bytes))
        return _Panel(
            channel, left, address, f.gep(address, f.mul(steps, self.width * self.group)) if self.flips else None
        )

    def _unit(self, first: Int, group: Int, panel: _Panel, is_new: Reg) -> None:
        """One unit; is_new: whether its rows are others than those of the unit before."""
        f = self.frame.f
        count = f.smin(f.sub(self.frame.size(self.pixels), first), self.chunk)
        channel = f.mul(group, self.channels)
        if self.rows is None:
            stride: Int = self.channels * self.groups
            a = self._source(f.add(f.mul(first, stride), channel))
        else:
            a, stride = self.rows, self.line
            f.if_(is_new, lambda: self._unroll_chunk(first, channel, count))
        steps = panel_steps(self.depth, f, self.frame.target)

        def block(k: Int) -> None:
            depth = f.smin(f.sub(steps, k), self.schedule.tile.depth // self.group)
            columns = self._block(panel, f.mul(k, self.group))
            rows = f.gep(a, f.mul(k, self.group), self.element)
            product = Product(rows, stride, self.group, columns, self.tile, depth)
            multiplied = f.convert("zext", f.icmp("ne", k, 0), "i64"), self.types, self._shape, self.frame.target
            multiply_bytes(f, product, count, *multiplied)
            if self.flips and self.schedule.packing is None:
                zeros = Product(self.zeros, 0, 0, columns, self.flipped_sums, depth)
                multiply_bytes(f, zeros, 1, *multiplied)

        f.loop(0, steps, self.schedule.tile.depth // self.group, block)
        f.loop(0, count, 1, lambda row: self._finish_row(f.add(first, row), row, panel))

    def _block(self, panel: _Panel, k: Int) -> Reg:
        """The elements of a panel from `k` on: part of the packed one, or packed here.

        Tiles read what is behind the last step of a panel packed here. It meets the zeros behind the rows.
        """
        f = self.frame.f
        if self.schedule.packing is not None:
            return f.gep(panel.address, f.mul(k, self.width))
        count = f.smin(f.sub(self.depth, k), self.schedule.tile.depth)
        source = Copied(f.gep(panel.address, k), self.packed, (1, self.depth), (count, panel.filters))
        pack_groups(f, source, self.width // self.lanes, self.lanes, self.group)
        return self.packed

    def _base(self, view: View) -> Reg:
        return self.frame.inputs[self.frame.kernel.block.parameters.index(view.base)]

    def _source(self, offset: Int) -> Reg:
        """The address of an element of the image, from its offset."""
        f = self.frame.f
        return f.gep(self._base(self.x), f.add(self.frame.size(self.x.offset), offset))

    # Windows

    def _unroll_chunk(self, first: Int, channel: Int, count: Int) -> None:
        self.frame.f.loop(0, count, 1, lambda row: self._unroll(first, channel, row))

    def _unroll(self, first: Int, channel: Int, row: Int) -> None:
        """Writes the window of a pixel as a row: its outer taps one after another, what is merged in one piece.

        Behind them are zeros to the end of the row, where a panel that is packed on the way may have anything.
        """
        f, frame = self.frame.f, self.frame
        assert self.rows is not None
        image, *positions = frame.split(f.add(first, row), self.op.result.shape[:-1])
        steps, lows = self.op.ints("strides"), self.op.dims("low")
        starts = [f.sub(f.mul(p, step), frame.size(low)) for p, step, low in zip(positions, steps, lows, strict=True)]
        offset = f.add(f.mul(image, frame.size(self.x.strides[0])), channel)
        pixel = _Pixel(f.gep(self.rows, f.mul(row, self.line), self.element), offset, tuple(starts))
        if self.schedule.packing is None:
            self._store(f.constant(vector_type(self.element, self.row_lanes), 0), pixel.row, self.line - self.row_lanes)
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

    def _finish_row(self, pixel: Int, row: Int, panel: _Panel) -> None:
        """The pointwise ops on one row of the tile: the filters of one pixel."""
        f, frame = self.frame.f, self.frame
        outer = [Index(p) for p in frame.split(pixel, self.op.result.shape[:-1])]
        columns = (self.filters, self.width, panel.filters)
        for start in range(0, self.width, self.lanes):
            source = f.gep(self.tile, f.add(f.mul(row, self.width), start), "i32")
            behind = None if panel.sums is None else f.gep(panel.sums, start, "i32")
            index = [*outer, Index(f.add(panel.first, start), 1)]
            frame.panel_lanes(self.lanes, columns, start, partial(self._finish_vector, source, behind, index))

    def _finish_vector(self, source: Reg, sums: Reg | None, index: Sequence[Index], mask: Reg | None) -> None:
        f, vector = self.frame.f, vector_type("i32", self.lanes)
        x = f.load(vector, source, align=64)
        if sums is not None:
            x = f.sub(x, f.load(vector, sums, align=4 * self.lanes))
        write_result(self.frame.evaluator(self.lanes, mask), self.frame, self.op, x, index)
