"""Scatters: nothing is written twice, and updates of one element meet it in their order.

Where there are few updates, every element looks through them for those that name it. Of many that set, the last one of
each row is found by the greatest ordinal, which comes out the same in any order. Others are sorted by their rows, and
each element goes through those of its own row.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_gpu.schedules.radix import RadixSort
from onnxc.compiler.codegen_gpu.schedules.scatters import Updates, radix_of, scatter_of
from onnxc.compiler.codegen_gpu.sorting.radix_passes import radix_steps
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.scalars import table_of
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, dims_of, unravel
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import I32
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import ScatterSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

_COMBINES = {"add": "add", "mul": "mul", "min": "min", "max": "max"}


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a scatter."""
    schedule, updates = kernel.scheduled(ScatterSchedule), Updates(scatter_of(kernel.block))

    def launch() -> _Scatter:
        return _Scatter(open_kernel(kernel, target), updates)

    match schedule.algorithm:
        case "last":
            steps = launch().forget(), launch().find_last(), launch().write_last()
            return KernelCode(steps, element_counts(kernel))
        case "sorted":
            assert schedule.digits is not None, schedule
            radix = radix_of(updates, schedule.digits)
            sort = launch().write_rows(radix), *radix_steps(radix)
            return KernelCode((*sort, launch().mark(radix), launch().apply(radix)), element_counts(kernel))
    return launch().look_through()


@record
class _Scatter:
    """One launch."""

    frame: KernelFrame
    updates: Updates

    @property
    def op(self) -> Op:
        """The scatter."""
        return self.updates.op

    @property
    def block(self) -> int:
        """The elements of a program."""
        return self.frame.kernel.scheduled(ScatterSchedule).block

    # Every element looks through the updates

    def look_through(self) -> KernelCode:
        """The whole kernel where updates are few."""
        op = self.op
        apply = self._apply_along if op.name == "scatter_along" else self._apply_slices

        def write(e: Evaluator, element: Int) -> None:
            index = self._index(element)
            total = self._start(e, index)
            apply(e, index, total)
            e.store(total, self.frame.root.dtype, self.frame.output(), element)

        return self.frame.flat(self.updates.elements, write, self.block)

    def _index(self, element: Int) -> tuple[Int, ...]:
        """The index of an element of the data."""
        return unravel(self.frame.b, element, [self.frame.size(size) for size in self.op.results[0].shape])

    def _start(self, e: Evaluator, index: Sequence[Int]) -> Expr:
        """A variable for an element, which begins as that of the data."""
        start = e.value(self.op.operands[0], index)
        return self.frame.b.variable(e.everywhere(start).text, frozenset(e.lanes))

    def _apply_along(self, e: Evaluator, index: Sequence[Int], total: Expr) -> None:
        """scatter_along: the updates of the element's own line along the axis."""
        b, (data, indices, updates), axis = self.frame.b, self.op.operands, self.op.int("axis")
        # The indices may cover less than the data along the other axes.
        covered: Expr | None = None
        for coordinate, size, whole, other in zip(index, indices.shape, data.shape, range(data.rank), strict=True):
            if other != axis and size != whole:
                covered = b.both(covered, e.compare(coordinate, "<", e.size(size)))
        with b.loop(0, self.frame.size(indices.shape[axis]), prefix="update") as update:
            inner = _within(e, covered)
            source = (*index[:axis], update, *index[axis + 1 :])
            position = inner.position(indices, source, data.shape[axis])
            hit = b.both(covered, inner.compare(position, "==", index[axis]))
            assert hit is not None, self.op
            self._meet(inner, updates, source, hit, total)

    def _apply_slices(self, e: Evaluator, index: Sequence[Int], total: Expr) -> None:
        """scatter_nd: every update whose coordinates are those of the element's slice."""
        b, (data, indices, updates), depth = self.frame.b, self.op.operands, self.updates.depth
        with b.loop(0, self.frame.size(self.updates.count), prefix="update") as update:
            inner = _within(e, None)
            box = self._box(update)
            hit: Expr | None = None
            for axis in range(depth):
                position = inner.position(indices, (*box, axis), data.shape[axis])
                hit = b.both(hit, inner.compare(position, "==", index[axis]))
            self._meet(inner, updates, (*box, *index[depth:]), hit, total)

    def _meet(self, e: Evaluator, updates: Value, source: Sequence[Int], hit: Expr | None, total: Expr) -> None:
        """The update at `source` meets the element where `hit`."""
        kind, dtype, b = self.op.text("kind"), updates.dtype, e.b
        x = e.wanted(hit).value(updates, source)
        met = x if kind == "set" else table_of(dtype)[_COMBINES[kind]](b, dtype, total, x)
        b.assign(total, met.text if hit is None else f"tl.where({hit}, {met}, {total})")
        assert dims_of(met) <= total.dims, self.op

    # Rows

    def _box(self, update: Int) -> tuple[Int, ...]:
        """The index of an update among the updates."""
        return unravel(self.frame.b, update, [self.frame.size(size) for size in self.updates.outer])

    def _row_of(self, e: Evaluator, update: Int) -> Int:
        """The row that an update goes to."""
        (data, indices, _), box, depth = self.op.operands, self._box(update), self.updates.depth
        if self.op.name == "scatter_along":
            axis = self.op.int("axis")
            index = (*box[:axis], e.position(indices, box, data.shape[axis]), *box[axis + 1 :])
        else:
            index = tuple(e.position(indices, (*box, axis), data.shape[axis]) for axis in range(depth))
        return e.spread(e.strided(index, row_major(data.shape[:depth])), dims_of(update))

    def _own_row(self, element: Int) -> Int:
        """The row of an element."""
        b, shape = self.frame.b, self.op.operands[0].shape
        return b.div(element, self.frame.size(product(shape[self.updates.depth :])))

    def _source(self, update: Int, index: Sequence[Int]) -> tuple[Int, ...]:
        """Where in the updates the one is that meets the element at an index."""
        return (*self._box(update), *index[self.updates.depth :])

    # The last update of each row

    def forget(self) -> DeviceStep:
        """The launch after which no row has an update."""
        b, latest = self.frame.b, self._latest()

        def write(e: Evaluator, row: Int) -> None:
            e.store(b.let("tl.full([], -1, tl.int32)"), I32, latest, row)

        return self.frame.flat_step(self.updates.rows, write, self.block)

    def find_last(self) -> DeviceStep:
        """The launch in which each update tells its row; the greatest ordinal stays."""
        b, latest = self.frame.b, self._latest()

        def write(e: Evaluator, update: Int) -> None:
            row = self._row_of(e, update)
            where = self._inside(e, update)
            guard = "" if where is None else f", mask={where}"
            b.line(f'tl.atomic_max({latest} + {row}, {update}{guard}, sem="relaxed")')

        return self.frame.flat_step(self.updates.count, write, self.block)

    def write_last(self) -> DeviceStep:
        """The launch that writes each element: of the last update of its row, or of the data."""
        frame, b, latest = self.frame, self.frame.b, self._latest()

        def write(e: Evaluator, element: Int) -> None:
            index = self._index(element)
            update = e.load(I32, latest, self._own_row(element))
            hit = b.compare(update, ">=", 0)
            x = e.wanted(hit).value(self.op.operands[2], self._source(update, index))
            data = e.value(self.op.operands[0], index)
            result = b.let(f"tl.where({hit}, {x}, {data})", dims_of(hit, x, data))
            e.store(result, frame.root.dtype, frame.output(), element)

        return frame.flat_step(self.updates.elements, write, self.block)

    def _latest(self) -> Expr:
        return self.frame.scratch("latest", I32)

    def _inside(self, e: Evaluator, update: Int) -> Expr | None:
        """The updates that exist and go somewhere: no row is there where an axis of the data is empty."""
        rows, mask = self.updates.rows, e.mask(dims_of(update))
        if isinstance(rows, int):
            assert rows > 0, "a scatter into nothing looks through its updates"
            return mask
        return e.b.both(mask, e.b.compare(self.frame.size(rows), ">", 0))

    # Updates sorted by their rows

    def write_rows(self, radix: RadixSort) -> DeviceStep:
        """The launch that writes the row of each update as its key."""
        frame, b = self.frame, self.frame.b
        keys = frame.scratch("keys", radix.key, radix.keys(0))
        ordinals = frame.scratch("ordinals", I32, radix.ordinals(0))

        def write(e: Evaluator, update: Int) -> None:
            row = self._row_of(e, update)
            e.store(b.let(f"{row} + 0", dims_of(row)), I32, keys, update)
            e.store(b.let(f"{update} + 0", dims_of(update)), I32, ordinals, update)

        return frame.flat_step(self.updates.count, write, self.block)

    def mark(self, radix: RadixSort) -> DeviceStep:
        """The launch that writes for each row where its updates begin; nothing for rows without any."""
        frame, b = self.frame, self.frame.b
        keys, starts = self._sorted_keys(radix), frame.scratch("starts", I32, radix.end)

        def write(e: Evaluator, position: Int) -> None:
            row = e.load(I32, keys, position)
            follows = e.compare(position, ">", 0)
            before = e.wanted(follows).load(I32, keys, b.sub(position, 1))
            first = b.let(f"({follows} == 0) | ({before} != {row})", dims_of(position))
            e.store(
                b.let(f"{position} + 0", dims_of(position)), I32, starts, row, b.both(first, self._inside(e, position))
            )

        return frame.flat_step(self.updates.count, write, self.block)

    def apply(self, radix: RadixSort) -> DeviceStep:
        """The launch in which each element meets the updates of its row, one after another."""
        frame, b = self.frame, self.frame.b
        keys, ordinals = self._sorted_keys(radix), frame.scratch("ordinals", I32, radix.ordinals(radix.digits.count))
        count = frame.size(self.updates.count)

        def write(e: Evaluator, element: Int) -> None:
            index, dims = self._index(element), frozenset(e.lanes)
            total = self._start(e, index)
            row = e.spread(self._own_row(element), dims)
            position, active = self._begin(e, row, radix, keys, count)
            any_active = f"tl.max({active}.to(tl.int32), 0)" if dims else f"{active}.to(tl.int32)"
            more = b.variable(any_active)
            with b.block(f"while {more} != 0"):
                inner = _within(e, active)
                update = inner.load(I32, ordinals, position)
                self._meet(inner, self.op.operands[2], self._source(update, index), active, total)
                b.assign(position, f"{position} + 1")
                b.assign(active, f"{active} & ({position} < {count})")
                following = _within(e, active).load(I32, keys, position)
                b.assign(active, f"{active} & ({following} == {row})")
                b.assign(more, any_active)
            e.store(total, frame.root.dtype, frame.output(), element)

        return frame.flat_step(self.updates.elements, write, self.block)

    def _begin(self, e: Evaluator, row: Int, radix: RadixSort, keys: Expr, count: Int) -> tuple[Expr, Expr]:
        """Variables for where the updates of a row begin, and whether it has any.

        What was never written for a row is any number: only where updates of the row begin is it right.
        """
        b, dims = self.frame.b, dims_of(row)
        start = e.load(I32, self.frame.scratch("starts", I32, radix.end), row)
        inside = b.let(f"({start} >= 0) & ({start} < {count})", dims)
        own = e.wanted(inside).load(I32, keys, start)
        follows = b.let(f"{inside} & ({start} > 0)", dims)
        before = e.wanted(follows).load(I32, keys, b.sub(start, 1))
        begins = f"{inside} & ({own} == {row}) & (({follows} == 0) | ({before} != {row}))"
        mask = e.mask(dims)
        return b.variable(f"{start} + 0", dims), b.variable(begins if mask is None else f"{begins} & {mask}", dims)

    def _sorted_keys(self, radix: RadixSort) -> Expr:
        return self.frame.scratch("keys", radix.key, radix.keys(radix.digits.count))


def _within(e: Evaluator, condition: Expr | None) -> Evaluator:
    """An evaluator for statements of a loop."""
    inner = Evaluator(e.b, e.pointers, e.reports, e.lanes, e.masks)
    return inner if condition is None else inner.wanted(condition)
