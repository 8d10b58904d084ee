"""Rows of a result that hold each column of what they pick from twice, as where an image becomes twice as wide.

Only the call knows that, where sizes are symbols: it looks at the indices once, and writes rows without them then.
Where each row is there twice, too, it writes both at once.
"""

from collections.abc import Callable, Sequence
from itertools import product as pairs

from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_host.llvm_masks import masked_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.indexed import HELD
from onnxc.compiler.planning.loops.views import row_major


def doubled_pick(root: Value) -> Op | None:
    """The op that picks the columns of a result by a list of the call inside of the row; None for other results."""
    op = root.op
    if op is None or op.name != "gather" or op.attributes.get("known") != HELD:
        return None
    indices = op.operands[1]
    return op if indices.rank == 1 and op.int("axis") == root.rank - 1 and indices.dtype == I64 else None


def are_doubled(frame: KernelFrame, picks: Value) -> Reg:
    """Whether the index at each place j of a list is j / 2; it is looked at up to the first that is not."""
    f, lanes, size = frame.f, frame.lanes, frame.size(picks.shape[0])
    type = vector_type("i64", lanes)

    def look(start: Reg, _: Reg) -> Sequence[Int]:
        mask = f.tail_mask(lanes, f.sub(size, start))
        picked = frame.evaluator(mask=mask).vector(picks, (Index(start, 1),))
        columns = f.add(f.splat(start, lanes), f.lane_ids(type))
        is_other = f.icmp("ne", picked, f.lshr(columns, f.constant(type, 1)))
        return f.add(start, lanes), f.xor(f.reduce_lanes("or", f.and_(is_other, mask)), f.constant("i1", 1))

    def goes_on(start: Reg, is_doubled: Reg) -> Reg:
        return f.and_(is_doubled, f.icmp("slt", start, size))

    return as_reg(f.while_((0, f.constant("i1", 1)), goes_on, look)[1])


def write_pairs(
    frame: KernelFrame, outer: Sequence[Index], start: Int, write: Callable[[int], None], alone: Callable[[], None]
) -> None:
    """Writes an even row and the one behind it by `write(2)` where both are of this call, and nothing for that then.

    Others, and rows in parts but for their first parts, whose units are counted by rows, are written `alone`.
    """
    f, row = frame.f, as_reg(outer[-1].base)
    ordinal: Int = 0
    for coordinate, size in zip(outer, frame.root.shape[:-1], strict=True):
        ordinal = f.add(f.mul(ordinal, frame.size(size)), coordinate.base)
    is_first, is_odd = f.icmp("eq", start, 0), f.icmp("ne", f.and_(row, 1), 0)
    is_even = f.xor(is_odd, f.constant("i1", 1))
    is_written = f.conjunction([is_first, is_odd, f.icmp("sgt", ordinal, frame.begin)])
    has_next = f.icmp("slt", f.add(row, 1), frame.size(frame.root.shape[-2]))
    is_pair = f.conjunction([is_first, is_even, has_next, f.icmp("slt", f.add(ordinal, 1), frame.end)])
    f.if_(is_pair, lambda: write(2), lambda: f.if_(is_written, lambda: None, alone))


def write_doubled(
    frame: KernelFrame, data: Value, row: Evaluator, outer: Sequence[Index], start: Int, stop: Int, rows: int = 1
) -> None:
    """Writes a row from `start`, which is even, to `stop`, with each column of `data` twice; `rows` of it in all.

    row: knows what indices that are data say of the row.
    """
    f, dtype, lanes = frame.f, frame.root.dtype, frame.lanes
    memory, pitch = memory_type(dtype), row_major(frame.root.shape)
    halves = [[first + lane // 2 for lane in range(lanes)] for first in (0, lanes // 2)]
    target = row.strided((*outer, Index(start)), pitch).base
    targets = [f.add(target, f.mul(frame.size(frame.root.shape[-1]), ordinal)) for ordinal in range(rows)]

    def write(column: Int, left: Int | None) -> None:
        """What two vectors have of the one from a column on; `left`: how many columns are to be written."""
        mask = None if left is None else f.tail_mask(lanes, f.lshr(f.add(left, 1), 1))
        e = frame.evaluator(mask=mask)
        e.positions.update(row.positions)
        x = to_memory(e.vector(data, (*outer, Index(column, 1))), dtype, f)
        parts = [(f.shuffle(x, None, lane_picks), half * lanes) for half, lane_picks in enumerate(halves)]
        for target, (part, behind) in pairs(targets, parts):
            offset = f.add(f.add(target, f.sub(f.mul(column, 2), start)), behind)
            to = f.gep(frame.output, offset, memory)
            if left is None:
                f.store(part, to)
            else:
                masked_store(f, part, to, f.tail_mask(lanes, f.sub(left, behind)))

    first = f.lshr(start, 1) if isinstance(start, Reg) else start // 2
    whole = f.add(first, f.mul(f.udiv(f.sub(stop, start), 2 * lanes), lanes))
    f.loop(first, whole, lanes, lambda column: write(column, None))
    left = f.sub(stop, f.mul(whole, 2))
    f.if_(f.icmp("sgt", left, 0), lambda: write(whole, left))
