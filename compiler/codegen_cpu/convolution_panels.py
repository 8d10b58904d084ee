"""Convolution by panels: rows of weights times panels of output pixels, which are unrolled from the input on the way.

A unit of work is one panel of neighbouring output pixels of one image and group, against a chunk of the filters. The
sum runs over blocks of whole channels: their taps are read into the panel, zeros in the padding, and multiplied by the
micro-kernels into a tile of [filter][pixel].
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import prod

from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.micro_kernels import MicroKernel, Product, ProductTypes, multiply, row_steps
from onnxc.compiler.codegen_cpu.schedules.products import register_rows
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.domain import epilogue_leaves
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.planning.views import operand_view, row_major

Reader = Callable[[Reg], Reg]
"""Reads one vector of pixels under a tap from the plane of a channel."""

MOST_SEGMENTS = 5
"""Pixels of one vector that lie in more rows than this are gathered one by one."""


def emit_panels(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution by panels."""
    schedule = frame.kernel.scheduled(ConvolutionSchedule)
    return _Convolution(frame, op, schedule, schedule.tile.columns // frame.lanes).emit(name)


@dataclass
class _Convolution:
    frame: KernelFrame
    op: Op
    schedule: ConvolutionSchedule
    vectors: int
    tile: Reg = field(init=False)
    panel: Reg = field(init=False)

    def __post_init__(self) -> None:
        frame, (x, w) = self.frame, self.op.operands
        self.element = memory_type(self.op.dtype())
        self.types = ProductTypes(self.op.dtype(), self.op.dtype(), self.op.dtype())
        self.lanes = frame.lanes
        self.width = self.vectors * self.lanes
        self.groups = self.op.int("groups")
        filters, channels, *taps = (size for size in w.shape if isinstance(size, int))
        self.filters, self.channels, self.taps = filters // self.groups, channels, taps
        self.tap_count = prod(taps)
        self.block_channels = self.schedule.tile.depth // self.tap_count
        self.depth = channels * self.tap_count
        self.chunk = self.schedule.tile.rows
        self.is_flat = self._reads_in_order()
        self.leaves = epilogue_leaves(frame.kernel.block, self.op, 2)
        spatial, result = x.shape[2:], self.op.results[0].shape[2:]
        self.input_size = product(spatial)
        self.pixels = product(result)
        # A flat convolution, or one along a single axis, is one row of pixels.
        self.rows: tuple[Dim, Dim] = (1, self.input_size) if self.is_flat else (1, *spatial)[-2:]  # type: ignore[assignment]
        self.columns_out: Dim = self.pixels if self.is_flat else result[-1]

    def _reads_in_order(self) -> bool:
        op = self.op
        steps = {*op.ints("strides"), *self.taps}
        return steps == {1} and set(op.dims("low")) | set(op.dims("high")) <= {0}

    def _along(self, name: str) -> tuple[int, int]:
        """A list attribute as (rows, columns)."""
        values = self.op.ints(name)
        return (1, 1) if self.is_flat else (1, *values)[-2:]  # type: ignore[return-value]

    # Code

    def emit(self, name: str) -> KernelCode:
        """The loop over units, filters running fastest."""
        frame, f = self.frame, self.frame.f
        images = self.op.results[0].shape[0]
        panels = floordiv(self.pixels + self.width - 1, self.width)
        chunks = -(-self.filters // self.chunk)
        self.tile = f.alloca(self.element, self.chunk * self.width)
        self.panel = f.alloca(self.element, self.block_channels * self.tap_count * self.width)
        forms = [*self._narrower(), self]

        def unit(number: Reg) -> None:
            image, group, panel, chunk = frame.split(number, (images, self.groups, panels, chunks))
            place = (image, group, f.mul(panel, self.width), f.mul(chunk, self.chunk))
            self._unit_of(forms, f.sub(frame.size(self.pixels), place[2]), place)

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        grain = frame.grain(minimum(self.pixels, self.width) * self.chunk * self.depth)
        library = tuple(
            MicroKernel(self.types, rows, vectors)
            for vectors in [form.vectors for form in forms]
            for rows in row_steps(register_rows(vectors, frame.target))
        )
        return KernelCode(name, (f,), images * self.groups * panels * chunks, grain, library)

    def _narrower(self) -> "list[_Convolution]":
        """The same in narrower panels, for a last one with few pixels: as wide as it is known to be, or one of two."""
        widths: tuple[int, ...] = (1, 2)
        if isinstance(self.pixels, int):
            widths = (-(-(self.pixels % self.width) // self.lanes),)
        forms = [
            _Convolution(self.frame, self.op, self.schedule, vectors)
            for vectors in widths
            if 0 < vectors < self.vectors
        ]
        for form in forms:
            form.tile, form.panel = self.tile, self.panel
        return forms

    def _unit_of(self, forms: "list[_Convolution]", left: Int, place: tuple[Int, Int, Int, Int]) -> None:
        """One unit in the first form that is wide enough for the pixels that are left."""
        first, *others = forms
        if not others:
            first._unit(*place)
            return
        f = self.frame.f
        fits = f.icmp("sle", left, first.width)
        f.if_(fits, lambda: first._unit(*place), lambda: self._unit_of(others, left, place))

    def _unit(self, image: Int, group: Int, first_pixel: Int, first_filter: Int) -> None:
        frame, f = self.frame, self.frame.f
        filter = f.add(f.mul(group, self.filters), first_filter)
        filters = f.smin(f.sub(self.filters, first_filter), self.chunk)
        weights = f.gep(self._base(1), f.mul(filter, self.depth), self.element)
        channel = f.add(f.mul(image, self.channels * self.groups), f.mul(group, self.channels))
        image_start = f.gep(self._base(0), f.mul(channel, frame.size(self.input_size)), self.element)
        lanes = [self._lane_places(f.add(first_pixel, column * self.lanes)) for column in range(self.vectors)]

        def block(start: Int) -> None:
            channels = f.smin(f.sub(self.channels, start), self.block_channels)
            source = f.gep(image_start, f.mul(start, frame.size(self.input_size)), self.element)
            self._unroll(source, channels, lanes)
            a = f.gep(weights, f.mul(start, self.tap_count), self.element)
            accumulate = f.convert("zext", f.icmp("ne", start, 0), "i64")
            self._multiply(a, f.mul(channels, self.tap_count), filters, accumulate)

        f.loop(0, self.channels, self.block_channels, block)
        f.loop(0, filters, 1, lambda row: self._finish(image, f.add(filter, row), row, first_pixel))

    def _base(self, operand: int) -> Reg:
        view = operand_view(self.op.operands[operand])
        assert view is not None
        return self.frame.inputs[self.frame.kernel.block.parameters.index(view.base)]

    # Unrolling

    def _lane_places(self, first: Int) -> "_Lanes":
        """Where the pixels of one vector read: rows and columns of tap (0, 0), and which pixels exist."""
        frame, f = self.frame, self.frame.f
        type = vector_type("i32", self.lanes)
        pixel = f.add(f.splat(self._narrow(first), self.lanes), f.lane_ids(type))
        exists = f.icmp("slt", pixel, f.splat(self._narrow(frame.size(self.pixels)), self.lanes))
        if self.is_flat:
            return _Lanes(first, exists, f.constant(type, 0), pixel, 0, pixel)
        columns = f.splat(self._narrow(frame.size(self.columns_out)), self.lanes)
        row = f.udiv(pixel, columns)
        column = f.sub(pixel, f.mul(row, columns))
        strides, low = self._along("strides"), [frame.size(size) for size in (0, *self.op.dims("low"))[-2:]]
        top = f.sub(f.mul(row, strides[0]), f.splat(self._narrow(low[0]), self.lanes))
        left = f.sub(f.mul(column, strides[1]), f.splat(self._narrow(low[1]), self.lanes))
        return _Lanes(first, exists, top, left, f.udiv(first, frame.size(self.columns_out)), row)

    def _narrow(self, number: Int) -> Reg:
        f = self.frame.f
        if isinstance(number, int):
            return f.constant("i32", number)
        result = f.convert("trunc", number, "i32")
        assert isinstance(result, Reg)
        return result

    def _unroll(self, source: Reg, channels: Int, lanes: "list[_Lanes]") -> None:
        """panel[channel][tap][pixel] = the input under each tap."""
        dilations, (rows, columns) = self._along("dilations"), (1, *self.taps)[-2:]
        for tap_row in range(rows):
            for tap_column in range(columns):
                tap = tap_row * columns + tap_column
                shift = (tap_row * dilations[0], tap_column * dilations[1])
                for vector, places in enumerate(lanes):
                    self._unroll_vector(source, channels, places, shift, tap, vector)

    def _unroll_vector(
        self, source: Reg, channels: Int, places: "_Lanes", shift: tuple[int, int], tap: int, vector: int
    ) -> None:
        f, type = self.frame.f, vector_type(self.element, self.lanes)
        height, width = (self.frame.size(size) for size in self.rows)
        row, column = (f.add(base, step) for base, step in zip((places.top, places.left), shift, strict=True))
        inside = places.exists
        if not self.is_flat:
            for position, size in ((row, height), (column, width)):
                inside = f.and_(inside, f.icmp("ult", position, f.splat(self._narrow(size), self.lanes)))
        read = self._reader(places, shift, inside, row, column, type)
        plane, step = self.frame.size(self.input_size), self.tap_count * self.width

        def copy(channel: Int) -> None:
            x = read(f.gep(source, f.mul(channel, plane), self.element))
            f.store(
                x,
                f.gep(self.panel, f.add(f.mul(channel, step), tap * self.width + vector * self.lanes), self.element),
                align=64,
            )

        f.loop(0, channels, 1, copy)

    def _reader(
        self, places: "_Lanes", shift: tuple[int, int], inside: Reg, row: Reg, column: Reg, type: str
    ) -> "Reader":
        """How one vector is read from a channel: by runs of neighbours where there are few, else by a gather."""
        f, zero = self.frame.f, self.frame.f.constant(type, 0.0)
        if self.is_flat:
            return lambda plane: f.masked_load(type, f.gep(plane, places.first, self.element), inside, passthru=zero)
        width = self.frame.size(self.rows[1])
        segments = self._segments()
        if segments is None:
            offsets = f.add(f.mul(row, f.splat(self._narrow(width), self.lanes)), column)
            return lambda plane: f.gather(type, plane, offsets, inside, passthru=zero)
        runs = [self._run(places, segment, shift, inside) for segment in range(segments)]

        def read(plane: Reg) -> Reg:
            x = zero
            for offset, mask in runs:
                x = f.masked_load(type, f.gep(plane, offset, self.element), mask, passthru=x)
            return x

        return read

    def _segments(self) -> int | None:
        """In how many rows the pixels of a vector may lie, where neighbours are read side by side and that is few."""
        if self._along("strides")[1] != 1 or not isinstance(self.columns_out, int):
            return None
        segments = (self.lanes - 2) // max(self.columns_out, 1) + 2
        return segments if segments <= MOST_SEGMENTS else None

    def _run(self, places: "_Lanes", segment: int, shift: tuple[int, int], inside: Reg) -> tuple[Int, Reg]:
        """Where lane 0 would read if all lanes were in the row of a segment, and the lanes that are."""
        frame, f = self.frame, self.frame.f
        strides, low = self._along("strides"), [frame.size(size) for size in (0, *self.op.dims("low"))[-2:]]
        row = f.add(places.first_row, segment)
        line = f.add(f.sub(f.mul(row, strides[0]), low[0]), shift[0])
        column = f.add(f.sub(f.sub(places.first, f.mul(row, frame.size(self.columns_out))), low[1]), shift[1])
        here = f.icmp("eq", places.row, f.splat(self._narrow(row), self.lanes))
        return f.add(f.mul(line, frame.size(self.rows[1])), column), f.and_(here, inside)

    # Products

    def _multiply(self, a: Reg, depth: Int, filters: Int, accumulate: Int) -> None:
        product = Product(a, self.depth, 1, self.panel, self.tile, depth)
        shape = (self.vectors, self.lanes, register_rows(self.vectors, self.frame.target))
        multiply(self.frame.f, product, filters, accumulate, self.types, shape)

    def _finish(self, image: Int, filter: Int, row: Int, first_pixel: Int) -> None:
        """The pointwise ops on one row of the tile; pixels are the last axes of the result, merged."""
        frame, f = self.frame, self.frame.f
        for vector in range(self.vectors):
            pixel = f.add(first_pixel, vector * self.lanes)
            source = f.gep(self.tile, f.add(f.mul(row, self.width), vector * self.lanes), self.element)
            write = partial(self._finish_vector, source, (image, filter), pixel)
            frame.lanes_left(self.lanes, f.sub(frame.size(self.pixels), pixel), write)

    def _finish_vector(self, source: Reg, outer: tuple[Int, Int], pixel: Int, mask: Reg | None) -> None:
        x = self.frame.f.load(vector_type(self.element, self.lanes), source, align=64)
        self._write(x, mask, outer, pixel)

    def _write(self, x: Reg, mask: Reg | None, outer: tuple[Int, Int], pixel: Int) -> None:
        """Stores finished pixels: through merged axes where the epilogue can, else lane by lane."""
        frame, f, root = self.frame, self.frame.f, self.frame.root
        e = frame.evaluator(self.lanes, mask)
        e.bound[self.op.results[0]] = x
        index = [Index(outer[0]), Index(outer[1]), Index(pixel, 1)]
        merged: list[Dim] = [root.shape[0], root.shape[1], self.pixels]
        if self.leaves is not None:
            e.bind_views(self.leaves, index)
            result = e.value(root, index)
        else:
            result = e.value(root, [*index[:2], *self._lane_index(e, pixel)])
        place = e.strided(index, row_major(merged))
        e.store(to_memory(result, root.dtype, f), frame.output, memory_type(root.dtype), place)

    def _lane_index(self, e: Evaluator, pixel: Int) -> list[Index]:
        """The position of each lane along each spatial axis of the result."""
        number = e.as_values(Index(pixel, 1))
        places: list[Index] = []
        for size in reversed(self.op.results[0].shape[3:]):
            length = e.as_values(Index(e.size(size)))
            quotient = e.f.udiv(number, e.spread(length))
            places.append(Index(0, 0, e.f.sub(number, e.f.mul(quotient, e.spread(length)))))
            number = quotient
        return [Index(0, 0, number), *reversed(places)]


@dataclass(frozen=True)
class _Lanes:
    """The pixels of one vector, the first and which exist, and for each lane the row and column of tap (0, 0).

    `row` is the output row of each lane, `first_row` that of the first.
    """

    first: Int
    exists: Reg
    top: Reg
    left: Reg
    first_row: Int
    row: Reg
