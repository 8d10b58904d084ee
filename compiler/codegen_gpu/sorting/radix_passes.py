"""The launches that sort lines of keys by one digit after another, from the least to the greatest.

Nothing here depends on a model: sizes are parameters, so one machine code serves all sorts of a key type. Keys of equal
digits keep their order, for a key goes behind those of lesser digits in its line, behind the equal ones in blocks
before, and behind the equal ones before it in its own block.
"""

from onnxc.compiler.codegen_gpu.schedules.radix import RADIX_BLOCK, RADIX_RUN, RADIX_SUMS, RADIX_WORKERS, RadixSort
from onnxc.compiler.codegen_gpu.source.element_types import pointer_type
from onnxc.compiler.codegen_gpu.source.kernel_source import Argument, DeviceStep
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, SourceBuilder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import I32, DType
from onnxc.runtime.records import record

__all__ = ["radix_steps"]

_COMPARED = 32
"""Keys of a run that each key is compared with at a time: more would not stay in registers."""


def radix_steps(sort: RadixSort) -> tuple[DeviceStep, ...]:
    """Three launches for each digit; the keys and their ordinals begin where `sort` has them after 0 passes."""
    passes = (_Pass(sort, ordinal) for ordinal in range(sort.digits.count))
    return tuple(step for each in passes for step in (each.count(), each.sum_up(), each.move()))


@record
class _Pass:
    sort: RadixSort
    ordinal: int

    def count(self) -> DeviceStep:
        """Each block counts the values of its digits."""
        b, sort = SourceBuilder(1), self.sort
        line, block = self._line_and_block(b)
        lane, one = b.lanes(0, RADIX_BLOCK), frozenset((0,))
        key = b.let(f"{block} * {RADIX_BLOCK} + {lane}", one)
        inside = b.let(f"{key} < {self._length(b)}", one)
        digit = self._digit(b, self._keys(b), f"{line} * {self._length(b)} + {key}", inside)
        b.line(f"counts_of = tl.histogram({digit}, {sort.bins}, mask={inside})")
        b.line(f"bin = tl.arange(0, {sort.bins})")
        counts = self._pointer(b, "counts", I32, sort.counts)
        b.line(f"tl.store({counts} + ({line} * {sort.bins} + bin) * {self._blocks(b)} + {block}, counts_of)")
        return self._step(b, sort.lines * sort.blocks)

    def sum_up(self) -> DeviceStep:
        """For each value of a digit in a line, the counts of the blocks become the sums of those before."""
        b, sort, tall, square = SourceBuilder(2), self.sort, frozenset((0,)), frozenset((0, 1))
        counts, totals = (
            self._pointer(b, name, I32, at) for name, at in (("counts", sort.counts), ("totals", sort.totals))
        )
        rows, blocks = RADIX_SUMS.rows, RADIX_SUMS.columns
        row, lane = b.let(f"{b.program()} * {rows} + {b.lanes(0, rows)}", tall), b.lanes(1, blocks)
        total = b.variable(f"tl.zeros([{rows}, 1], tl.int32)", tall)
        with b.loop(0, self._blocks(b), blocks, prefix="first") as first:
            block = b.let(f"{first} + {lane}", frozenset((1,)))
            inside = b.let(f"({block} < {self._blocks(b)}) & ({row} >= 0)", square)
            address = f"{counts} + {row} * {self._blocks(b)} + {block}"
            own = b.let(f"tl.load({address}, mask={inside}, other=0)", square)
            b.line(f"tl.store({address}, {total} + tl.cumsum({own}, 1) - {own}, mask={inside})")
            b.assign(total, f"{total} + tl.sum({own}, 1, keep_dims=True)")
        b.line(f"tl.store({totals} + {row}, {total})")
        return self._step(b, floordiv(sort.lines * sort.bins, rows))

    def move(self) -> DeviceStep:
        """Each block moves its keys and ordinals, run by run."""
        b, sort = SourceBuilder(1), self.sort
        line, block = self._line_and_block(b)
        length, bins, one = self._length(b), sort.bins, frozenset((0,))
        keys, moved_keys = self._keys(b), self._pointer(b, "moved_keys", sort.key, sort.keys(self.ordinal + 1))
        ordinals = self._pointer(b, "ordinals", I32, sort.ordinals(self.ordinal))
        moved_ordinals = self._pointer(b, "moved_ordinals", I32, sort.ordinals(self.ordinal + 1))
        counts, totals = (
            self._pointer(b, name, I32, at) for name, at in (("counts", sort.counts), ("totals", sort.totals))
        )
        b.line(f"bin = {line} * {bins} + tl.arange(0, {bins})")
        b.line(f"total = tl.load({totals} + bin)")
        b.line(f"before = tl.load({counts} + bin * {self._blocks(b)} + {block})")
        free = b.variable("tl.cumsum(total, 0) - total + before", one)
        begin = b.let(f"{block} * {RADIX_BLOCK}")
        end = b.let(f"tl.minimum({begin} + {RADIX_BLOCK}, {length})")
        lane = b.lanes(0, RADIX_RUN)
        with b.loop(begin, end, RADIX_RUN, prefix="run") as run:
            inside = b.let(f"{run} + {lane} < {length}", one)
            position = f"{line} * {length} + {run} + {lane}"
            digit = self._digit(b, keys, position, inside)
            rank = self._equal_before(b, digit, keys, f"{line} * {length} + {run}", f"{length} - {run}")
            target = b.let(f"{line} * {length} + tl.gather({free}, {digit}, 0) + {rank}", one)
            for source, goal in ((keys, moved_keys), (ordinals, moved_ordinals)):
                x = b.let(f"tl.load({source} + {position}, mask={inside}, other=0)", one)
                b.line(f"tl.store({goal} + {target}, {x}, mask={inside})")
            b.assign(free, f"{free} + tl.histogram({digit}, {bins}, mask={inside})")
        return self._step(b, sort.lines * sort.blocks)

    def _equal_before(self, b: SourceBuilder, digit: Expr, keys: Expr, start: str, count: str) -> Expr:
        """How many keys before each one of a run have its digit; `count` is what is left of the line."""
        one = frozenset((0,))
        rank = b.variable(f"tl.zeros([{RADIX_RUN}], tl.int32)", one)
        with b.loop(0, RADIX_RUN, _COMPARED, prefix="compared") as first:
            other = b.let(f"{first} + tl.arange(0, {_COMPARED})", one)
            inside = b.let(f"{other} < {count}", one)
            theirs = self._digit(b, keys, f"{start} + {other}", inside)
            earlier = f"{other}[None, :] < {b.lanes(0, RADIX_RUN)}[:, None]"
            equal = b.let(f"({theirs}[None, :] == {digit}[:, None]) & ({earlier})", one)
            b.assign(rank, f"{rank} + tl.sum({equal}.to(tl.int32), 1)")
        return rank

    # What the launches of a pass are given

    def _line_and_block(self, b: SourceBuilder) -> tuple[Expr, Expr]:
        program, blocks = b.program(), self._blocks(b)
        return b.let(f"{program} // {blocks}"), b.let(f"{program} % {blocks}")

    def _digit(self, b: SourceBuilder, keys: Expr, position: str, inside: Expr) -> Expr:
        """The digits of the keys at places; 0 outside."""
        shift = b.integer("shift", Argument("size", self.ordinal * self.sort.digits.bits))
        key = b.let(f"tl.load({keys} + {position}, mask={inside}, other=0)", inside.dims)
        return b.let(f"(({key} >> {shift}) & {self.sort.bins - 1}).to(tl.int32)", inside.dims)

    def _keys(self, b: SourceBuilder) -> Expr:
        return self._pointer(b, "keys", self.sort.key, self.sort.keys(self.ordinal))

    def _pointer(self, b: SourceBuilder, name: str, dtype: DType, offset: Dim) -> Expr:
        return b.pointer(name, pointer_type(dtype), Argument("scratch", offset))

    def _length(self, b: SourceBuilder) -> Expr:
        return b.integer("length", Argument("size", self.sort.length))

    def _blocks(self, b: SourceBuilder) -> Expr:
        return b.integer("blocks", Argument("size", self.sort.blocks))

    def _step(self, b: SourceBuilder, programs: Dim) -> DeviceStep:
        source, arguments = b.finish(RADIX_WORKERS.count, RADIX_WORKERS.stages)
        return DeviceStep(source, (programs, 1, 1), arguments)
