"""Where the windows of neighbouring results read an image: an address for each tap and result, looked up once.

In the padding it is that of zeros, so that what reads behind an address needs no tests.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.loops.convolution_sums import SummedAxis, Sums
from onnxc.runtime.records import record


def even_chunks(count: Dim, most: int, step: int, least: int = 1) -> tuple[Dim, Dim]:
    """How many chunks of `most` results or fewer there are, and of how many: about equally many, in whole `step`s.

    There are `least` at least where each has two steps.
    """
    chunks = maximum(floordiv(count + most - 1, most), maximum(minimum(floordiv(count, 2 * step), least), 1))
    even = floordiv(count + chunks - 1, chunks)
    rows = maximum(minimum(floordiv(even + step - 1, step) * step, most), 1)
    return floordiv(count + rows - 1, rows), rows


@record
class WindowAddresses:
    """A table for the windows of a convolution over the axes of starts of `sums`, `padded` those that may leave it.

    shape: the box of which results are neighbours, images first; they begin to read `steps` apart. room: for how many
    taps and results the table has addresses, and how many elements are read behind each.
    """

    frame: KernelFrame
    op: Op
    sums: Sums
    padded: tuple[SummedAxis, ...]
    shape: tuple[Dim, ...]
    steps: tuple[int, ...]
    room: tuple[int, int, int]

    @cached_property
    def lanes(self) -> int:
        """Addresses are looked up in whole vectors of them."""
        return self.frame.target.vector_bits // 64

    @cached_property
    def rows(self) -> int:
        """How far apart the addresses of a result are from tap to tap."""
        return -(-self.room[1] // self.lanes) * self.lanes

    @cached_property
    def addresses(self) -> Reg:
        """[tap][result]."""
        return self.frame.f.alloca("i64", self.room[0] * self.rows)

    @cached_property
    def _first_addresses(self) -> Reg:
        return self.frame.f.alloca("i64", self.rows)

    @cached_property
    def _first_positions(self) -> Mapping[SummedAxis, Reg]:
        return {axis: self.frame.f.alloca("i64", self.rows) for axis in self.padded}

    @cached_property
    def zeros(self) -> Reg:
        """What is read in the padding; nowhere where there is none."""
        if not self.padded:
            return self.frame.f.constant("ptr", 0)
        return self.frame.f.alloca(self._element, self.room[2])

    @property
    def _element(self) -> str:
        return memory_type(self.sums.x.base.dtype)

    @property
    def _item(self) -> int:
        return self.sums.x.base.dtype.itemsize

    def clear_zeros(self) -> None:
        """Makes `zeros` what they are."""
        f, zero = self.frame.f, self.frame.f.constant(self._element, 0.0)
        if self.padded:
            f.loop(0, self.room[2], 1, lambda k: f.store(zero, f.gep(self.zeros, k, self._element)))

    def find_first(self, ahead: Sequence[Int], channel: Int, first: Int, rows: Int) -> None:
        """Where each of some `rows` from `first` on reads a channel under its first tap, `ahead` of its own place."""
        frame, f, x = self.frame, self.frame.f, self.sums.x
        axes = self.sums.dimensions.x
        channels = f.mul(channel, frame.size(x.strides[axes.channel]))
        base = frame.inputs[frame.kernel.block.parameters.index(x.base)]
        origin = f.gep(base, f.add(frame.size(x.offset), channels), self._element)
        address = as_reg(f.convert("ptrtoint", origin, "i64"))

        def result(row: Int, image: Int, *positions: Int) -> Sequence[Int]:
            moved = zip(positions, self.steps, ahead, strict=True)
            offsets = [f.add(f.mul(position, step), shift) for position, step, shift in moved]
            offset = f.mul(image, frame.size(x.strides[axes.batch]))
            for element, axis in zip(offsets, axes.spatial, strict=True):
                offset = f.add(offset, f.mul(element, frame.size(x.strides[axis])))
            f.store(f.add(address, f.mul(offset, self._item)), f.gep(self._first_addresses, row, "i64"), align=8)
            for padded, first_positions in self._first_positions.items():
                f.store(offsets[padded.ordinal - 1], f.gep(first_positions, row, "i64"), align=8)
            return self._next((image, *positions))

        f.loop(0, rows, 1, result, frame.split(first, self.shape))

    def _next(self, coordinates: Sequence[Int]) -> Sequence[Int]:
        """The coordinates of the next result: the last run fastest."""
        f, carry, following = self.frame.f, as_reg(1), list[Int]()
        for position, size in zip(reversed(coordinates[1:]), reversed(self.shape[1:]), strict=True):
            ahead = f.add(position, carry)
            wraps = f.icmp("eq", ahead, self.frame.size(size))
            following.insert(0, f.select(wraps, 0, as_reg(ahead)))
            carry = as_reg(f.convert("zext", wraps, "i64"))
        return (f.add(coordinates[0], carry), *following)

    def find(self, sizes: Sequence[Int], begins: tuple[Int, Int], taps: Int, rows: Int) -> None:
        """addresses[tap][row] for some `taps` of a box of `sizes`; begins: the first tap, and the element of runs."""
        f, type, (start, k) = self.frame.f, vector_type("i64", self.lanes), begins
        zeros = f.splat(as_reg(f.convert("ptrtoint", self.zeros, "i64")), self.lanes) if self.padded else None

        def tap(ordinal: Int) -> None:
            positions = self.positions(sizes, f.add(start, ordinal))
            offset = k
            for axis, position in zip(self.sums.starts, positions, strict=True):
                offset = f.add(offset, f.mul(position, self.frame.size(axis.stride)))
            ahead = f.splat(as_reg(f.mul(offset, self._item)), self.lanes)
            is_inside = self._tests(dict(zip(self.sums.starts, positions, strict=True)))
            line = f.gep(self.addresses, f.mul(ordinal, self.rows), "i64")

            def vector(row: Int) -> None:
                address = f.add(f.load(type, f.gep(self._first_addresses, row, "i64"), align=64), ahead)
                if zeros is not None:
                    address = f.select(is_inside(row), as_reg(address), zeros)
                f.store(address, f.gep(line, row, "i64"), align=64)

            f.loop(0, rows, self.lanes, vector)

        f.loop(0, taps, 1, tap)

    def positions(self, sizes: Sequence[Int], ordinal: Int) -> tuple[Int, ...]:
        """The position of a tap along each axis."""
        f, positions = self.frame.f, list[Int]()
        for size in reversed(sizes[1:]):
            quotient = f.udiv(ordinal, size)
            positions.insert(0, f.sub(ordinal, f.mul(quotient, size)))
            ordinal = quotient
        return (ordinal, *positions) if sizes else ()

    def _tests(self, positions: Mapping[SummedAxis, Int]) -> Callable[[Int], Reg]:
        """For a vector of results from one on, which of them read inside of the image at a tap."""
        f, lanes, limits = self.frame.f, self.lanes, list[tuple[Reg, Reg, Reg]]()
        for axis, first_positions in self._first_positions.items():
            spatial = axis.ordinal - 1
            ahead = f.mul(positions[axis], axis.dilation)
            size = self.frame.size(self.sums.x.shape[self.sums.dimensions.x.spatial[spatial]])
            limits.append((first_positions, f.splat(as_reg(ahead), lanes), f.splat(as_reg(size), lanes)))

        def is_inside(row: Int) -> Reg:
            inside: Reg | None = None
            for first_positions, ahead, size in limits:
                position = f.add(f.load(ahead.type, f.gep(first_positions, row, "i64"), align=64), ahead)
                fits = f.icmp("ult", position, size)
                inside = fits if inside is None else f.and_(inside, fits)
            assert inside is not None
            return inside

        return is_inside
