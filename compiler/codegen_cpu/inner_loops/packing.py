"""Packing A and B on the way, in the type that they are multiplied in.

Constants are packed when the program is compiled (planning/layouts.py), in their own type.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import FLIPPED_ZERO
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import widened_from_memory
from onnxc.compiler.codegen_cpu.inner_loops.turned_squares import load_turned, turn_square
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load, masked_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dtypes import I8, U8, DType
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.records import record


@record
class Conversion:
    """From elements as they lie in memory to what a packed operand has, in vectors of so many lanes."""

    source: DType
    packed: DType
    lanes: int

    @property
    def vector(self) -> str:
        """A vector as it is loaded."""
        return vector_type(memory_type(self.source), self.lanes)

    def convert(self, x: Reg, f: FunctionBuilder) -> Reg:
        """A loaded vector in the type of what is packed; between bytes with and without sign the top bit is flipped."""
        if self.source != self.packed and {self.source, self.packed} <= {I8, U8}:
            return f.xor(x, FLIPPED_ZERO)
        return x if self.source == self.packed else widened_from_memory(x, self.source, self.packed, f)


@record
class Copied:
    """What is packed, and where to: element (i, j) lies i * strides[0] + j * strides[1] behind `source`.

    strides, sizes: of lines and of elements of a line; of a panel along k, and of columns.
    """

    source: Reg
    packed: Reg
    strides: tuple[Int, Int]
    sizes: tuple[Int, Int]


def pack_lines(f: FunctionBuilder, copied: Copied, length: int, conversion: Conversion) -> None:
    """packed[line][i] = element (line, i).

    A packed line has room for `length` elements, whole vectors; what is behind the elements of its last one is 0.
    """
    (line_stride, stride), (lines, count), lanes = copied.strides, copied.sizes, conversion.lanes
    whole = f.mul(f.sdiv(count, lanes), lanes)
    tail, steps = f.tail_mask(lanes, f.sub(count, whole)), steps_of(f, stride, lanes)

    def line(ordinal: Int) -> None:
        start = f.gep(copied.source, f.mul(ordinal, line_stride), memory_type(conversion.source))
        room = f.gep(copied.packed, f.mul(ordinal, length), memory_type(conversion.packed))

        def vector(i: Int, mask: Reg | None = None) -> None:
            address = f.gep(start, f.mul(i, stride), memory_type(conversion.source))
            x = read_strided(f, conversion.vector, address, steps, mask)
            f.store(conversion.convert(x, f), f.gep(room, i, memory_type(conversion.packed)), align=4)

        f.loop(0, whole, lanes, vector)
        f.if_(f.icmp("sgt", count, whole), lambda: vector(whole, tail))

    f.loop(0, lines, 1, line)


def read_strided(f: FunctionBuilder, vector: str, address: Reg, steps: Reg | None, mask: Reg | None) -> Reg:
    """A vector of elements, side by side or that many `steps` behind the address: those of the mask, and zeros.

    Without a mask all.
    """
    zero = None if mask is None else f.constant(vector, 0)
    if steps is not None:
        return f.gather(vector, address, steps, mask, passthru=zero)
    if mask is None:
        return f.load(vector, address, align=1)
    return masked_load(f, vector, address, mask, passthru=zero)


def steps_of(f: FunctionBuilder, stride: Int, lanes: int) -> Reg | None:
    """0, stride, 2 * stride, ...; None for neighbours."""
    return None if stride == 1 else as_reg(f.mul(f.lane_ids(vector_type("i64", lanes)), f.splat(as_reg(stride), lanes)))


PACKED_AHEAD = 16
"""How many rows of B ahead of the one that is packed are asked for: each may lie on a page of its own, where processors
fetch none by themselves. On one core of Zen 1, 8x768x3072 took 4,700 us without, 2,660 with 16 and 2,890 with 32.
Behind the last one nothing is: a page that is not there takes 80 ns each time, and 128x64x3136 took 1,780 us in place
of 1,450."""


def pack_panel(f: FunctionBuilder, copied: Copied, vectors: int, conversion: Conversion) -> None:
    """packed[k][j] = element (k, j), with zeros from the last column on; the panel has so many `vectors`."""
    (k_stride, n_stride), (depth, left), lanes = copied.strides, copied.sizes, conversion.lanes
    if k_stride == 1 and n_stride != 1:
        _pack_transposed(f, copied, vectors, conversion)
        return
    steps, memory = steps_of(f, n_stride, lanes), memory_type(conversion.source)
    line_vectors = max(CACHE_LINE_BYTES // (lanes * conversion.source.itemsize), 1)

    last = f.sub(depth, 1)

    def row(k: Int, masks: Sequence[Reg | None]) -> None:
        start = f.gep(copied.source, f.mul(k, k_stride), memory)
        soon = f.gep(copied.source, f.mul(f.smin(f.add(k, PACKED_AHEAD), last), k_stride), memory)
        for column, mask in enumerate(masks):
            address = f.gep(start, f.mul(n_stride, column * lanes), memory)
            if steps is None and column % line_vectors == 0:
                f.prefetch(f.gep(soon, column * lanes, memory))
            x = read_strided(f, conversion.vector, address, steps, mask)
            offset = f.add(f.mul(k, vectors * lanes), column * lanes)
            f.store(conversion.convert(x, f), f.gep(copied.packed, offset, memory_type(conversion.packed)), align=64)

    def rows(masks: Sequence[Reg | None]) -> None:
        f.loop(0, depth, 1, lambda k: row(k, masks))

    f.if_(
        f.icmp("sge", left, vectors * lanes),
        lambda: rows([None] * vectors),
        lambda: rows([f.tail_mask(lanes, f.sub(left, column * lanes)) for column in range(vectors)]),
    )


def _pack_transposed(f: FunctionBuilder, copied: Copied, vectors: int, conversion: Conversion) -> None:
    """As `pack_panel` for a B that is dense along k: squares of `lanes` by `lanes` are turned in registers.

    Only squares that are not whole are read and written by masks. What lies behind the last column is not read even so:
    a load of no lanes from a page that is not there takes 270 ns, as it is done again to see that it may be.
    """
    (_, n_stride), (depth, left), lanes = copied.strides, copied.sizes, conversion.lanes
    width, zero, last = vectors * lanes, f.constant(conversion.vector, 0), f.sub(left, 1)

    def source(k: Int, column: Int) -> Reg:
        return f.gep(copied.source, f.add(f.mul(n_stride, column), k), memory_type(conversion.source))

    def target(k: Int, column: Int) -> Reg:
        return f.gep(copied.packed, f.add(f.mul(k, width), column), memory_type(conversion.packed))

    def whole(k: Int, column: Int) -> None:
        addresses = [source(k, f.add(column, lane)) for lane in range(lanes)]
        for lane, row in enumerate(load_turned(f, addresses, memory_type(conversion.source))):
            f.store(conversion.convert(row, f), target(f.add(k, lane), column), align=64)

    def part(k: Int, column: Int) -> None:
        inside = f.tail_mask(lanes, f.sub(depth, k))
        rows = []
        for lane in range(lanes):
            exists = f.splat(f.icmp("slt", f.add(column, lane), left), lanes)
            address, mask = source(k, f.smin(f.add(column, lane), last)), f.and_(inside, exists)
            rows.append(conversion.convert(masked_load(f, conversion.vector, address, mask, passthru=zero), f))
        for lane, row in enumerate(turn_square(f, rows)):
            exists = f.splat(f.icmp("slt", f.add(k, lane), depth), lanes)
            masked_store(f, row, target(f.add(k, lane), column), exists, align=64)

    def squares(column: Int) -> None:
        has_lanes = f.icmp("sge", f.sub(left, column), lanes)
        count = f.select(has_lanes, f.mul(f.sdiv(depth, lanes), lanes), 0)
        f.loop(0, count, lanes, lambda k: whole(k, column))
        f.loop(count, depth, lanes, lambda k: part(k, column))

    f.loop(0, width, lanes, squares)
