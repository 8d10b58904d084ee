"""Convolution by rows: pixels of the result, whose windows are read in place, times panels of filters.

A unit of work is a chunk of neighbouring pixels, across lines and images, against one panel of the filters of a group.
Where each pixel of the chunk begins to read under each tap is looked up once, as an address: in the padding that of
zeros. Behind these addresses the micro-kernels sum runs of products, over all taps of a block, into a tile of
[pixel][filter].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.micro_kernels import row_steps
from onnxc.compiler.codegen_cpu.packing import pack_panel
from onnxc.compiler.codegen_cpu.pointer_kernels import GatheredProduct, PointerKernel, multiply_gathered
from onnxc.compiler.codegen_host.llvm_ir import as_reg
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.convolution_sums import SummedAxis, Sums, find_sums, is_padded
from onnxc.compiler.planning.domain import epilogue_leaves
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.planning.views import View, operand_view


def emit_rows(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution by rows, whose channels are innermost."""
    schedule = frame.kernel.scheduled(ConvolutionSchedule)
    x, w = (operand_view(operand) for operand in op.operands)
    assert x is not None, op
    assert w is not None, op
    sums = find_sums(op, x, merges=schedule.packing is not None)
    assert sums is not None, op
    return _Rows(frame, op, schedule, sums, w).emit(name)


@dataclass
class _Rows:
    frame: KernelFrame
    op: Op
    schedule: ConvolutionSchedule
    sums: Sums
    w: View

    def __post_init__(self) -> None:
        frame, f, schedule = self.frame, self.frame.f, self.schedule
        self.element = memory_type(self.op.dtype())
        self.lanes, self.width = frame.lanes, schedule.tile.columns
        self.groups = self.op.int("groups")
        self.filters = floordiv(self.op.result.shape[-1], self.groups)
        self.chunk = schedule.tile.rows
        self.block_run = min(self.sums.run_length, schedule.tile.depth)
        self.block_taps = min(self.sums.start_count, max(schedule.tile.depth // self.sums.run_length, 1))
        self.depth = self.sums.start_count * self.sums.run_length
        # Addresses are looked up in whole vectors of them.
        self.address_lanes = frame.target.vector_bits // 64
        self.table_rows = -(-self.chunk // self.address_lanes) * self.address_lanes
        self.padded = tuple(axis for axis in self.sums.starts if is_padded(self.op, axis))
        self.tile = f.alloca(self.element, self.chunk * self.width)
        self.first_addresses = f.alloca("i64", self.table_rows)
        self.first_places = {axis: f.alloca("i64", self.table_rows) for axis in self.padded}
        self.addresses = f.alloca("i64", self.block_taps * self.table_rows)
        self.zeros = f.alloca(self.element, self.block_run) if self.padded else None
        scratch = self.block_taps * self.block_run * self.width
        self.scratch = f.alloca(self.element, scratch) if schedule.packing is None else None
        self.leaves = epilogue_leaves(frame.kernel.block, self.op, 0, self.op.result.rank - 1)

    @cached_property
    def pixels(self) -> Dim:
        """How many there are of the result, in all images."""
        return product(self.op.result.shape[:-1])

    # Units

    def emit(self, name: str) -> KernelCode:
        """The loop over units, panels running fastest."""
        frame, f = self.frame, self.frame.f
        chunks, rows = self._chunks()
        panels = floordiv(self.filters + self.width - 1, self.width)
        if self.zeros is not None:
            zero = f.constant(self.element, 0.0)
            f.loop(0, self.block_run, 1, lambda k: f.store(zero, f.gep(self._zeros, k, self.element)))

        def unit(ordinal: Reg, before: Reg) -> Sequence[Int]:
            group, chunk, panel = frame.split(ordinal, (self.groups, chunks, panels))
            pixels = f.udiv(ordinal, frame.size(panels))
            self._unit(group, f.mul(chunk, frame.size(rows)), panel, f.icmp("ne", pixels, before))
            return (pixels,)

        f.loop(frame.begin, frame.end, 1, unit, (-1,), at_least_once=True)
        f.ret()
        grain = frame.grain(minimum(self.pixels, self.chunk) * self.width * self.depth)
        library = tuple(PointerKernel(self.element, rows, self._shape[0]) for rows in row_steps(self._shape[2]))
        return KernelCode(name, (f,), self.groups * chunks * panels, grain, library)

    def _chunks(self) -> tuple[Dim, Dim]:
        """How many there are, all of about as many pixels, and how many these are: whole calls of micro-kernels."""
        count, step = floordiv(self.pixels + self.chunk - 1, self.chunk), self._shape[2]
        even = floordiv(self.pixels + maximum(count, 1) - 1, maximum(count, 1))
        rows = minimum(floordiv(even + step - 1, step) * step, self.chunk)
        return floordiv(self.pixels + maximum(rows, 1) - 1, maximum(rows, 1)), rows

    @property
    def _zeros(self) -> Reg:
        assert self.zeros is not None
        return self.zeros

    @property
    def _shape(self) -> tuple[int, int, int]:
        """(vectors, lanes, rows) of the micro-kernels."""
        registers = self.schedule.registers
        assert registers is not None, self.schedule
        return self.width // self.lanes, self.lanes, registers.rows

    def _unit(self, group: Int, first: Int, panel: Int, is_new: Reg) -> None:
        """One unit; is_new: whether its pixels are others than those of the unit before."""
        f = self.frame.f
        rows = f.smin(f.sub(self.frame.size(self.pixels), first), self.frame.size(self._chunks()[1]))
        f.if_(is_new, lambda: self._find_first_addresses(group, first, rows))
        is_one_block = self.block_taps == self.sums.start_count and self.block_run == self.sums.run_length

        def block(start: Int, k: Int) -> None:
            taps = f.smin(f.sub(self.sums.start_count, start), self.block_taps)
            run = f.smin(f.sub(self.sums.run_length, k), self.block_run)
            if is_one_block:
                f.if_(is_new, lambda: self._find_addresses(0, taps, 0, rows))
            else:
                self._find_addresses(start, taps, k, rows)
            accumulate = f.convert("zext", f.icmp("ne", f.add(start, k), 0), "i64")
            self._multiply(self._panel(group, panel, (start, k), (taps, run)), (taps, run), rows, accumulate)

        def blocks(start: Int) -> None:
            f.loop(0, self.sums.run_length, self.block_run, partial(block, start))

        f.loop(0, self.sums.start_count, self.block_taps, blocks)
        f.loop(0, rows, 1, lambda row: self._finish_row(group, f.add(first, row), row, f.mul(panel, self.width)))

    # Addresses

    def _find_first_addresses(self, group: Int, first: Int, rows: Int) -> None:
        """Where each pixel of the chunk reads under tap 0, and its positions along the axes that are padded."""
        frame, f, shape = self.frame, self.frame.f, self.op.result.shape[:-1]
        axes, strides = self.sums.dimensions.x, self.sums.x.strides
        lows, steps = [frame.size(low) for low in self.op.dims("low")], self.op.ints("strides")
        channels = f.mul(group, frame.size(self.op.operands[1].shape[1] * strides[axes.channel]))
        origin = f.gep(self._base(self.sums.x), f.add(frame.size(self.sums.x.offset), channels), self.element)
        address = as_reg(f.convert("ptrtoint", origin, "i64"))

        def pixel(row: Int, image: Int, *positions: Int) -> Sequence[Int]:
            places = [f.sub(f.mul(at, step), low) for at, step, low in zip(positions, steps, lows, strict=True)]
            offset = f.mul(image, frame.size(strides[axes.batch]))
            for place, axis in zip(places, axes.spatial, strict=True):
                offset = f.add(offset, f.mul(place, frame.size(strides[axis])))
            f.store(f.add(address, f.mul(offset, self.item)), f.gep(self.first_addresses, row, "i64"), align=8)
            for padded, first_places in self.first_places.items():
                f.store(places[padded.ordinal - 1], f.gep(first_places, row, "i64"), align=8)
            return self._next_pixel((image, *positions))

        f.loop(0, rows, 1, pixel, frame.split(first, shape))

    def _next_pixel(self, pixel: Sequence[Int]) -> Sequence[Int]:
        """The coordinates of the next pixel: columns run fastest."""
        f, carry, following = self.frame.f, as_reg(1), list[Int]()
        for position, size in zip(reversed(pixel[1:]), reversed(self.op.result.shape[1:-1]), strict=True):
            ahead = f.add(position, carry)
            wraps = f.icmp("eq", ahead, self.frame.size(size))
            following.insert(0, f.select(wraps, 0, as_reg(ahead)))
            carry = as_reg(f.convert("zext", wraps, "i64"))
        return (f.add(pixel[0], carry), *following)

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.op.dtype().itemsize

    def _find_addresses(self, start: Int, taps: Int, k: Int, rows: Int) -> None:
        """addresses[tap][row], for `taps` from `start` on, of element `k` of each run."""
        f, type = self.frame.f, vector_type("i64", self.address_lanes)
        zeros = (
            None
            if self.zeros is None
            else f.splat(as_reg(f.convert("ptrtoint", self.zeros, "i64")), self.address_lanes)
        )

        def tap(ordinal: Int) -> None:
            positions = self._start_positions(f.add(start, ordinal))
            offset = k
            for axis, position in zip(self.sums.starts, positions, strict=True):
                offset = f.add(offset, f.mul(position, self.frame.size(axis.stride)))
            ahead = f.splat(as_reg(f.mul(offset, self.item)), self.address_lanes)
            tests = self._padding_tests(dict(zip(self.sums.starts, positions, strict=True)))
            line = f.gep(self.addresses, f.mul(ordinal, self.table_rows), "i64")

            def vector(row: Int) -> None:
                address = f.add(f.load(type, f.gep(self.first_addresses, row, "i64"), align=64), ahead)
                if zeros is not None:
                    address = f.select(tests(row), as_reg(address), zeros)
                f.store(address, f.gep(line, row, "i64"), align=64)

            f.loop(0, rows, self.address_lanes, vector)

        f.loop(0, taps, 1, tap)

    def _start_positions(self, ordinal: Int) -> tuple[Int, ...]:
        """The position along each axis of `starts`."""
        return self.frame.split(ordinal, tuple(axis.size for axis in self.sums.starts))

    def _padding_tests(self, positions: dict[SummedAxis, Int]) -> Callable[[Int], Reg]:
        """For rows from one on, which of them read inside of the image at a tap."""
        f, lanes, limits = self.frame.f, self.address_lanes, list[tuple[Reg, Reg, Reg]]()
        for axis, first_places in self.first_places.items():
            spatial = axis.ordinal - 1
            ahead = f.mul(positions[axis], self.op.ints("dilations")[spatial])
            size = self.frame.size(self.sums.x.shape[self.sums.dimensions.x.spatial[spatial]])
            limits.append((first_places, f.splat(as_reg(ahead), lanes), f.splat(as_reg(size), lanes)))

        def inside(row: Int) -> Reg:
            found: Reg | None = None
            for first_places, ahead, size in limits:
                place = f.add(f.load(ahead.type, f.gep(first_places, row, "i64"), align=64), ahead)
                fits = f.icmp("ult", place, size)
                found = fits if found is None else f.and_(found, fits)
            assert found is not None
            return found

        return inside

    # Products

    def _base(self, view: View) -> Reg:
        return self.frame.inputs[self.frame.kernel.block.parameters.index(view.base)]

    def _panel(self, group: Int, panel: Int, starts: tuple[Int, Int], counts: tuple[Int, Int]) -> Reg:
        """The filters of a block: among the packed ones, or packed now. starts, counts: taps, and elements of runs."""
        f, (start, k) = self.frame.f, starts
        if self.scratch is None:
            panels = self.frame.size(floordiv(self.filters + self.width - 1, self.width))
            ordinal = f.add(f.mul(group, panels), panel)
            rows = f.add(f.mul(ordinal, self.depth), f.add(f.mul(start, self.sums.run_length), k))
            return f.gep(self._base(self.w), f.mul(rows, self.width), self.element)
        self._pack(group, f.mul(panel, self.width), starts, counts, self.scratch)
        return self.scratch

    def _pack(self, group: Int, first: Int, starts: tuple[Int, Int], counts: tuple[Int, Int], scratch: Reg) -> None:
        """scratch[tap][k][filter] = the filters of a block."""
        f, frame, (start, k), (taps, run) = self.frame.f, self.frame, starts, counts
        output, *inner = (frame.size(stride) for stride in self.w.strides)
        step = inner[self.sums.run[0].ordinal] if self.sums.run else 0
        filter = f.add(f.mul(group, frame.size(self.filters)), first)
        left = f.sub(frame.size(self.filters), first)
        origin = f.add(frame.size(self.w.offset), f.add(f.mul(filter, output), f.mul(k, step)))

        def tap(ordinal: Int) -> None:
            offset = origin
            for axis, position in zip(self.sums.starts, self._start_positions(f.add(start, ordinal)), strict=True):
                offset = f.add(offset, f.mul(position, inner[axis.ordinal]))
            source = f.gep(self._base(self.w), offset, self.element)
            panel = f.gep(scratch, f.mul(ordinal, self.block_run * self.width), self.element)
            pack_panel(f, source, panel, (step, output), (run, left), self._shape[:2], self.element)

        f.loop(0, taps, 1, tap)

    def _multiply(self, panel: Reg, counts: tuple[Int, Int], rows: Int, accumulate: Int) -> None:
        step = (self.sums.run_length if self.scratch is None else self.block_run) * self.width
        product = GatheredProduct(self.addresses, self.table_rows, *counts, panel, step, self.tile)
        multiply_gathered(self.frame.f, product, rows, accumulate, self.element, self._shape)

    # The way to the result

    def _finish_row(self, group: Int, pixel: Int, row: Int, first_filter: Int) -> None:
        """The pointwise ops on one row of the tile: the filters of one pixel."""
        frame, f = self.frame, self.frame.f
        left = f.sub(frame.size(self.filters), first_filter)
        channel = f.add(f.mul(group, frame.size(self.filters)), first_filter)
        for start in range(0, self.width, self.lanes):
            source = f.gep(self.tile, f.add(f.mul(row, self.width), start), self.element)
            write = partial(self._finish_vector, source, pixel, Index(f.add(channel, start), 1))
            frame.lanes_left(self.lanes, f.sub(left, start), write)

    def _finish_vector(self, source: Reg, pixel: Int, channel: Index, mask: Reg | None) -> None:
        frame, f, root = self.frame, self.frame.f, self.frame.root
        e = frame.evaluator(self.lanes, mask)
        e.bound[self.op.result] = f.load(vector_type(self.element, self.lanes), source, align=64)
        index = (Index(pixel), channel)
        place = e.strided(index, (root.shape[-1], 1))
        e.store(to_memory(self._result(e, index), root.dtype, f), frame.output, memory_type(root.dtype), place)

    def _result(self, e: Evaluator, index: tuple[Index, Index]) -> Reg:
        """What is stored: by merged axes where the epilogue can, else at the coordinates of the pixel."""
        root, (pixel, channel) = self.frame.root, index
        if self.leaves is not None:
            e.bind_views(self.leaves, index)
            return e.value(root, index)
        coordinates = self.frame.split(pixel.base, self.op.result.shape[:-1])
        return e.value(root, [*map(Index, coordinates), channel])
