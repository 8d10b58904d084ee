"""Recurrences: all rounds of one loop, or of two side by side, in one launch.

A program computes some units of a tile of rows, whose states stay in its registers. What products read as a whole goes
through memory: each program writes its units, and all that share the rows meet before they read. Programs that are
alone with their rows meet only their own threads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from onnxc.compiler.codegen_gpu.kernels.contraction import precision_option
from onnxc.compiler.codegen_gpu.schedules.recurrences import (
    CLEARED,
    COUNTER_BYTES,
    counter_bytes,
    exchange_offsets,
    exchanged,
    recurrence_of,
)
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.scalars import emit_cast, literal, to_memory
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import F32, I32
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import RecurrenceSchedule
from onnxc.compiler.target import Target

ROW, UNIT = 0, 1
"""The dimensions of a tile; of the operands of a product one of them is what is summed."""

MEET = """@triton.jit
def meet(counter, goal):
    tl.debug_barrier()
    seen = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") + 1
    while seen < goal:
        seen = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
    tl.debug_barrier()
"""
"""Returns when programs have come here `goal` times in all; what they wrote before can be read behind it."""

_COUNTER_WORDS = COUNTER_BYTES // I32.itemsize


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a recurrence."""
    schedule = kernel.scheduled(RecurrenceSchedule)
    op = recurrence_of(kernel.block)
    step = _Recurrence(open_kernel(kernel, target, rank=2), op, schedule).emit()
    counts = (*element_counts(kernel), *(() if isinstance(op.dim("trips"), int) else (op.dim("trips"),)))
    if schedule.algorithm == "whole":
        return KernelCode((step,), counts)
    cleared = _clear(open_kernel(kernel, target), counter_bytes(op, schedule.groups) // I32.itemsize)
    return KernelCode((cleared, replace(step, source=replace(step.source, cooperative=True))), counts)


def _clear(frame: KernelFrame, count: int) -> DeviceStep:
    """The launch that sets the counters to 0."""

    def write(e: Evaluator, offset: Int) -> None:
        e.store(literal(frame.b, 0, I32), I32, frame.scratch("counters", I32), offset)

    return frame.flat(count, write, CLEARED).steps[0]


@dataclass
class _Recurrence:
    """The launch of all rounds."""

    frame: KernelFrame
    op: Op
    schedule: RecurrenceSchedule

    def __post_init__(self) -> None:
        self.b, self.tile = self.frame.b, self.schedule.tile
        self.rows, units = self.op.results[0].shape
        assert isinstance(units, int), self.op
        self.units = units
        self.offsets, _ = exchange_offsets(self.op, counter_bytes(self.op, self.schedule.groups))
        self.tiles = floordiv(self.rows + self.tile.rows - 1, self.tile.rows)
        self.groups = minimum(self.tiles, self.schedule.groups) if self.schedule.groups else self.tiles

    def emit(self) -> DeviceStep:
        """The whole kernel: programs of one loop and tile of rows side by side."""
        b, loops, parts = self.b, len(self.op.blocks), self.schedule.parts
        part, team = b.mod(b.program(), parts), b.div(b.program(), parts)
        loop, group = b.mod(team, loops), b.div(team, loops)
        for ordinal, block in enumerate(self.op.blocks):
            if loops == 1:
                self._loop(ordinal, block, part, group)
            else:
                with b.block(f"if {loop} == {ordinal}"):
                    self._loop(ordinal, block, part, group)
        return self.frame.step((self.groups * loops * parts,))

    def _loop(self, ordinal: int, block: Block, part: Int, group: Int) -> None:
        """All tiles of rows of a program, one after another."""
        b, tile = self.b, self.tile
        unit = b.add(b.mul(part, tile.columns), b.lanes(UNIT, tile.columns))
        meeting = self._meeting(ordinal, group)
        with self._tiles(group) as ordinal_of_tile:
            row = b.add(b.mul(ordinal_of_tile, tile.rows), b.lanes(ROW, tile.rows))
            masks = {ROW: b.compare(row, "<", self.frame.size(self.rows))}
            if self.units % tile.columns:
                masks[UNIT] = b.compare(unit, "<", self.units)
            lanes = {ROW: b.lanes(ROW, tile.rows), UNIT: b.lanes(UNIT, tile.columns)}
            plain = self.frame.evaluator(lanes, masks)
            _Rounds(self, ordinal, block, plain, (row, unit), meeting).emit()

    @contextmanager
    def _tiles(self, group: Int) -> Iterator[Int]:
        """Which tiles of rows a program computes: one where there is a program for each."""
        if not self.schedule.groups:
            yield group
            return
        with self.b.loop(group, self.frame.size(self.tiles), self.frame.size(self.groups), prefix="tile") as tile:
            yield tile

    def _meeting(self, ordinal: int, group: Int) -> "_Meeting":
        if self.schedule.algorithm == "whole":
            return _Meeting(self.frame, None, None, 1)
        b = self.b
        offset = b.mul(b.add(b.mul(group, len(self.op.blocks)), ordinal), _COUNTER_WORDS)
        counter = b.let(f"{self.frame.scratch('counters', I32)} + {offset}")
        b.helper(MEET)
        return _Meeting(self.frame, counter, b.variable("tl.full([], 0, tl.int32)"), self.schedule.parts)


@dataclass
class _Meeting:
    """Where programs wait for each other: the counter of those that came, and how many have when all are there."""

    frame: KernelFrame
    counter: Expr | None
    goal: Expr | None
    parts: int

    def emit(self) -> None:
        """All that was written before can be read by all that share the rows."""
        b = self.frame.b
        if self.counter is None or self.goal is None:
            b.line("tl.debug_barrier()")
            return
        b.assign(self.goal, f"{self.goal} + {self.parts}")
        b.line(f"meet({self.counter}, {self.goal})")


@dataclass
class _Rounds:
    """The rounds of one loop for one tile of rows."""

    whole: _Recurrence
    ordinal: int
    block: Block
    plain: Evaluator
    index: tuple[Int, Int]
    meeting: _Meeting

    def emit(self) -> None:
        """The first states, the rounds, and what they leave."""
        op, frame, b = self.whole.op, self.whole.frame, self.whole.b
        count, scans = op.int("carried"), op.int("scans")
        initial = op.operands[self.ordinal * count : (self.ordinal + 1) * count]
        first = self.ordinal * (count + scans)
        states = [self._variable(self.plain.value(value, self.index)) for value in initial]
        with b.loop(0, frame.size(op.dim("trips")), prefix="round") as ordinal:
            made = self._round(states, ordinal)
            for scan, value in enumerate(made[count:]):
                result = op.results[first + count + scan]
                offset = self.plain.strided((ordinal, *self.index), row_major(result.shape))
                self.plain.store(value, result.dtype, frame.output(first + count + scan), offset)
            # All are read before the first is assigned: one may be another's value of the round before.
            given = [self._variable(value) for value in made[:count]]
            for state, value in zip(states, given, strict=True):
                b.assign(state, value.text)
        for index, state in enumerate(states):
            result = op.results[first + index]
            offset = self.plain.strided(self.index, row_major(result.shape))
            self.plain.store(state, result.dtype, frame.output(first + index), offset)

    def _variable(self, value: Expr) -> Expr:
        x = self.plain.everywhere(value)
        return self.whole.b.variable(x.text, x.dims, prefix="state")

    def _round(self, states: Sequence[Expr], ordinal: Expr) -> list[Expr]:
        """What the block of a round gives, at the rows and units of the program."""
        b, block = self.whole.b, self.block
        e = self._evaluator(self.plain.lanes, self.plain.masks)
        e.bound = dict(zip(block.parameters[1 : 1 + len(states)], states, strict=True))
        e.bound[block.parameters[0]] = b.let(f"{ordinal}.to(tl.int64)")
        self.parity = b.mod(ordinal, 2)
        for value in exchanged(block):
            self._give(value, e)
        return [e.value(result, self.index) for result in block.results]

    def _evaluator(self, lanes: Mapping[int, Expr], masks: Mapping[int, Expr]) -> "_CellEvaluator":
        """An evaluator of values of the block, whose captures are values outside of it."""
        count, plain = self.whole.op.int("carried"), self.plain
        captures = self.whole.op.operands[len(self.whole.op.blocks) * count :]
        outside = dict(zip(self.block.parameters[1 + count :], captures, strict=True))
        return _CellEvaluator(
            plain.b, plain.pointers, plain.reports, lanes, masks, outside=outside, product=self._product
        )

    def _pointer_and_offset(self, value: Value) -> tuple[Expr, Int]:
        """The memory through which a value is exchanged in this round."""
        frame, offsets = self.whole.frame, self.whole.offsets
        pointer = frame.scratch(f"exchange{list(offsets).index(value)}", value.dtype, offsets[value])
        rows, units = value.shape
        return pointer, self.whole.b.mul(self.parity, frame.size(rows * units))

    def _give(self, value: Value, e: Evaluator) -> None:
        """Writes the units of this program, and waits for those of the others."""
        pointer, offset = self._pointer_and_offset(value)
        x = e.everywhere(e.value(value, self.index))
        target = self.whole.b.add(offset, e.strided(self.index, row_major(value.shape)))
        e.store(x, value.dtype, pointer, target)
        self.meeting.emit()

    def _product(self, op: Op, column: Int) -> Expr:
        """The product of all units of the rows with the columns of a matrix, summed in f32."""
        b, tile, units = self.whole.b, self.whole.tile, self.whole.units
        rows, matrix = op.operands
        pointer, offset = self._pointer_and_offset(rows)
        start = b.add(offset, b.mul(self.index[0], units))
        total = b.variable(f"tl.zeros([{tile.rows}, {tile.columns}], tl.float32)", frozenset((ROW, UNIT)))
        option = precision_option(self.whole.schedule.arithmetic, rows.dtype)
        with b.loop(0, units, tile.depth, prefix="k") as k:
            across, down = b.add(k, b.lanes(UNIT, tile.depth)), b.add(k, b.lanes(ROW, tile.depth))
            is_whole = units % tile.depth == 0
            known = b.both(self.plain.masks[ROW], None if is_whole else b.compare(across, "<", units))
            # What other programs wrote is not in the first cache of this one's multiprocessor.
            text = f'tl.load({pointer} + {b.add(start, across)}, mask={known}, other=0, cache_modifier=".cg")'
            x = b.let(text, frozenset((ROW, UNIT)))
            y = self._matrix(op, matrix, column, down, {} if is_whole else {ROW: b.compare(down, "<", units)})
            b.assign(total, f"tl.dot({x}, {y}, {total}{option}, out_dtype=tl.float32)")
        return emit_cast(total, F32, op.result.dtype, b)

    def _matrix(self, op: Op, matrix: Value, column: Int, down: Int, masks: Mapping[int, Expr]) -> Expr:
        """A tile of the matrix as it lies in memory, what is summed going down."""
        b, tile = self.whole.b, self.whole.tile
        left, right, result = parse_equation(op.attributes["equation"])
        positions = {left[1]: down, result[1]: column}
        lanes = {ROW: b.lanes(ROW, tile.depth), UNIT: b.lanes(UNIT, tile.columns)}
        own = {dim: mask for dim, mask in self.plain.masks.items() if dim == UNIT}
        e = self._evaluator(lanes, {**own, **masks})
        return to_memory(e.everywhere(e.value(matrix, [positions[letter] for letter in right])), matrix.dtype, b)


@dataclass
class _CellEvaluator(Evaluator):
    """Evaluates values of a cell: a capture is what it stands for, and `product` computes a dot at a column."""

    outside: Mapping[Value, Value] = field(default_factory=dict)
    product: Callable[[Op, Int], Expr] = field(kw_only=True)

    def _emit(self, value: Value, index: tuple[Int, ...]) -> Expr:
        if value in self.outside:
            return self.value(self.outside[value], index)
        if value.op is not None and value.op.name == "dot":
            return self.product(value.op, index[1])
        return super()._emit(value, index)
