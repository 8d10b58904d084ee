"""Packing a panel of bytes on the way, in groups of neighbours along k."""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_cpu.inner_loops.packing import Copied, read_strided, steps_of
from onnxc.compiler.codegen_cpu.inner_loops.turned_squares import turn_square
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load, masked_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type

__all__ = ["pack_groups"]

AHEAD = 16
"""How many rows before their turn lines of a panel are asked for: where rows are long, no prefetcher follows."""


def pack_groups(f: FunctionBuilder, copied: Copied, vectors: int, lanes: int, group: int) -> None:
    """packed[step][j][i] = element (group * step + i, j), with zeros where there is none; a group has 2 or 4.

    The panel has so many `vectors`, each of `lanes` groups.
    """
    k_stride, n_stride = copied.strides
    pack = _pack_dense_columns if k_stride == 1 and n_stride != 1 else _pack_rows
    pack(f, copied, vectors, lanes, group)


def _pack_rows(f: FunctionBuilder, copied: Copied, vectors: int, lanes: int, group: int) -> None:
    """Rows of neighbouring columns, of which a group is interleaved in registers.

    Of a whole panel the groups but the last are read without masks, and the rows of later ones are asked for.
    """
    (k_stride, n_stride), (depth, left), width = copied.strides, copied.sizes, vectors * lanes
    steps, type = steps_of(f, n_stride, lanes), vector_type("i8", lanes)

    def address_of(k: Int, column: int) -> Reg:
        return f.gep(copied.source, f.add(f.mul(k, k_stride), f.mul(n_stride, column * lanes)))

    def read(k: Int, column: int) -> Reg:
        exists = f.splat(f.icmp("slt", k, depth), lanes)
        mask = f.and_(f.tail_mask(lanes, f.sub(left, column * lanes)), exists)
        return read_strided(f, type, address_of(k, column), steps, mask)

    def step(k: Int, read: Callable[[Int, int], Reg]) -> None:
        for column in range(vectors):
            rows = [read(f.add(k, offset), column) for offset in range(group)]
            address = f.gep(copied.packed, f.add(f.mul(k, width), column * lanes * group))
            f.store(_interleaved(f, rows), address, align=64)

    last = f.sub(depth, 1)

    def whole(k: Int) -> None:
        for offset in range(group):
            f.prefetch(address_of(f.smin(f.add(k, AHEAD + offset), last), 0))
        step(k, lambda k, column: read_strided(f, type, address_of(k, column), steps, None))

    groups = f.mul(f.sdiv(depth, group), group)
    count = f.select(f.icmp("sge", left, width), groups, 0)
    f.loop(0, count, group, whole)
    f.loop(count, depth, group, lambda k: step(k, read))


def _interleaved(f: FunctionBuilder, rows: Sequence[Reg]) -> Reg:
    """The lanes of two or four vectors side by side."""
    lanes = rows[0].lanes
    pairs = [lane + lanes * other for lane in range(lanes) for other in range(2)]
    if len(rows) == 2:
        return f.shuffle(rows[0], rows[1], pairs)
    low, high = f.shuffle(rows[0], rows[1], pairs), f.shuffle(rows[2], rows[3], pairs)
    fours = [2 * (lane + lanes * half) + byte for lane in range(lanes) for half in range(2) for byte in range(2)]
    return f.shuffle(low, high, fours)


def _pack_dense_columns(f: FunctionBuilder, copied: Copied, vectors: int, lanes: int, group: int) -> None:
    """Columns that are dense along k: squares of groups, `lanes` by `lanes`, are turned in registers.

    Lanes of columns that are not there read the last one, masked off: what lies behind it may be a page that is not.
    """
    (_, n_stride), (depth, left), width = copied.strides, copied.sizes, vectors * lanes
    bytes_type, type = vector_type("i8", lanes * group), vector_type(f"i{8 * group}", lanes)
    zero = f.constant(bytes_type, 0)

    def square(k: Int, column: int) -> None:
        inside = f.tail_mask(lanes * group, f.sub(depth, k))
        rows: list[Reg] = []
        for lane in range(column * lanes, (column + 1) * lanes):
            mask = f.and_(inside, f.splat(f.icmp("slt", lane, left), lanes * group))
            address = f.gep(copied.source, f.add(f.mul(n_stride, f.smin(lane, f.sub(left, 1))), k))
            rows.append(register(f.convert("bitcast", masked_load(f, bytes_type, address, mask, passthru=zero), type)))
        for lane, turned in enumerate(turn_square(f, rows)):
            first = f.add(k, lane * group)
            address = f.gep(copied.packed, f.add(f.mul(first, width), column * lanes * group))
            masked_store(f, turned, address, f.splat(f.icmp("slt", first, depth), lanes), align=64)

    for column in range(vectors):
        f.loop(0, depth, lanes * group, lambda k, column=column: square(k, column))
