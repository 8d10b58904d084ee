"""Attention: a tile of queries against all keys, tile by tile, with a softmax that is corrected as it goes.

Scores are never in memory. For each query the greatest score so far, the sum of the exponentials and the weighted sum
of the values are carried along the keys; all three in f32.
Source: Dao, "FlashAttention-2", ICLR 2024.
"""

from dataclasses import dataclass

from compiler.codegen_gpu.cards import card_of
from compiler.codegen_gpu.element_types import memory_type
from compiler.codegen_gpu.evaluate import Evaluator
from compiler.codegen_gpu.kernel_frame import KernelFrame, open_kernel
from compiler.codegen_gpu.kernel_source import KernelCode
from compiler.codegen_gpu.scalars import emit_cast, to_memory
from compiler.codegen_gpu.source_builder import Expr, Int, power_of_two, unravel
from compiler.ir.dims import Dim, floordiv, product
from compiler.ir.dtypes import BF16, F16, F32, DType
from compiler.ir.module import Op, Value
from compiler.planning.kernel_plan import Kernel
from compiler.planning.views import row_major
from compiler.target import Target

ROW, COLUMN = 0, 1
"""The dimensions of a tile."""

LEAST_SIZE, WIDEST = 16, 256
"""What tensor cores multiply at least; the widest head whose sums stay in registers."""


# Queries, keys and warps of a tile for heads up to a width: the largest found for which registers suffice.
_F32_TILES = ((32, (64, 32, 4)), (64, (32, 32, 4)), (128, (32, 16, 8)), (256, (16, 16, 8)))
_TILES = {
    80: ((64, (64, 64, 4)), (128, (64, 64, 8)), (256, (64, 32, 8))),
    90: ((64, (128, 64, 4)), (128, (128, 64, 8)), (256, (64, 32, 8))),
}


def _tile(dtype: DType, width: int, target: Target) -> tuple[int, int, int]:
    tiles = _F32_TILES if dtype == F32 else _TILES[min(max(_TILES), card_of(target).architecture)]
    return next(tile for most, tile in tiles if width <= most)


def is_native(op: Op) -> bool:
    """Whether the heads are of a known width that fits, in a type that tensor cores multiply."""
    q, _, v, *_ = op.operands
    widths = (q.shape[3], v.shape[3])
    fits = all(isinstance(width, int) and 0 < width <= WIDEST for width in widths)
    return fits and q.dtype in (F32, F16, BF16)


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of an attention kernel."""
    frame = open_kernel(kernel, target, rank=2)
    op = next(op for op in kernel.block.ops if op.name == "attention")
    return _Attention(frame, op).emit()


@dataclass
class _Attention:
    """One kernel: a program takes one tile of queries of one head."""

    frame: KernelFrame
    op: Op

    def __post_init__(self) -> None:
        self.q, self.k, self.v, *masks = self.op.operands
        self.mask: Value | None = masks[0] if masks else None
        self.batch, self.heads, self.queries, width = self.q.shape
        self.groups, self.keys, value_width = self.k.shape[1], self.k.shape[2], self.v.shape[3]
        assert isinstance(width, int), self.q
        assert isinstance(value_width, int), self.v
        assert isinstance(self.heads, int), self.q
        assert isinstance(self.groups, int), self.k
        self.width, self.value_width = width, value_width
        self.padded = max(LEAST_SIZE, power_of_two(width))
        self.value_padded = max(LEAST_SIZE, power_of_two(value_width))
        rows, self.tile_keys, self.warps = _tile(self.q.dtype, max(self.padded, self.value_padded), self.frame.target)
        known = power_of_two(self.queries) if isinstance(self.queries, int) else rows
        self.tile_queries = max(LEAST_SIZE, min(rows, known))

    def emit(self) -> KernelCode:
        """The whole kernel."""
        frame, b = self.frame, self.frame.b
        tiles = floordiv(self.queries + self.tile_queries - 1, self.tile_queries)
        counts: tuple[Dim, ...] = (self.batch, self.heads, tiles)
        batch, head, tile = unravel(b, b.program(), [frame.size(size) for size in counts])
        first = b.mul(tile, self.tile_queries)
        row = b.add(first, b.lanes(ROW, self.tile_queries))
        q = self._tile(self.q, (batch, head), row, ROW, self.tile_queries, self.queries, self.padded, self.width)
        stop = frame.size(self.keys)
        if self.op.flag("causal"):
            stop = b.minimum(stop, b.add(first, self.tile_queries))
        tall, square = frozenset((ROW,)), frozenset((ROW, COLUMN))
        shape = f"[{self.tile_queries}, 1]"
        peak = b.variable(f'tl.full({shape}, float("-inf"), tl.float32)', tall)
        weight = b.variable(f"tl.zeros({shape}, tl.float32)", tall)
        total = b.variable(f"tl.zeros([{self.tile_queries}, {self.value_padded}], tl.float32)", square)
        group = b.div(head, int(str(self.heads)) // int(str(self.groups)))
        with b.loop(0, stop, self.tile_keys, prefix="key") as start:
            scores = self._scores(q, (batch, head, group), row, start)
            new = b.let(f"tl.maximum({peak}, tl.max({scores}, 1, keep_dims=True))", tall)
            # A row of which nothing has been seen yet must not subtract infinities.
            finite = b.let(f'tl.where({new} == float("-inf"), 0.0, {new})', tall)
            powers = b.let(f"tl.exp({scores} - {finite})", square)
            shrink = b.let(f"tl.exp({peak} - {finite})", tall)
            # What weighs the values is what is summed up: rounded alike, so that the weights add up to 1.
            narrow = b.let(f"{powers}.to({memory_type(self.v.dtype)})", square)
            b.assign(weight, f"{weight} * {shrink} + tl.sum({narrow}.to(tl.float32), 1, keep_dims=True)")
            v = self._values((batch, group), start)
            b.assign(total, f"{total} * {shrink}")
            b.assign(total, f"tl.dot({narrow}, {v}, {total}{self._precision()}, out_dtype=tl.float32)")
            b.assign(peak, new.text)
        result = b.let(f"{total} / tl.where({weight} == 0, 1.0, {weight})", square)
        self._write(result, (batch, head), row)
        return frame.code((product(counts),), self.warps, stages=2)

    def _precision(self) -> str:
        chosen = self.frame.kernel.schedule.get("input_precision", "tf32x3")
        return f', input_precision="{chosen}"' if self.q.dtype == F32 else ""

    def _tile(
        self,
        value: Value,
        place: tuple[Int, Int],
        position: Int,
        dim: int,
        count: int,
        size: Dim,
        padded: int,
        width: int,
    ) -> Expr:
        """A tile of queries or keys, positions along `dim` and the elements of a head along the other dimension."""
        frame, b = self.frame, self.frame.b
        other = COLUMN if dim == ROW else ROW
        inner = b.lanes(other, padded)
        masks = self._position_mask(position, dim, count, size)
        if padded != width:
            masks[other] = b.compare(inner, "<", width)
        e = frame.evaluator({dim: b.lanes(dim, count), other: inner}, masks)
        return to_memory(e.value(value, (*place, position, inner)), value.dtype, b)

    def _position_mask(self, position: Int, dim: int, count: int, size: Dim) -> dict[int, Expr]:
        if isinstance(size, int) and size % count == 0:
            return {}
        return {dim: self.frame.b.compare(position, "<", self.frame.size(size))}

    def _scores(self, q: Expr, place: tuple[Int, Int, Int], row: Int, start: Expr) -> Expr:
        """What decides the weights of one tile of keys; -inf for what is hidden."""
        frame, b = self.frame, self.frame.b
        batch, head, group = place
        square = frozenset((ROW, COLUMN))
        column = b.add(start, b.lanes(COLUMN, self.tile_keys))
        k = self._tile(self.k, (batch, group), column, COLUMN, self.tile_keys, self.keys, self.padded, self.width)
        zeros = f"tl.zeros([{self.tile_queries}, {self.tile_keys}], tl.float32)"
        product = b.let(f"tl.dot({q}, {k}, {zeros}{self._precision()}, out_dtype=tl.float32)", square)
        scores = b.let(f"{product} * {self.op.float('scale')!r}", square)
        softcap = self.op.float("softcap")
        if softcap:
            scores = b.let(f"libdevice.tanh(tl.div_rn({scores}, {softcap!r})) * {softcap!r}", square)
        masks = self._position_mask(row, ROW, self.tile_queries, self.queries)
        masks |= self._position_mask(column, COLUMN, self.tile_keys, self.keys)
        if self.mask is not None:
            lanes = {ROW: b.lanes(ROW, self.tile_queries), COLUMN: b.lanes(COLUMN, self.tile_keys)}
            e = frame.evaluator(lanes, masks)
            index = self._mask_index(e, self.mask, (batch, head, row, column))
            added = emit_cast(e.value(self.mask, index), self.mask.dtype, F32, b)
            scores = b.let(f"{scores} + {added}", square)
        visible = masks.get(COLUMN)
        if self.op.flag("causal"):
            visible = b.both(visible, b.compare(column, "<=", row) if isinstance(row, Expr) else None)
        if visible is None:
            return scores
        return b.let(f'tl.where({visible}, {scores}, float("-inf"))', square)

    def _mask_index(self, e: Evaluator, mask: Value, index: tuple[Int, Int, Int, Int]) -> list[Int]:
        """Where in the mask: an axis of size 1 is repeated, also one of which only a call tells."""
        full = (self.batch, self.heads, self.queries, self.keys)
        return [e.repeated(place, size, whole) for place, size, whole in zip(index, mask.shape, full, strict=True)]

    def _values(self, place: tuple[Int, Int], start: Expr) -> Expr:
        b = self.frame.b
        row = b.add(start, b.lanes(ROW, self.tile_keys))
        return self._tile(self.v, place, row, ROW, self.tile_keys, self.keys, self.value_padded, self.value_width)

    def _write(self, result: Expr, place: tuple[Int, Int], row: Int) -> None:
        frame, b = self.frame, self.frame.b
        inner = b.lanes(COLUMN, self.value_padded)
        masks = self._position_mask(row, ROW, self.tile_queries, self.queries)
        if self.value_padded != self.value_width:
            masks[COLUMN] = b.compare(inner, "<", self.value_width)
        e = frame.evaluator({ROW: b.lanes(ROW, self.tile_queries), COLUMN: inner}, masks)
        strides = [e.size(stride) for stride in row_major(frame.root.shape)]
        e.store(result, frame.root.dtype, frame.output(), e.linear((*place, row, inner), strides))
