"""Convolution with 3 x 3 taps by tiles of 2 x 2 results: 16 products of each channel in place of 36.

A unit of work is a chunk of neighbouring tiles against one panel of filters. For a block of channels at a time, the
4 x 4 elements that each tile reads are transformed; at each of 16 positions, the tiles are rows of a product with the
transformed filters; at the end the sums of the positions are transformed to results. Additions alone make transforms:
B and A of F(2 x 2, 3 x 3) in Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
"""

from collections.abc import Sequence
from functools import cached_property, partial, reduce

from onnxc.compiler.codegen_cpu.convolutions.float_convolution import FloatConvolution
from onnxc.compiler.codegen_cpu.convolutions.window_addresses import WindowAddresses, even_chunks
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.pointer_kernels import GatheredProduct, multiply_gathered, pointer_library
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.filter_layouts import FiltersInTwoForms
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.convolution_sums import SummedAxis, Sums
from onnxc.compiler.planning.loops.views import operand_views
from onnxc.runtime.records import record

SIDE, READ = 2, 4
"""A tile has 2 x 2 results, and reads 4 x 4 elements."""

POSITIONS = READ * READ

CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""The results of a tile: lines down, columns to the right."""

TAPS = 3


def emit_winograd(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution of 3 x 3 neighbouring taps, steps of one, one group, channels innermost.

    Axes before those of the taps, as the frames of a film, are more images.
    """
    x, w = operand_views(op)
    return _Winograd(frame, op, x, w).emit(name)


@record
class _Winograd(FloatConvolution):
    @cached_property
    def sizes(self) -> tuple[int, int]:
        """(filters, channels)."""
        filters, channels, *_ = known_sizes(self.op.operands[1].shape)
        return filters, channels

    @cached_property
    def tile_shape(self) -> tuple[Dim, ...]:
        """Images, and how many tiles there are along lines and columns."""
        *images, lines, columns, _ = self.op.result.shape
        return *images, floordiv(lines + SIDE - 1, SIDE), floordiv(columns + SIDE - 1, SIDE)

    @cached_property
    def block(self) -> int:
        """Channels that are transformed before they are multiplied, in whole vectors."""
        lanes = self.frame.lanes
        return min(self.schedule.tile.depth, -(-self.sizes[1] // lanes) * lanes)

    @cached_property
    def table(self) -> WindowAddresses:
        """Where tiles read: 16 addresses for each."""
        *images, lines, columns, _ = self.x.strides
        axes = (SummedAxis(READ, lines, len(images)), SummedAxis(READ, columns, len(images) + 1))
        steps = (*(1 for _ in images[1:]), SIDE, SIDE)
        sums = Sums(self.op, self.x, axes, ())
        room = (POSITIONS, self.schedule.tile.rows, -(-self.sizes[1] // self.frame.lanes) * self.frame.lanes)
        return WindowAddresses(self.frame, self.op, sums, axes, self.tile_shape, steps, room)

    @cached_property
    def inputs(self) -> Reg:
        """[position][tile][channel of a block], transformed."""
        return self.frame.f.alloca(self.element, POSITIONS * self.schedule.tile.rows * self.block)

    @cached_property
    def pointers(self) -> Reg:
        """Where the rows of `inputs` begin."""
        return self.frame.f.alloca("ptr", POSITIONS * self.schedule.tile.rows)

    @cached_property
    def totals(self) -> Reg:
        """[position][tile][filter of the panel], summed over channels."""
        return self.frame.f.alloca(self.element, POSITIONS * self.schedule.tile.rows * self.schedule.tile.columns)

    def emit(self, name: str) -> KernelCode:
        """The loop over units, panels running fastest."""
        frame, f, tile = self.frame, self.frame.f, self.schedule.tile
        tiles, panels = product(self.tile_shape), -(-self.sizes[0] // tile.columns)
        chunks, rows = even_chunks(tiles, tile.rows, self._shape[2])
        self.table.clear_zeros()
        f.loop(0, POSITIONS * tile.rows, 1, self._store_pointer)

        def unit(ordinal: Reg, before: Reg) -> Sequence[Int]:
            chunk, panel = frame.split(ordinal, (chunks, panels))
            self._unit(f.mul(chunk, frame.size(rows)), panel, f.icmp("ne", chunk, before))
            return (chunk,)

        f.loop(frame.begin, frame.end, 1, unit, (-1,), at_least_once=True)
        f.ret()
        grain = frame.grain(minimum(tiles, tile.rows) * tile.columns * self.sizes[1] * POSITIONS)
        return KernelCode(name, (f,), chunks * panels, grain, pointer_library(self.element, self._shape))

    @cached_property
    def _shape(self) -> tuple[int, int, int]:
        """(vectors, lanes, rows) of the micro-kernels."""
        registers, lanes = self.schedule.registers, self.frame.lanes
        assert registers is not None, self.schedule
        return self.schedule.tile.columns // lanes, lanes, registers.rows

    def _store_pointer(self, row: Int) -> None:
        f = self.frame.f
        f.store(f.gep(self.inputs, f.mul(row, self.block), self.element), f.gep(self.pointers, row, "ptr"), align=8)

    def _unit(self, first: Int, panel: Int, is_new: Reg) -> None:
        """One unit; is_new: whether its tiles are others than those of the unit before."""
        frame, f, count = self.frame, self.frame.f, product(self.tile_shape)
        most = even_chunks(count, self.schedule.tile.rows, self._shape[2])[1]
        tiles = f.smin(f.sub(frame.size(count), first), frame.size(most))
        f.if_(is_new, lambda: self._find_addresses(first, tiles))

        def block(start: Int) -> None:
            channels = f.smin(f.sub(self.sizes[1], start), self.block)
            f.loop(0, tiles, 1, lambda ordinal: self._transform(ordinal, start, channels))
            f.loop(0, POSITIONS, 1, lambda position: self._multiply(position, panel, start, (tiles, channels)))

        f.loop(0, self.sizes[1], self.block, block)
        f.loop(0, tiles, 1, lambda ordinal: self._finish(f.add(first, ordinal), ordinal, panel))

    def _find_addresses(self, first: Int, tiles: Int) -> None:
        f = self.frame.f
        ahead = [f.neg(self.frame.size(low)) for low in self.op.dims("low")]
        self.table.find_first(ahead, 0, first, tiles)
        self.table.find((READ, READ), (0, 0), POSITIONS, tiles)

    # What tiles read

    def _transform(self, ordinal: Int, start: Int, channels: Int) -> None:
        """The channels of a block of what one tile reads, in vectors."""
        f, lanes, rows = self.frame.f, self.frame.lanes, self.schedule.tile.rows
        table = self.table
        read = [
            f.load("ptr", f.gep(table.addresses, f.add(ordinal, position * table.rows), "i64"), align=8)
            for position in range(POSITIONS)
        ]

        def write(channel: Int, mask: Reg | None) -> None:
            elements = [self._read(f.gep(each, f.add(start, channel), self.element), mask) for each in read]
            lines = [self._differences(elements[READ * line : READ * (line + 1)]) for line in range(READ)]
            turned = [self._differences([line[column] for line in lines]) for column in range(READ)]
            for position in range(POSITIONS):
                offset = f.add(f.mul(f.add(ordinal, position * rows), self.block), channel)
                value = turned[position % READ][position // READ]
                f.store(value, f.gep(self.inputs, offset, self.element), align=64)

        def vector(channel: Int) -> None:
            self.frame.lanes_left(lanes, f.sub(channels, channel), partial(write, channel))

        f.loop(0, channels, lanes, vector)

    def _read(self, address: Reg, mask: Reg | None) -> Reg:
        f = self.frame.f
        if mask is None:
            return f.load(self.vector, address)
        return masked_load(f, self.vector, address, mask, passthru=f.constant(self.vector, 0.0))

    def _differences(self, d: Sequence[Reg]) -> list[Reg]:
        """Bt d."""
        f = self.frame.f
        return [f.fsub(d[0], d[2]), f.fadd(d[1], d[2]), f.fsub(d[2], d[1]), f.fsub(d[1], d[3])]

    # Products

    def _base(self) -> Reg:
        """The transformed filters."""
        base, packing = self.frame.inputs[self.frame.kernel.block.parameters.index(self.w.base)], self.schedule.packing
        assert packing is not None, self.schedule
        if not isinstance(packing.layout, FiltersInTwoForms):
            return base
        return self.frame.f.gep(base, packing.layout.summed_elements, self.element)

    def _multiply(self, position: Int, panel: Int, start: Int, sizes: tuple[Int, Int]) -> None:
        """The products at one position of a block of channels from `start` on; sizes: of tiles, and of the block."""
        f, tile, (tiles, channels) = self.frame.f, self.schedule.tile, sizes
        row = f.add(f.mul(f.add(f.mul(panel, POSITIONS), position), self.sizes[1]), start)
        weights = f.gep(self._base(), f.mul(row, tile.columns), self.element)
        pointers = f.gep(self.pointers, f.mul(position, tile.rows), "ptr")
        totals = f.gep(self.totals, f.mul(position, tile.rows * tile.columns), self.element)
        accumulate = f.convert("zext", f.icmp("ne", start, 0), "i64")
        ahead = f.gep(weights, f.mul(self.sizes[1], tile.columns), self.element)
        multiplied = GatheredProduct(pointers, 0, 1, channels, weights, 0, totals, f.constant("ptr", 0), ahead, ahead)
        multiply_gathered(f, multiplied, (0, tiles), accumulate, self.element, self._shape)

    # Results

    def _finish(self, tile_ordinal: Int, ordinal: Int, panel: Int) -> None:
        """The results of one tile: transformed, with the pointwise ops on each of them that exists."""
        frame, f, lanes, tile = self.frame, self.frame.f, self.frame.lanes, self.schedule.tile
        *image, line, column = frame.split(tile_ordinal, self.tile_shape)
        first = f.mul(panel, tile.columns)
        filters = f.smin(f.sub(self.sizes[0], first), tile.columns)
        line, column = f.mul(line, SIDE), f.mul(column, SIDE)

        def vector(start: Int) -> None:
            row = f.add(f.mul(ordinal, tile.columns), start)
            step = tile.rows * tile.columns
            addresses = [f.gep(self.totals, f.add(row, each * step), self.element) for each in range(POSITIONS)]
            sums = [f.load(self.vector, address, align=64) for address in addresses]
            lines = [self._sums(sums[READ * each : READ * (each + 1)]) for each in range(READ)]
            turned = [self._sums([each[side] for each in lines]) for side in range(SIDE)]
            results = self._finite([turned[right][down] for down, right in CORNERS], ordinal, panel, start)
            channel = Index(f.add(first, start), 1)
            for (down, right), result in zip(CORNERS, results, strict=True):
                pixel = (*image, f.add(line, down), f.add(column, right))
                frame.lanes_left(lanes, f.sub(filters, start), partial(self._write, result, pixel, channel))

        f.loop(0, filters, lanes, vector)

    def _sums(self, m: Sequence[Reg]) -> list[Reg]:
        """At m."""
        f = self.frame.f
        return [f.fadd(f.fadd(m[0], m[1]), m[2]), f.fsub(f.fsub(m[1], m[2]), m[3])]

    # What is not finite

    def _finite(self, results: Sequence[Reg], ordinal: Int, panel: Int, start: Int) -> Sequence[Reg]:
        """`results` of a tile, or where one is not finite all of them summed product by product.

        Differences of infinities, and of what is nearly too large, are not what the sums of products are.
        """
        f = self.frame.f
        differences = [f.fsub(result, result) for result in results]
        odd = reduce(f.or_, (f.fcmp("uno", each, each) for each in differences))
        stack = self.repaired

        def repair() -> Sequence[Reg]:
            f.loop(0, len(CORNERS), 1, lambda corner: self._sum_directly(corner, ordinal, panel, start))
            pointers = (f.gep(stack, corner * self.frame.lanes, self.element) for corner in range(len(CORNERS)))
            return [f.load(self.vector, pointer, align=64) for pointer in pointers]

        return f.if_(f.reduce_lanes("or", odd), repair, lambda: results)

    @cached_property
    def repaired(self) -> Reg:
        """The results of a tile that were summed product by product."""
        return self.frame.f.alloca(self.element, len(CORNERS) * self.frame.lanes)

    def _sum_directly(self, corner: Int, ordinal: Int, panel: Int, start: Int) -> None:
        """repaired[corner] = the products of one result of a tile, in the order of taps and channels."""
        f, table = self.frame.f, self.table
        down, right = f.udiv(corner, SIDE), f.urem(corner, SIDE)

        def tap(tap_ordinal: Int, total: Reg) -> Sequence[Reg]:
            line, column = f.udiv(tap_ordinal, TAPS), f.urem(tap_ordinal, TAPS)
            position = f.add(f.mul(f.add(down, line), READ), f.add(right, column))
            index = f.add(f.mul(position, table.rows), ordinal)
            read = f.load("ptr", f.gep(table.addresses, index, "i64"), align=8)

            def channel(k: Int, inner: Reg) -> Sequence[Reg]:
                x = f.splat(f.load(self.element, f.gep(read, k, self.element)), self.frame.lanes)
                return (f.multiply_add(x, self._filters(line, column, k, panel, start), inner),)

            return f.loop(0, self.sizes[1], 1, channel, (total,))

        (total,) = f.loop(0, TAPS * TAPS, 1, tap, (f.constant(self.vector, 0.0),))
        f.store(total, f.gep(self.repaired, f.mul(corner, self.frame.lanes), self.element), align=64)

    def _filters(self, line: Int, column: Int, channel: Int, panel: Int, start: Int) -> Reg:
        """A vector of filters at a tap, out of what they were transformed to: g0, g1 - g2 and g3 along each axis."""
        f, lanes, tile = self.frame.f, self.frame.lanes, self.schedule.tile
        base = self._base()

        def along(position: Int) -> tuple[tuple[Int, Reg], tuple[Int, Reg]]:
            is_middle = f.icmp("eq", position, 1)
            first = f.add(position, f.convert("zext", f.icmp("eq", position, 2), "i64"))
            factor = f.select(is_middle, f.constant(self.element, -1.0), f.constant(self.element, 0.0))
            return (first, f.constant(self.element, 1.0)), (2, factor)

        total = f.constant(self.vector, 0.0)
        for above, factor in along(line):
            for beside, other in along(column):
                position = f.add(f.mul(above, READ), beside)
                row = f.add(f.mul(f.add(f.mul(panel, POSITIONS), position), self.sizes[1]), channel)
                address = f.gep(base, f.add(f.mul(row, tile.columns), start), self.element)
                total = f.multiply_add(f.splat(f.fmul(factor, other), lanes), f.load(self.vector, address), total)
        return total

    def _write(self, x: Reg, pixel: tuple[Int, ...], channel: Index, mask: Reg | None) -> None:
        """A vector of a pixel, if it is one of the result."""
        frame, f, (*_, lines, columns, _) = self.frame, self.frame.f, self.op.result.shape
        exists = f.and_(f.icmp("slt", pixel[-2], frame.size(lines)), f.icmp("slt", pixel[-1], frame.size(columns)))
        index = (*map(Index, pixel), channel)
        f.if_(exists, lambda: write_result(frame.evaluator(frame.lanes, mask), frame, self.op, x, index))
