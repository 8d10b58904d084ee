"""Reductions and normalisations: rows are independent, each is passed over once per fold and once for the result.

A composite is decomposed first; what is left is pointwise ops over whole rows, folds of rows, and pointwise ops on what
the folds gave. If the last axis is folded, lanes are columns of one row; if it is kept, or rows are short, lanes are
rows side by side. What a pass has computed waits for the next in the row of the result; in registers where a row has
few vectors, all of whose passes are code without loops.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type, round_register, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.scalars import table_of
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.collapse_axes import collapse_axes
from onnxc.compiler.planning.loops.fold_bounds import FoldBounds, bounds_by_axis, fold_bounds
from onnxc.compiler.planning.loops.rows import Rows, identity
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import ReductionSchedule
from onnxc.compiler.target import Target


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a reduction kernel."""
    frame = open_kernel(replace(kernel, block=collapse_axes(kernel.block)), name, target)
    rows = _RowLoops(frame, Rows(frame.kernel.block))
    rows.emit()
    frame.f.ret()
    return KernelCode(name, (frame.f,), rows.units, frame.grain(rows.unit_elements))


@dataclass
class _Vector:
    """Where a vector of a unit is along the kept axes, which of its lanes count, and what is known for all its rows."""

    kept: Sequence[Index]
    mask: Reg | None = None
    bound: dict[Value, Reg] = field(default_factory=dict)


# A visit of one element of each row of a vector: evaluator, index, lane mask and what is carried.
_Visit = Callable[..., Sequence[Reg]]


@dataclass
class _RowLoops:
    """One kernel: the folds of a block, all over the same axes of the same shape.

    Where lanes are rows side by side, a unit has as many vectors of them as the tile of the schedule is wide. All go
    along their rows together, so that what lies side by side in memory is read once.
    """

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
        self.holds_rows = self.schedule.is_held
        self.lanes_are_columns = rows.last_is_folded and self.schedule.algorithm == "rows"
        self.staged = rows.staged(self.schedule.staged_cost)
        self.bounds = fold_bounds(rows)
        kept_sizes = [self.shape[axis] for axis in self.kept]
        if self.lanes_are_columns:
            self.outer, self.unit_width = tuple(kept_sizes), 1
        else:
            width = self.schedule.tile.columns
            assert isinstance(width, int), width
            self.outer, self.unit_width = tuple(kept_sizes[:-1]), width
        self.blocks: Dim = (
            1 if self.lanes_are_columns else floordiv(kept_sizes[-1] + self.unit_width - 1, self.unit_width)
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
        """The loop over units: a row, or the rows of a tile."""
        frame, f = self.frame, self.frame.f

        def unit(ordinal: Reg) -> None:
            sizes = (product(self.outer), self.blocks)
            row, block = (ordinal, 0) if self.lanes_are_columns else frame.split(ordinal, sizes)
            outer = tuple(Index(coordinate) for coordinate in frame.split(row, self.outer))
            if self.lanes_are_columns:
                self._unit([_Vector(outer)])
            else:
                self._tile(outer, f.mul(block, self.unit_width))

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)

    def _tile(self, outer: Sequence[Index], start: Int) -> None:
        """Rows side by side from `start` on: all vectors of a tile together, at the end of the axis one by one."""
        frame, f = self.frame, self.frame.f
        lanes, width, size = frame.lanes, self.unit_width, self.shape[self.kept[-1]]
        left = f.sub(frame.size(size), start)

        def rows(column: Int, mask: Reg | None = None) -> _Vector:
            return _Vector((*outer, Index(column, 1)), mask)

        def whole() -> None:
            self._unit([rows(f.add(start, offset)) for offset in range(0, width, lanes)])

        def vector(offset: Int) -> None:
            column = f.add(start, offset)
            frame.lanes_left(lanes, f.sub(left, offset), lambda mask: self._unit([rows(column, mask)]))

        if isinstance(size, int) and size % width == 0:
            whole()
        elif width == lanes:
            vector(0)
        else:
            f.if_(f.icmp("sge", left, width), whole, lambda: f.loop(0, left, lanes, vector))

    def _unit(self, vectors: Sequence[_Vector]) -> None:
        for ordinal, fold in enumerate(self.folds):
            self._bind_constants(fold.operands[0], vectors)
            if fold.name == "arg_reduce":
                folded = self._arg_fold(fold, vectors)
            else:
                folded = self._fold(ordinal, vectors)
            for vector, value in zip(vectors, folded, strict=True):
                vector.bound[fold.results[0]] = value
        if self.writes_rows:
            self._bind_constants(self.root, vectors)
            self._write_row(vectors)
        else:
            for vector in vectors:
                self._write_fold(vector)

    def _bind_constants(self, root: Value, vectors: Sequence[_Vector]) -> None:
        """Computes what is one number for each row, such as scales and what comes of folds, before the row itself."""
        for vector in vectors:
            e = self._evaluator(vector, 1 if self.lanes_are_columns else self.frame.lanes, vector.mask)
            for value in self.rows.constants(root):
                if value not in vector.bound:
                    index = self._index(vector, [Index()] * len(self.axes))
                    vector.bound[value] = e.spread(e.value(value, index))

    def _index(self, vector: _Vector, folded: Sequence[Index]) -> list[Index]:
        positions = dict(zip((*self.kept, *self.axes), (*vector.kept, *folded), strict=True))
        return [positions[axis] for axis in range(len(self.shape))]

    def _evaluator(self, vector: _Vector, lanes: int, mask: Reg | None) -> Evaluator:
        e = self.frame.evaluator(lanes, mask)
        for value, register in vector.bound.items():
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

    def _for_columns(self, vectors: Sequence[_Vector], visit: _Visit, carried: Sequence[Reg]) -> tuple[Reg, ...]:
        """visit(evaluator, index, lane mask, carried) at every place of the folded axes, vectors along the last.

        `carried` holds a value for each vector of the unit; where it holds several, each goes with places of its own.
        """
        frame, f = self.frame, self.frame.f
        sizes = [self.shape[axis] for axis in self.axes]
        if self.lanes_are_columns:
            (vector,), outer = vectors, sizes[: -self.rows.merged]

            def parts(ordinal: Int, *values: Reg) -> Sequence[Reg]:
                before = tuple(Index(coordinate) for coordinate in frame.split(ordinal, tuple(outer)))
                # Of axes that are gone through as one, the last counts for all.
                before += (Index(),) * (len(sizes) - 1 - len(before))
                return self._columns(vector, before, visit, values)

            return f.loop(0, frame.size(product(outer)), 1, parts, carried)

        def rows(position: Int, *values: Reg) -> Sequence[Reg]:
            return self._step(vectors, frame.split(position, tuple(sizes)), visit, values)

        return self._in_turn(frame.size(product(sizes)), 1, rows, carried, len(vectors))

    def _step(
        self, vectors: Sequence[_Vector], folded: Sequence[Int], visit: _Visit, values: Sequence[Reg]
    ) -> Sequence[Reg]:
        """The visits of one place of the folded axes, a vector of rows side by side after another."""
        after, before = list[Reg](), None
        for ordinal, vector in enumerate(vectors):
            e = self._evaluator(vector, self.frame.lanes, vector.mask)
            if before is not None:
                e.take_over(before)
            after += visit(e, self._index(vector, tuple(map(Index, folded))), None, *values[ordinal : ordinal + 1])
            before = e
        return after

    def _below_bounds(
        self, bounds: FoldBounds, vectors: Sequence[_Vector], visit: _Visit, carried: Sequence[Reg]
    ) -> tuple[Reg, ...]:
        """As `_for_columns` at the places that count, in a loop for each of the folded axes."""
        frame, f = self.frame, self.frame.f
        by_axis = bounds_by_axis(bounds)
        index = self._index(vectors[0], [Index()] * len(self.axes))

        def stop(axis: int) -> Int:
            size = frame.size(self.shape[axis])
            for bound in by_axis.get(axis, ()):
                # A bound is the same for all lanes, and has 1 element along axes on which it does not depend.
                own = zip(bound.axes, bound.count.shape, strict=True)
                here = [Index() if extent == 1 else index[each] for each, extent in own]
                size = f.smin(size, f.smax(frame.evaluator(1).value(bound.count, here), 0))
            return size

        stops = [stop(axis) for axis in self.axes]

        def along(ordinal: int, folded: tuple[Int, ...], values: Sequence[Reg]) -> Sequence[Reg]:
            if ordinal == len(stops):
                return self._step(vectors, folded, visit, values)
            return f.loop(0, stops[ordinal], 1, lambda i, *held: along(ordinal + 1, (*folded, i), held), values)

        return tuple(along(0, (), carried))

    def _in_turn(
        self, stop: Int, step: int, visit: _Visit, values: Sequence[Reg], together: int = 1
    ) -> tuple[Reg, ...]:
        """visit(place, values) for the places below `stop`, each with the next of the values, so many `together`."""
        f, groups = self.frame.f, len(values) // together
        if groups < 2:
            return f.loop(0, stop, step, visit, values, unroll=self.holds_rows)

        def turn(position: Int, *totals: Reg) -> Sequence[Reg]:
            after: list[Reg] = []
            for group in range(groups):
                mine = totals[group * together :][:together]
                after += visit(f.add(position, group * step), *mine)
            return after

        wide = step * groups
        whole = f.mul(f.sdiv(stop, wide), wide)
        totals = f.loop(0, whole, wide, turn, values, unroll=self.holds_rows)
        first = f.loop(whole, stop, step, visit, totals[:together], unroll=self.holds_rows)
        return (*first, *totals[together:])

    def _columns(self, vector: _Vector, before: Sequence[Index], visit: _Visit, values: Sequence[Reg]) -> Sequence[Reg]:
        frame, f, lanes = self.frame, self.frame.f, self.frame.lanes
        count = frame.size(self.columns)
        whole = f.mul(f.sdiv(count, lanes), lanes)

        def step(column: Int, *carried: Reg) -> Sequence[Reg]:
            e = self._evaluator(vector, lanes, None)
            return visit(e, self._index(vector, (*before, Index(column, 1))), None, *carried)

        values = self._in_turn(whole, lanes, step, values)
        rest = f.sub(count, whole)
        if rest == 0:
            return values

        def tail() -> Sequence[Reg]:
            mask = f.tail_mask(lanes, rest)
            e = self._evaluator(vector, lanes, mask)
            return visit(e, self._index(vector, (*before, Index(whole, 1))), mask, *values[:1])

        return (*f.if_(f.icmp("sgt", rest, 0), tail, lambda: values[:1]), *values[1:])

    def _fold(self, ordinal: int, vectors: Sequence[_Vector]) -> list[Reg]:
        """One number for each lane of each vector, or one for the row whose columns the lanes are."""
        f, fold = self.frame.f, self.folds[ordinal]
        kind, dtype = fold.text("kind"), fold.operands[0].dtype
        type = vector_type(register_type(dtype), self.frame.lanes)
        start = f.constant(type, identity(kind, dtype))

        step = partial(_more_extreme, kind) if self.rows.may_miss_nan(fold) else partial(combine, kind, dtype)

        folded_value = fold.operands[0] if self.bounds is None else self.bounds.value

        def visit(e: Evaluator, index: Sequence[Index], tail: Reg | None, total: Reg) -> Sequence[Reg]:
            x = e.spread(self._element(e, folded_value, index, ordinal))
            if tail is not None and self.holds_rows:
                # Not a choice of what is combined: LLVM would combine the few lanes alone, in a register that waits for
                # the row before. The logarithm of a softmax of f32[2000, 17] took 74 us so, and takes 28.
                return (step(total, f.select(tail, x, start), f),)
            combined = step(total, x, f)
            return (combined if tail is None else f.select(tail, combined, total),)

        together = len(vectors)
        if self.bounds is None:
            totals = self._for_columns(vectors, visit, (start,) * (together * self._accumulators(fold, together)))
        else:
            totals = self._below_bounds(self.bounds, vectors, visit, (start,) * together)
        folded: list[Reg] = []
        for first in range(together):
            total = self._joined(step, totals[first::together])
            if self.lanes_are_columns:
                total = _fold_halves(step, total, f)
            folded.append(round_register(total, dtype, f) if dtype.is_float else total)
        return folded

    def _joined(self, step: Callable[[Reg, Reg, FunctionBuilder], Reg], totals: Sequence[Reg]) -> Reg:
        """What partial folds make together; of rows that only a call knows to be too short for several the first alone.

        Maxima of 3,584 rows of 28 f32 of open sizes took 28.6 us without that, and take 24.
        """
        f, (first, *others) = self.frame.f, totals

        def joined() -> Sequence[Reg]:
            return (reduce(lambda total, other: step(total, other, f), others, first),)

        if not self.lanes_are_columns or isinstance(self.columns, int) or self.rows.merged < len(self.axes):
            return joined()[0]
        several = f.icmp("sge", self.frame.size(self.columns), len(totals) * self.frame.lanes)
        return f.if_(several, joined, lambda: (first,))[0]

    def _accumulators(self, fold: Op, together: int) -> int:
        """How many partial folds pay beside those of vectors that go together.

        One where the loop is short, or computing an element takes longer than adding.
        """
        length, step = (self.columns, self.frame.lanes) if self.lanes_are_columns else (self.length, 1)
        is_short = isinstance(length, int) and length < self.schedule.accumulators * step
        is_costly = not self.holds_rows and self.rows.cost(fold.operands[0]) > self.schedule.staged_cost
        return 1 if is_short or is_costly else max(self.schedule.accumulators // together, 1)

    def _arg_fold(self, fold: Op, vectors: Sequence[_Vector]) -> list[Reg]:
        """The position of the extremum; the first NaN is it where there is one, the last where the last is asked for.

        Each lane begins with the first element, and goes on with those of its own, or with the whole of its row.
        """
        frame, f = self.frame, self.frame.f
        lanes, size = frame.lanes, frame.size(self.shape[self.axes[0]])

        def element(vector: _Vector, position: Index, tail: Reg | None) -> tuple[Reg, Reg]:
            e = self._evaluator(vector, lanes, tail)
            x = e.value(fold.operands[0], self._index(vector, (position,)))
            return e.spread(x), e.spread(e.as_values(position))

        def visit(position: Int, tail: Reg | None, *best: Reg) -> Sequence[Reg]:
            here, after = Index(position, 1 if self.lanes_are_columns else 0), list[Reg]()
            for vector, most, winner in zip(vectors, best[::2], best[1::2], strict=True):
                x, there = element(vector, here, tail if self.lanes_are_columns else vector.mask)
                better = self._is_better(fold, x, most)
                better = better if tail is None else f.and_(better, tail)
                after += (f.select(better, x, most), f.select(better, there, winner))
            return after

        def search() -> Sequence[Reg]:
            first = [register for vector in vectors for register in element(vector, Index(0), vector.mask)]
            if not self.lanes_are_columns:
                return f.loop(1, size, 1, lambda i, *best: visit(i, None, *best), first)[1::2]
            begin, best = self._search_together(fold, size, visit, first)
            whole = f.mul(f.sdiv(size, lanes), lanes)
            best = f.loop(begin, whole, lanes, lambda i, *best: visit(i, None, *best), best)
            rest = f.sub(size, whole)
            most, winner = f.if_(
                f.icmp("sgt", rest, 0), lambda: visit(whole, f.tail_mask(lanes, rest), *best), lambda: best
            )
            return (self._best_lane(fold, most, winner),)

        empty = f.constant(vector_type("i64", 1 if self.lanes_are_columns else lanes), 0)
        return list(f.if_(f.icmp("sgt", size, 0), search, lambda: (empty,) * len(vectors)))

    def _search_together(
        self, fold: Op, size: Int, visit: Callable[..., Sequence[Reg]], first: Sequence[Reg]
    ) -> tuple[Int, Sequence[Reg]]:
        """Where the vectors end that several searches went through in turns, and the best of all of these.

        One search waits for its last comparison: ArgMax of 100,000 f32 took 22 us so, and takes 7; of lines of 100 i32,
        where joining searches takes longer, 10 and 20.
        """
        f, lanes, count = self.frame.f, self.frame.lanes, self._accumulators(fold, 1)
        least = self.schedule.least_turns * count * lanes
        if count == 1 or (isinstance(size, int) and size < least):
            return 0, first

        def turn(start: Int, *best: Reg) -> Sequence[Reg]:
            searches = (visit(f.add(start, k * lanes), None, *best[2 * k : 2 * k + 2]) for k in range(count))
            return [register for search in searches for register in search]

        def together() -> Sequence[Reg]:
            end = f.mul(f.sdiv(size, lanes * count), lanes * count)
            bests = f.loop(0, end, lanes * count, turn, [*first] * count)
            most, winner = bests[:2]
            for x, there in zip(bests[2::2], bests[3::2], strict=True):
                most, winner = self._better_of(fold, (most, winner), (x, there))
            return as_reg(end), most, winner

        if isinstance(size, int):
            end, *best = together()
        else:
            end, *best = f.if_(f.icmp("sge", size, least), together, lambda: (as_reg(0), *first))
        return end, best

    def _best_lane(self, fold: Op, best: Reg, winner: Reg) -> Reg:
        """The position of the extremum of all lanes; of equal ones the first, or the last."""
        f = self.frame.f
        while best.lanes > 1:
            half = best.lanes // 2
            (best, x), (winner, there) = (
                [f.shuffle(vector, None, range(start, start + half)) for start in (0, half)]
                for vector in (best, winner)
            )
            best, winner = self._better_of(fold, (best, winner), (x, there))
        return winner

    def _better_of(self, fold: Op, a: tuple[Reg, Reg], b: tuple[Reg, Reg]) -> tuple[Reg, Reg]:
        """The better of two elements in each lane and its position; of equal ones the first, or the last."""
        f, (best, winner), (x, there) = self.frame.f, a, b
        better, worse = self._is_better(fold, x, best), self._is_better(fold, best, x)
        no_worse = f.xor(worse, f.constant(worse.type, 1))
        if fold.flag("last"):
            wins = f.and_(better, f.or_(no_worse, f.icmp("sgt", there, winner)))
        else:
            wins = f.or_(better, f.and_(no_worse, f.icmp("slt", there, winner)))
        return f.select(wins, x, best), f.select(wins, there, winner)

    def _is_better(self, fold: Op, x: Reg, best: Reg) -> Reg:
        f, dtype, last = self.frame.f, fold.operands[0].dtype, fold.flag("last")
        lower, upper = (best, x) if fold.text("kind") == "max" else (x, best)
        if dtype.is_float and last:
            return f.or_(f.fcmp("ole", lower, upper), f.fcmp("uno", x, x))
        if dtype.is_float:
            # Less, or one of the two is NaN, which is not the best.
            return f.and_(f.fcmp("ult", lower, upper), f.fcmp("ord", best, best))
        return table_of(dtype)["less_equal" if last else "less"](f, dtype, lower, upper)

    # Results

    def _write_row(self, vectors: Sequence[_Vector]) -> None:
        frame = self.frame
        memory = memory_type(self.root.dtype)

        def visit(e: Evaluator, index: Sequence[Index], tail: Reg | None) -> Sequence[Reg]:
            x = self._element(e, self.root, index, len(self.folds))
            offset = e.strided(index, row_major(self.shape))
            e.store(to_memory(x, self.root.dtype, frame.f), frame.output, memory, offset)
            return ()

        self._for_columns(vectors, visit, ())

    def _write_fold(self, vector: _Vector) -> None:
        """One value per row, under a shape that may have axes of size 1 where the folded ones were."""
        frame = self.frame
        lanes = 1 if self.lanes_are_columns else frame.lanes
        e = self._evaluator(vector, lanes, vector.mask)
        index = list(vector.kept)
        if len(self.root.shape) == len(self.shape):
            index = self._index(vector, [Index()] * len(self.axes))
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
