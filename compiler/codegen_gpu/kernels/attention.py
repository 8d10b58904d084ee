"""Attention: a tile of queries against all keys, tile by tile, with a softmax that is corrected as it goes.

Scores are never in memory. For each query the greatest score so far, the sum of the exponentials and the weighted sum
of the values are carried along the keys; all three in f32. Where there are few queries and many keys, as when tokens
are generated, programs share the keys in slices, all heads of a group in one tile, and a second launch puts together
what the slices gave, always in the same order.
Source: Dao, "FlashAttention-2", ICLR 2024; Dao et al., "Flash-Decoding for long-context inference", 2023.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from onnxc.compiler.codegen_gpu.kernels.contraction import precision_option
from onnxc.compiler.codegen_gpu.schedules.attention import longer_rows
from onnxc.compiler.codegen_gpu.source.arranged_results import offset_in_result
from onnxc.compiler.codegen_gpu.source.element_types import memory_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.scalars import emit_cast, to_memory
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, is_multiple, unravel
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import AttentionSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

ROW, COLUMN = 0, 1
"""The dimensions of a tile."""

LOG2_E = math.log2(math.e)
"""exp(x) = exp2(x * LOG2_E), as the units of a GPU compute it."""


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of an attention kernel."""
    op = next(op for op in kernel.block.ops if op.name == "attention")
    schedule = kernel.scheduled(AttentionSchedule)
    partial, total = (_Attention(open_kernel(kernel, target, rank=2), op, schedule) for _ in range(2))
    if schedule.split == 1:
        return partial.emit()
    offsets = (0, schedule.slice_bytes, 2 * schedule.slice_bytes)
    return KernelCode((partial.emit_partial(offsets), total.emit_total(offsets)), element_counts(kernel))


@record
class _Folded:
    """What is carried along the keys: the greatest score, the sum of weights and the weighted sum of each query."""

    peak: Expr
    weight: Expr
    total: Expr


@dataclass
class _Attention:
    """One launch: a program takes one tile of queries of one head, or of all heads of a group and a slice of keys."""

    frame: KernelFrame
    op: Op
    schedule: AttentionSchedule

    def __post_init__(self) -> None:
        schedule = self.schedule
        self.q, self.k, self.v, *masks = self.op.operands
        self.mask: Value | None = masks[0] if masks else None
        self.batch, heads, self.queries, width = self.q.shape
        groups, self.keys, value_width = self.k.shape[1], self.k.shape[2], self.v.shape[3]
        assert isinstance(width, int), self.q
        assert isinstance(value_width, int), self.v
        assert isinstance(heads, int), self.q
        assert isinstance(groups, int), self.k
        self.width, self.value_width, self.heads, self.groups = width, value_width, heads, groups
        self.heads_of_group = self.heads // self.groups if self.groups else 1
        (self.padded, self.value_padded), self.slices = schedule.widths, schedule.split
        self.tile_queries, self.tile_keys = schedule.tile.rows, schedule.tile.columns

    def emit(self) -> KernelCode:
        """The whole kernel."""
        frame, b = self.frame, self.frame.b
        tiles = floordiv(self.queries + self.tile_queries - 1, self.tile_queries)
        counts: tuple[Dim, ...] = (self.batch, self.heads, tiles)
        batch, head, tile = unravel(b, b.program(), [frame.size(size) for size in counts])
        first = b.mul(tile, self.tile_queries)
        row = b.add(first, b.lanes(ROW, self.tile_queries))
        exists = self._position_mask(row, ROW, self.tile_queries, self.queries)
        q = self._tile(self.q, (batch, head), row, ROW, self.tile_queries, exists, self.padded, self.width)
        stop = seen = frame.size(self.keys)
        if self.op.flag("causal"):
            stop, seen = (b.minimum(stop, b.add(first, rows)) for rows in (self.tile_queries, 1))
        whole = self._whole_stop(0, seen)
        _, weight, total = self._fold_keys(q, (batch, head), row, (0, whole, stop))
        self._write(self._quotient(total, weight), (batch, head), row)
        return frame.code((product(counts),))

    def _fold_keys(
        self, q: Expr, outer: tuple[Int, Int], row: Int, keys: tuple[Int, Int, Int], group: Int | None = None
    ) -> tuple[Expr, Expr, Expr]:
        """The greatest score, the sum of the weights and the weighted sum of the values, for the keys of a range.

        keys: the first, the end of the tiles of which all queries see all, and the end of the rest, in which is asked
        what there is.
        """
        b, (batch, head) = self.frame.b, outer
        tall, square = frozenset((ROW,)), frozenset((ROW, COLUMN))
        shape = f"[{self.tile_queries}, 1]"
        peak = b.variable(f'tl.full({shape}, float("-inf"), tl.float32)', tall)
        weight = b.variable(f"tl.zeros({shape}, tl.float32)", tall)
        total = b.variable(f"tl.zeros([{self.tile_queries}, {self.value_padded}], tl.float32)", square)
        folded = _Folded(peak, weight, total)
        place = (batch, head, b.div(head, self.heads_of_group) if group is None else group)
        first, whole, stop = keys
        for begin, end, is_whole in ((first, whole, True), (whole, stop, False)):
            if begin != end:
                with b.loop(begin, end, self.tile_keys, prefix="key") as start:
                    self._fold_tile(q, place, row, start, folded, is_whole)
        return peak, weight, total

    def _whole_stop(self, first: Int, seen: Int) -> Int:
        """The end of the whole tiles among the keys from `first` on of which all queries see those before `seen`."""
        b, tile = self.frame.b, self.tile_keys
        if not self.op.flag("causal") and is_multiple(self.keys, tile):
            return seen
        return b.add(first, b.mul(b.div(b.sub(seen, first), tile), tile))

    def _fold_tile(
        self, q: Expr, place: tuple[Int, Int, Int], row: Int, start: Expr, folded: "_Folded", is_whole: bool
    ) -> None:
        """Adds a tile of keys to what the tiles before gave."""
        b, (batch, _, group) = self.frame.b, place
        tall, square = frozenset((ROW,)), frozenset((ROW, COLUMN))
        peak, weight, total = folded.peak, folded.weight, folded.total
        scores = self._scores(q, place, row, start, is_whole)
        new = b.let(f"tl.maximum({peak}, tl.max({scores}, 1, keep_dims=True))", tall)
        # A row of which nothing has been seen yet must not subtract infinities.
        finite = b.let(f'tl.where({new} == float("-inf"), 0.0, {new})', tall)
        powers = b.let(self._power(scores, finite), square)
        shrink = b.let(self._power(peak, finite), tall)
        b.assign(weight, f"{weight} * {shrink} + tl.sum({powers}, 1, keep_dims=True)")
        v = self._values((batch, group), start, is_whole)
        b.assign(total, f"{total} * {shrink}")
        narrow = f"{powers}.to({memory_type(self.v.dtype)})"
        b.assign(total, f"tl.dot({narrow}, {v}, {total}{self._precision()}, out_dtype=tl.float32)")
        b.assign(peak, new.text)

    @property
    def _unit(self) -> float:
        """What makes powers of 2 of scores: log2(e), with the scale where scores are products as they are."""
        return LOG2_E * (self.op.float("scale") if self._is_bare else 1.0)

    @property
    def _is_bare(self) -> bool:
        """Whether the scores that are compared are products without their scale, which only enlarges them."""
        return self.mask is None and not self.op.float("softcap") and self.op.float("scale") > 0

    def _power(self, x: Expr, peak: Expr) -> str:
        """The weight of a score beside that of the greatest.

        Of a mask the difference is taken first: it may hold the least float, of which no multiple is a float, and rows
        of nothing else weigh all keys alike.
        """
        if self.mask is None:
            return f"tl.exp2(tl.fma({x}, {self._unit!r}, {peak} * {-self._unit!r}))"
        return f"tl.exp2(({x} - {peak}) * {self._unit!r})"

    def _quotient(self, total: Expr, weight: Expr) -> Expr:
        """The weighted mean; zeros where a query sees nothing."""
        return self.frame.b.let(f"{total} / tl.where({weight} == 0, 1.0, {weight})", frozenset((ROW, COLUMN)))

    # Slices: rows are those of a group, its heads side by side for each query.

    def emit_partial(self, offsets: tuple[Dim, Dim, Dim]) -> DeviceStep:
        """The launch of the slices: greatest scores, sums of weights and weighted sums into the memory at `offsets`."""
        frame, b = self.frame, self.frame.b
        rows = self.queries * self.heads_of_group
        tiles = floordiv(rows + self.tile_queries - 1, self.tile_queries)
        counts: tuple[Dim, ...] = (self.batch, self.groups, tiles, self.slices)
        batch, group, tile, part = unravel(b, b.program(), [frame.size(size) for size in counts])
        row = b.add(b.mul(tile, self.tile_queries), b.lanes(ROW, self.tile_queries))
        query = b.div(row, self.heads_of_group)
        head = b.add(b.mul(group, self.heads_of_group), b.mod(row, self.heads_of_group))
        exists = self._position_mask(query, ROW, self.tile_queries, self.queries)
        q = self._tile(self.q, (batch, head), query, ROW, self.tile_queries, exists, self.padded, self.width)
        length = self.slices * self.tile_keys
        per_slice = frame.size(floordiv(self.keys + length - 1, length) * self.tile_keys)
        first = b.mul(part, per_slice)
        stop = b.minimum(b.add(first, per_slice), frame.size(self.keys))
        keys = (first, self._whole_stop(first, stop), stop)
        peak, weight, total = self._fold_keys(q, (batch, head), query, keys, group)
        inner = b.lanes(COLUMN, self.value_padded)
        e = frame.evaluator({ROW: b.lanes(ROW, self.tile_queries), COLUMN: inner}, exists | self._inner_mask())
        before = b.mul(b.add(b.mul(batch, self.groups), group), frame.size(rows))
        offset = b.add(b.mul(b.add(before, row), self.slices), part)
        peaks, weights, sums = self._memory(offsets)
        e.store(peak, F32, peaks, offset)
        e.store(weight, F32, weights, offset)
        e.store(total, F32, sums, b.add(b.mul(offset, self.value_width), inner))
        return frame.step((product(counts),))

    def emit_total(self, offsets: tuple[Dim, Dim, Dim]) -> DeviceStep:
        """The launch that puts the slices of each row together."""
        frame, b = self.frame, self.frame.b
        tall, square = frozenset((ROW,)), frozenset((ROW, COLUMN))
        tile = frame.joining.tile.rows
        sizes: tuple[Dim, ...] = (self.batch, self.groups, self.queries, self.heads_of_group)
        count = product(sizes)
        row = b.add(b.mul(b.program(), tile), b.lanes(ROW, tile))
        exists = self._position_mask(row, ROW, tile, count)
        inner, part = b.lanes(COLUMN, self.value_padded), b.lanes(COLUMN, self.slices)
        peaks, weights, sums = self._memory(offsets)
        of_slices = frame.evaluator({ROW: b.lanes(ROW, tile), COLUMN: part}, exists)
        first = b.mul(row, self.slices)
        every = of_slices.load(F32, peaks, b.add(first, part))
        peak = b.let(f"tl.max({every}, 1, keep_dims=True)", tall)
        finite = b.let(f'tl.where({peak} == float("-inf"), 0.0, {peak})', tall)
        shares = of_slices.load(F32, weights, b.add(first, part))
        weight = b.let(f"tl.sum({shares} * {self._power(every, finite)}, 1, keep_dims=True)", tall)
        total = b.variable(f"tl.zeros([{tile}, {self.value_padded}], tl.float32)", square)
        with b.loop(0, self.slices, prefix="slice") as ordinal:
            e = frame.evaluator({ROW: b.lanes(ROW, tile), COLUMN: inner}, exists | self._inner_mask())
            offset = b.add(first, ordinal)
            shrink = b.let(self._power(e.load(F32, peaks, offset), finite), tall)
            values = e.load(F32, sums, b.add(b.mul(offset, self.value_width), inner))
            b.assign(total, f"{total} + {values} * {shrink}")
        batch, group, query, within = unravel(b, row, [frame.size(size) for size in sizes])
        head = b.add(b.mul(group, self.heads_of_group), within)
        self._store(self._quotient(total, weight), (batch, head, query), exists, tile)
        return frame.step((floordiv(count + tile - 1, tile),), frame.joining.workers)

    def _memory(self, offsets: tuple[Dim, Dim, Dim]) -> list[Expr]:
        names = ("peaks", "weights", "sums")
        return [self.frame.scratch(name, F32, offset) for name, offset in zip(names, offsets, strict=True)]

    def _inner_mask(self) -> dict[int, Expr]:
        if self.value_padded == self.value_width:
            return {}
        b = self.frame.b
        return {COLUMN: b.compare(b.lanes(COLUMN, self.value_padded), "<", self.value_width)}

    # Tiles

    def _precision(self) -> str:
        return precision_option(self.schedule.arithmetic, self.q.dtype)

    def _tile(
        self,
        value: Value,
        outer: tuple[Int, Int],
        position: Int,
        dim: int,
        count: int,
        exists: Mapping[int, Expr],
        padded: int,
        width: int,
    ) -> Expr:
        """A tile of queries or keys, positions along `dim` and the elements of a head along the other dimension."""
        frame, b = self.frame, self.frame.b
        other = COLUMN if dim == ROW else ROW
        inner, masks = b.lanes(other, padded), dict(exists)
        if padded != width:
            masks[other] = b.compare(inner, "<", width)
        e = frame.evaluator({dim: b.lanes(dim, count), other: inner}, masks)
        # An axis of one element may be none of what is read.
        return e.padded(to_memory(e.value(value, (*outer, position, inner)), value.dtype, b))

    def _position_mask(self, position: Int, dim: int, count: int, size: Dim) -> dict[int, Expr]:
        if isinstance(size, int) and size % count == 0:
            return {}
        return {dim: self.frame.b.compare(position, "<", self.frame.size(size))}

    def _scores(self, q: Expr, outer: tuple[Int, Int, Int], row: Int, start: Expr, is_whole: bool) -> Expr:
        """What decides the weights of one tile of keys; -inf for what is hidden, of which a whole tile has nothing."""
        frame, b = self.frame, self.frame.b
        batch, head, group = outer
        square = frozenset((ROW, COLUMN))
        column = b.add(start, b.lanes(COLUMN, self.tile_keys))
        of_keys = {} if is_whole else self._position_mask(column, COLUMN, self.tile_keys, self.keys)
        k = self._tile(self.k, (batch, group), column, COLUMN, self.tile_keys, of_keys, self.padded, self.width)
        zeros = f"tl.zeros([{self.tile_queries}, {self.tile_keys}], tl.float32)"
        scores = b.let(f"tl.dot({q}, {k}, {zeros}{self._precision()}, out_dtype=tl.float32)", square)
        scale, softcap = self.op.float("scale"), self.op.float("softcap")
        if not self._is_bare:
            scores = b.let(f"{scores} * {scale!r}", square)
        if softcap:
            scores = b.let(f"libdevice.tanh(tl.div_rn({scores}, {softcap!r})) * {softcap!r}", square)
        masks = self._position_mask(row, ROW, self.tile_queries, self.queries) | of_keys
        if self.mask is not None:
            lanes = {ROW: b.lanes(ROW, self.tile_queries), COLUMN: b.lanes(COLUMN, self.tile_keys)}
            e = replace(frame.evaluator(lanes, masks), longer=self._longer_bounds(masks, column))
            index = self._mask_index(e, self.mask, (batch, head, row, column))
            added = emit_cast(e.value(self.mask, index), self.mask.dtype, F32, b)
            # Not a sum alone: a score of infinity, or NaN, of a key that the mask closes would be NaN.
            closed = f'{added} == float("-inf")'
            scores = b.let(f'tl.where({closed}, float("-inf"), {scores} + {added})', square)
        visible = masks.get(COLUMN)
        if self.op.flag("causal") and not is_whole:
            visible = b.both(visible, b.compare(column, "<=", row) if isinstance(row, Expr) else None)
        if visible is None:
            return scores
        return b.let(f'tl.where({visible}, {scores}, float("-inf"))', square)

    def _longer_bounds(self, masks: dict[int, Expr], column: Int) -> Mapping[Value, dict[int, Expr]]:
        """Which places of a tile are read of parts of the mask that have more columns than there are keys."""
        columns = self.schedule.mask_columns
        if COLUMN not in masks or columns == 0:
            return {}
        rows = {dim: mask for dim, mask in masks.items() if dim != COLUMN}
        bounds = rows | self._position_mask(column, COLUMN, self.tile_keys, columns)
        return dict.fromkeys(longer_rows(self.op), bounds)

    def _mask_index(self, e: Evaluator, mask: Value, index: tuple[Int, Int, Int, Int]) -> list[Int]:
        """Where in the mask: an axis of size 1 is repeated, also one of which only a call tells."""
        full = (self.batch, self.heads, self.queries, self.keys)
        return [
            e.repeated(position, size, whole) for position, size, whole in zip(index, mask.shape, full, strict=True)
        ]

    def _values(self, outer: tuple[Int, Int], start: Expr, is_whole: bool) -> Expr:
        b = self.frame.b
        row = b.add(start, b.lanes(ROW, self.tile_keys))
        exists = {} if is_whole else self._position_mask(row, ROW, self.tile_keys, self.keys)
        return self._tile(self.v, outer, row, ROW, self.tile_keys, exists, self.value_padded, self.value_width)

    def _write(self, result: Expr, outer: tuple[Int, Int], row: Int) -> None:
        exists = self._position_mask(row, ROW, self.tile_queries, self.queries)
        self._store(result, (*outer, row), exists, self.tile_queries)

    def _store(self, result: Expr, outer: tuple[Int, Int, Int], exists: dict[int, Expr], tile: int) -> None:
        """Rows of the result, at a sequence, head and query for each."""
        frame, b = self.frame, self.frame.b
        inner = b.lanes(COLUMN, self.value_padded)
        e = frame.evaluator({ROW: b.lanes(ROW, tile), COLUMN: inner}, exists | self._inner_mask())
        e.store(result, frame.root.dtype, frame.output(), offset_in_result(e, frame.root, (*outer, inner)))
