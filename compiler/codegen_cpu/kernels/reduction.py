"""Reductions and normalisations: rows are independent, each is passed over once per fold and once for the result.

A composite is decomposed first; what is left is pointwise ops over whole rows, folds of rows, and pointwise ops on what
the folds gave. If the last axis is folded, lanes are columns of one row; if it is kept, or rows are short, lanes are
rows side by side. What a pass has computed waits for the next in the row of the result; in registers where a row has
few vectors, all of whose passes are code without loops.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type, round_register, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.scalars import table_of
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.rows import Rows, identity
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import ReductionSchedule
from onnxc.compiler.target import Target


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a reduction kernel."""
    frame = open_kernel(kernel, name, target)
    rows = _RowLoops(frame, Rows(kernel.block))
    rows.emit()
    frame.f.ret()
    return KernelCode(name, (frame.f,), rows.units, frame.grain(rows.unit_elements))


@dataclass
class _RowLoops:
    """One kernel: the folds of a block, all over the same axes of the same shape."""

    frame: KernelFrame
    rows: Rows
    # What waits in registers, and for which columns.
    held: dict[tuple[Value, Int], Reg] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows, self.schedule = self.rows, self.frame.kernel.scheduled(ReductionSchedule)
        self.folds, self.shape, self.axes, self.kept, self.root = (
            rows.folds, rows.shape, rows.axes, rows.kept, rows.root
        )  # fmt: skip
        self.writes_rows = rows.writes_rows
        self.holds_rows = self.schedule.algorithm == "held"
        self.lanes_are_columns = rows.last_is_folded and self.schedule.algorithm in ("rows", "held")
        self.staged = rows.staged(self.schedule.staged_cost)
        kept_sizes = [self.shape[axis] for axis in self.kept]
        if self.lanes_are_columns:
            self.outer, self.unit_width = tuple(kept_sizes), 1
        else:
            self.outer, self.unit_width = tuple(kept_sizes[:-1]), self.frame.lanes
        self.blocks: Dim = (
            1 if self.lanes_are_columns else floordiv(kept_sizes[-1] + self.frame.lanes - 1, self.frame.lanes)
        )
        self.units = product(self.outer) * self.blocks
        self.length = product(self.shape[axis] for axis in self.axes)
        self.unit_elements = self.length * self.unit_width

    @property
    def columns(self) -> Dim:
        """How many elements of a row, or of a part of it, follow each other."""
        return product(self.shape[axis] for axis in self.axes[-self.rows.merged :])

    # Code

    def emit(self) -> None:
        """The loop over units: a row, or as many rows as there are lanes."""
        frame, f = self.frame, self.frame.f

        def unit(ordinal: Reg) -> None:
            row, block = (ordinal, 0) if self.lanes_are_columns else frame.split(ordinal, (1, self.blocks))
            outer = tuple(Index(coordinate) for coordinate in frame.split(row, self.outer))
            if self.lanes_are_columns:
                self._unit(outer, None)
                return
            start = f.mul(block, frame.lanes)
            left = f.sub(frame.size(self.shape[self.kept[-1]]), start)
            full = f.icmp("sge", left, frame.lanes)
            column = Index(start, 1)
            f.if_(
                full,
                lambda: self._unit((*outer, column), None),
                lambda: self._unit((*outer, column), f.tail_mask(frame.lanes, left)),
            )

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)

    def _unit(self, kept: Sequence[Index], mask: Reg | None) -> None:
        bound: dict[Value, Reg] = {}
        for ordinal, fold in enumerate(self.folds):
            self._bind_constants(fold.operands[0], kept, mask, bound)
            if fold.name == "arg_reduce":
                bound[fold.results[0]] = self._arg_fold(fold, kept, mask, bound)
            else:
                bound[fold.results[0]] = self._fold(ordinal, kept, mask, bound)
        if self.writes_rows:
            self._bind_constants(self.root, kept, mask, bound)
            self._write_row(kept, mask, bound)
        else:
            self._write_fold(kept, mask, bound)

    def _bind_constants(self, root: Value, kept: Sequence[Index], mask: Reg | None, bound: dict[Value, Reg]) -> None:
        """Computes what is one number for each row, such as scales and what comes of folds, before the row itself."""
        lanes = 1 if self.lanes_are_columns else self.frame.lanes
        e = self._evaluator(lanes, mask, bound)
        for value in self.rows.constants(root):
            if value not in bound:
                bound[value] = e.spread(e.value(value, self._index(kept, [Index()] * len(self.axes))))

    def _index(self, kept: Sequence[Index], folded: Sequence[Index]) -> list[Index]:
        positions = dict(zip((*self.kept, *self.axes), (*kept, *folded), strict=True))
        return [positions[axis] for axis in range(len(self.shape))]

    def _evaluator(self, lanes: int, mask: Reg | None, bound: dict[Value, Reg]) -> Evaluator:
        e = self.frame.evaluator(lanes, mask)
        for value, register in bound.items():
            e.bound[value] = register
        return e

    def _element(self, e: Evaluator, value: Value, index: Sequence[Index], ordinal: int) -> Reg:
        """A value of a row in the pass of an ordinal; what waits behind it is stored, what waited before is loaded."""
        before, after = self.staged[ordinal : ordinal + 2] if ordinal < len(self.folds) else (self.staged[-1],) * 2
        if self.holds_rows:
            self._hold(e, before, after, index)
            return e.value(value, index)
        offset = e.strided(index, row_major(self.shape))
        if before is not None:
            e.bound[before] = e.load(before, self.frame.output, offset)
        if after is not None and after is not before:
            x = e.value(after, index)
            e.store(to_memory(x, after.dtype, e.f), self.frame.output, memory_type(after.dtype), offset)
            e.bound[after] = x
        return e.value(value, index)

    def _hold(self, e: Evaluator, before: Value | None, after: Value | None, index: Sequence[Index]) -> None:
        """Gives the evaluator what waited before a pass, and lets wait what is wanted behind it."""
        columns = index[self.axes[-1]].base
        if before is not None:
            e.bound[before] = self.held[before, columns]
        if after is not None and after is not before:
            self.held[after, columns] = e.bound[after] = e.value(after, index)

    def _for_columns(
        self,
        kept: Sequence[Index],
        mask: Reg | None,
        bound: dict[Value, Reg],
        visit: Callable[..., Sequence[Reg]],
        carried: Sequence[Reg],
    ) -> tuple[Reg, ...]:
        """visit(evaluator, index, lane mask, carried) at every place of the folded axes, vectors along the last.

        Where several values are carried, each goes with vectors of its own.
        """
        frame, f = self.frame, self.frame.f
        sizes, merged = [self.shape[axis] for axis in self.axes], self.rows.merged
        outer, last = (sizes[:-merged], self.columns) if self.lanes_are_columns else (sizes, 1)

        def rows(ordinal: Int, *values: Reg) -> Sequence[Reg]:
            before = tuple(Index(coordinate) for coordinate in frame.split(ordinal, tuple(outer)))
            # Of axes that are gone through as one, the last counts for all.
            before += (Index(),) * (len(sizes) - 1 - len(before)) if self.lanes_are_columns else ()
            if not self.lanes_are_columns:
                e = self._evaluator(frame.lanes, mask, bound)
                return visit(e, self._index(kept, before), None, *values)
            return self._columns(kept, before, last, bound, visit, values)

        count = frame.size(product(outer))
        return f.loop(0, count, 1, rows, carried) if self.lanes_are_columns else self._in_turn(count, 1, rows, carried)

    def _in_turn(
        self, stop: Int, step: int, visit: Callable[..., Sequence[Reg]], values: Sequence[Reg]
    ) -> tuple[Reg, ...]:
        """visit(place, value) for the places below `stop`, each with the next of the values."""
        f, count = self.frame.f, len(values)
        if count < 2:
            return f.loop(0, stop, step, visit, values, unroll=self.holds_rows)

        def turn(position: Int, *totals: Reg) -> Sequence[Reg]:
            return [visit(f.add(position, ordinal * step), total)[0] for ordinal, total in enumerate(totals)]

        wide = step * count
        whole = f.mul(f.sdiv(stop, wide), wide)
        first, *others = f.loop(0, whole, wide, turn, values, unroll=self.holds_rows)
        return (*f.loop(whole, stop, step, visit, (first,), unroll=self.holds_rows), *others)

    def _columns(
        self,
        kept: Sequence[Index],
        before: Sequence[Index],
        last: Dim,
        bound: dict[Value, Reg],
        visit: Callable[..., Sequence[Reg]],
        values: Sequence[Reg],
    ) -> Sequence[Reg]:
        frame, f, lanes = self.frame, self.frame.f, self.frame.lanes
        count = frame.size(last)
        whole = f.mul(f.sdiv(count, lanes), lanes)

        def step(column: Int, *carried: Reg) -> Sequence[Reg]:
            e = self._evaluator(lanes, None, bound)
            return visit(e, self._index(kept, (*before, Index(column, 1))), None, *carried)

        values = self._in_turn(whole, lanes, step, values)
        rest = f.sub(count, whole)
        if rest == 0:
            return values

        def tail() -> Sequence[Reg]:
            mask = f.tail_mask(lanes, rest)
            e = self._evaluator(lanes, mask, bound)
            return visit(e, self._index(kept, (*before, Index(whole, 1))), mask, *values[:1])

        return (*f.if_(f.icmp("sgt", rest, 0), tail, lambda: values[:1]), *values[1:])

    def _fold(self, ordinal: int, kept: Sequence[Index], mask: Reg | None, bound: dict[Value, Reg]) -> Reg:
        f, fold = self.frame.f, self.folds[ordinal]
        kind, dtype = fold.text("kind"), fold.operands[0].dtype
        type = vector_type(register_type(dtype), self.frame.lanes)
        start = f.constant(type, identity(kind, dtype))

        step = partial(_more_extreme, kind) if self.rows.may_miss_nan(fold) else partial(combine, kind, dtype)

        def visit(e: Evaluator, index: Sequence[Index], tail: Reg | None, total: Reg) -> Sequence[Reg]:
            x = e.spread(self._element(e, fold.operands[0], index, ordinal))
            combined = step(total, x, f)
            return (combined if tail is None else f.select(tail, combined, total),)

        total, *others = self._for_columns(kept, mask, bound, visit, (start,) * self._accumulators(fold))
        for other in others:
            total = step(total, other, f)
        if self.lanes_are_columns:
            total = _fold_halves(step, total, f)
        return round_register(total, dtype, f) if dtype.is_float else total

    def _accumulators(self, fold: Op) -> int:
        """How many partial folds pay: one where the loop is short, or computing an element takes longer than adding."""
        length, step = (self.columns, self.frame.lanes) if self.lanes_are_columns else (self.length, 1)
        is_short = isinstance(length, int) and length < self.schedule.accumulators * step
        is_costly = not self.holds_rows and self.rows.cost(fold.operands[0]) > self.schedule.staged_cost
        return 1 if is_short or is_costly else self.schedule.accumulators

    def _arg_fold(self, fold: Op, kept: Sequence[Index], mask: Reg | None, bound: dict[Value, Reg]) -> Reg:
        """The position of the extremum; the first NaN is it where there is one, the last where the last is asked for.

        Each lane begins with the first element, and goes on with those of its own, or with the whole of its row.
        """
        frame, f = self.frame, self.frame.f
        lanes, size = frame.lanes, frame.size(self.shape[self.axes[0]])

        def element(position: Index, tail: Reg | None) -> tuple[Reg, Reg]:
            e = self._evaluator(lanes, tail, bound)
            x = e.value(fold.operands[0], self._index(kept, (position,)))
            return e.spread(x), e.spread(e.as_values(position))

        def visit(position: Int, tail: Reg | None, best: Reg, winner: Reg) -> Sequence[Reg]:
            here = Index(position, 1 if self.lanes_are_columns else 0)
            x, there = element(here, tail if self.lanes_are_columns else mask)
            better = self._is_better(fold, x, best)
            better = better if tail is None else f.and_(better, tail)
            return f.select(better, x, best), f.select(better, there, winner)

        def search() -> Sequence[Reg]:
            first = element(Index(0), mask)
            if not self.lanes_are_columns:
                return f.loop(1, size, 1, lambda i, *best: visit(i, None, *best), first)[1:]
            whole = f.mul(f.sdiv(size, lanes), lanes)
            best = f.loop(0, whole, lanes, lambda i, *best: visit(i, None, *best), first)
            rest = f.sub(size, whole)
            last = f.if_(f.icmp("sgt", rest, 0), lambda: visit(whole, f.tail_mask(lanes, rest), *best), lambda: best)
            return (self._best_lane(fold, *last),)

        empty = f.constant(vector_type("i64", 1 if self.lanes_are_columns else lanes), 0)
        return f.if_(f.icmp("sgt", size, 0), search, lambda: (empty,))[0]

    def _best_lane(self, fold: Op, best: Reg, winner: Reg) -> Reg:
        """The position of the extremum of all lanes; of equal ones the first, or the last."""
        f = self.frame.f
        while best.lanes > 1:
            half = best.lanes // 2
            (best, x), (winner, there) = (
                [f.shuffle(vector, None, range(start, start + half)) for start in (0, half)]
                for vector in (best, winner)
            )
            better, worse = self._is_better(fold, x, best), self._is_better(fold, best, x)
            no_worse = f.xor(worse, f.constant(worse.type, 1))
            if fold.flag("last"):
                wins = f.and_(better, f.or_(no_worse, f.icmp("sgt", there, winner)))
            else:
                wins = f.or_(better, f.and_(no_worse, f.icmp("slt", there, winner)))
            best, winner = f.select(wins, x, best), f.select(wins, there, winner)
        return winner

    def _is_better(self, fold: Op, x: Reg, best: Reg) -> Reg:
        f, dtype, last = self.frame.f, fold.operands[0].dtype, fold.flag("last")
        table = table_of(dtype)
        compare = table["less_equal" if last else "less"]
        better = compare(f, dtype, best, x) if fold.text("kind") == "max" else compare(f, dtype, x, best)
        if not dtype.is_float:
            return better
        nan, known = f.fcmp("uno", x, x), f.fcmp("ord", best, best)
        return f.or_(better, nan if last else f.and_(nan, known))

    # Results

    def _write_row(self, kept: Sequence[Index], mask: Reg | None, bound: dict[Value, Reg]) -> None:
        frame = self.frame
        memory = memory_type(self.root.dtype)

        def visit(e: Evaluator, index: Sequence[Index], tail: Reg | None) -> Sequence[Reg]:
            x = self._element(e, self.root, index, len(self.folds))
            offset = e.strided(index, row_major(self.shape))
            e.store(to_memory(x, self.root.dtype, frame.f), frame.output, memory, offset)
            return ()

        self._for_columns(kept, mask, bound, visit, ())

    def _write_fold(self, kept: Sequence[Index], mask: Reg | None, bound: dict[Value, Reg]) -> None:
        """One value per row, under a shape that may have axes of size 1 where the folded ones were."""
        frame = self.frame
        lanes = 1 if self.lanes_are_columns else frame.lanes
        e = self._evaluator(lanes, mask, bound)
        index = list(kept)
        if len(self.root.shape) == len(self.shape):
            index = self._index(kept, [Index()] * len(self.axes))
        x = e.value(self.root, index)
        offset = e.strided(index, row_major(self.root.shape))
        e.store(to_memory(x, self.root.dtype, frame.f), frame.output, memory_type(self.root.dtype), offset)


def combine(kind: str, dtype: DType, a: Reg, b: Reg, f: FunctionBuilder) -> Reg:
    """One step of a fold."""
    names = {"sum": "add", "prod": "mul"}
    return table_of(dtype)[names.get(kind, kind)](f, dtype, a, b)


def fold_lanes(kind: str, dtype: DType, total: Reg, f: FunctionBuilder) -> Reg:
    """All lanes folded pairwise, always in the same order."""
    return _fold_halves(partial(combine, kind, dtype), total, f)


def _fold_halves(step: Callable[[Reg, Reg, FunctionBuilder], Reg], total: Reg, f: FunctionBuilder) -> Reg:
    while total.lanes > 1:
        half = total.lanes // 2
        low, high = (f.shuffle(total, None, range(start, start + half)) for start in (0, half))
        total = step(low, high, f)
    return total


def _more_extreme(kind: str, a: Reg, b: Reg, f: FunctionBuilder) -> Reg:
    """The larger or the smaller one, `a` where one is NaN."""
    return f.select(f.fcmp("ogt" if kind == "max" else "olt", b, a), b, a)
