"""Products with weights of few bits: bytes of codes become floats in registers, in the loop along k.

A step of the loop reads one tile of bytes, of which each shift is a run of codes of one block. Codes less their zero
point are multiplied, summed in f32, and the sum of a block is multiplied by its scale once. Tiles go through tensor
cores; lines, of few rows, multiply the tile of a run by each row. Programs that share the sum leave parts, which a
second launch adds up in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.kernels.contraction import (
    emit_total,
    precision_option,
    tile_coordinates,
    write_part,
    write_result,
)
from onnxc.compiler.codegen_gpu.schedules.block_products import block_product_of, codes_of, multiplied
from onnxc.compiler.codegen_gpu.source.element_types import memory_type
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.scalars import to_memory
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, unravel
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.bit_layouts import BYTE
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import known_view
from onnxc.compiler.planning.schedules import BlockProductSchedule
from onnxc.compiler.target import Target

ROW, COLUMN = 0, 1
"""The dimensions of a tile; of codes, the first is the place in a run."""

_WIDE, _SQUARE = frozenset((COLUMN,)), frozenset((ROW, COLUMN))

_FLOAT = memory_type(F32)


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a product with weights of few bits."""
    schedule = kernel.scheduled(BlockProductSchedule)
    product_ = _BlockProduct(open_kernel(kernel, target, rank=2), block_product_of(kernel.block), schedule)
    steps = [product_.emit()]
    if schedule.split > 1:
        steps.append(emit_total(open_kernel(kernel, target), product_.op, schedule.split))
    return KernelCode(tuple(steps), element_counts(kernel))


@dataclass
class _BlockProduct:
    """The launch that multiplies."""

    frame: KernelFrame
    op: Op
    schedule: BlockProductSchedule

    def __post_init__(self) -> None:
        self.x, self.codes, self.tile = multiplied(self.op), codes_of(self.op), self.schedule.tile
        self.rows = product(self.op.operands[0].shape[:-1])
        self.blocks = -(-self.codes.depth // self.codes.block)
        # Runs of one step share scales where blocks are whole steps; where all share them, they come behind the loop.
        self.is_one_block = self.blocks <= 1
        self.is_block_step = self.is_one_block or self.codes.block_runs % self.codes.parts == 0

    def emit(self) -> DeviceStep:
        """The whole launch."""
        frame, b, tile, codes, split = self.frame, self.frame.b, self.tile, self.codes, self.schedule.split
        row_tiles = floordiv(self.rows + tile.rows - 1, tile.rows)
        column_tiles = -(-codes.columns // tile.columns)
        part, ordinal = unravel(b, b.program(), [split, frame.size(row_tiles * column_tiles)])
        row_tile, column_tile = tile_coordinates(b, ordinal, frame.size(row_tiles), column_tiles)
        self.first_row = b.mul(row_tile, tile.rows)
        self.column = b.add(b.mul(column_tile, tile.columns), b.lanes(COLUMN, tile.columns))
        per_part = -(-codes.steps // split)
        first = b.mul(part, per_part)
        steps = first, codes.steps if split == 1 else b.minimum(b.add(first, per_part), codes.steps)
        if self.schedule.algorithm == "lines":
            self._write_lines(self._lines(steps), part)
        else:
            self._write_tile(self._tiles(steps), part)
        return frame.step((product((split, row_tiles, column_tiles)),))

    # Sums

    def _tiles(self, steps: tuple[Int, Int]) -> Expr:
        """The sums of a tile."""
        b, tile = self.frame.b, self.tile
        row = b.add(self.first_row, b.lanes(ROW, tile.rows))
        masks = {} if self._fills_rows() else {ROW: b.compare(row, "<", self.frame.size(self.rows))}
        zeros = f"tl.zeros([{tile.rows}, {tile.columns}], tl.float32)"
        total = b.variable(zeros, _SQUARE)
        narrow = memory_type(self.x.dtype)
        option = precision_option(self.schedule.arithmetic, self.x.dtype)
        with b.loop(*steps, prefix="step") as step:
            bytes_ = self._bytes(step)
            sums: Expr | None = None
            for part in range(self.codes.parts):
                run = self._run(step, part)
                x = to_memory(self._rows_of(row, b.lanes(ROW, tile.rows), masks, run, COLUMN), self.x.dtype, b)
                w = self._weights(bytes_, run, part, narrow)
                if self.is_one_block:
                    b.assign(total, f"tl.dot({x}, {w}, {total}{option}, out_dtype=tl.float32)")
                    continue
                begun = b.let(zeros, _SQUARE) if sums is None or not self.is_block_step else sums
                sums = b.let(f"tl.dot({x}, {w}, {begun}{option}, out_dtype=tl.float32)", _SQUARE)
                if not self.is_block_step or part == self.codes.parts - 1:
                    b.assign(total, f"{total} + {sums} * {self._spread(0, run)}")
        return self._scaled(total)

    def _lines(self, steps: tuple[Int, Int]) -> list[Expr]:
        """The sums of each row, one element for each column."""
        b, tile, codes = self.frame.b, self.tile, self.codes
        shape = f"[{codes.run}, {tile.columns}]"
        totals = [b.variable(f"tl.zeros({shape}, tl.float32)", _SQUARE) for _ in range(tile.rows)]
        # Few programs run at once: while one multiplies, the next steps must be on their way.
        with b.loop(*steps, prefix="step", stages=self.frame.warps.stages) as step:
            bytes_ = self._bytes(step)
            for part in range(codes.parts):
                run = self._run(step, part)
                w = self._weights(bytes_, run, part, _FLOAT)
                if not self.is_one_block:
                    w = b.let(f"{w} * {self._spread(0, run)}", _SQUARE)
                for line, total in enumerate(totals):
                    row = b.add(self.first_row, line)
                    x = self._rows_of(row, None, {}, run, ROW, self._exists(row))
                    b.assign(total, f"{total} + {x} * {w}")
        return [self._scaled(b.let(f"tl.sum({total}, 0, keep_dims=True)", _WIDE)) for total in totals]

    def _scaled(self, total: Expr) -> Expr:
        """Sums of which all codes have one scale are multiplied by it at the end."""
        if not self.is_one_block or not self.blocks:
            return total
        return self.frame.b.let(f"{total} * {self._spread(0, 0)}", total.dims)

    # What is read

    def _run(self, step: Int, part: int) -> Int:
        return self.frame.b.add(self.frame.b.mul(step, self.codes.parts), part)

    def _bytes(self, step: Int) -> Expr:
        """The tile of bytes of a step."""
        b, codes = self.frame.b, self.codes
        lane = b.lanes(ROW, codes.run)
        offset = b.add(b.mul(b.add(b.mul(step, codes.run), lane), codes.width), self.column)
        mask = None if codes.width % self.tile.columns == 0 else b.compare(self.column, "<", codes.width)
        guard = "" if mask is None else f", mask={mask}, other=0"
        buffer = self.frame.input(known_view(self.op.operands[1]).base)
        return b.let(f"tl.load({buffer} + {offset}{guard})", _SQUARE)

    def _weights(self, bytes_: Expr, run: Int, part: int, type: str) -> Expr:
        """The codes of a run less their zero points, in the type that they are multiplied in."""
        b, bits = self.frame.b, self.codes.bits
        left, right = BYTE - bits * (part + 1), BYTE - bits
        shifted = b.let(f"{bytes_} << {left}", _SQUARE) if left else bytes_
        codes = b.let(f"{shifted} >> {right}", _SQUARE) if right else shifted
        if len(self.op.operands) == 3:
            return b.let(f"{codes}.to({type})", _SQUARE)
        weights = b.let(f"{codes}.to(tl.float32) - {self._spread(1, run)}", _SQUARE)
        return weights if type == _FLOAT else b.let(f"{weights}.to({type})", _SQUARE)

    def _spread(self, ordinal: int, run: Int) -> Expr:
        """The scales of the block of a run, or its zero points."""
        b, codes = self.frame.b, self.codes
        block: Int = 0
        if not self.is_one_block:
            block = b.div(run, codes.block_runs)
            if codes.steps * codes.parts > self.blocks * codes.block_runs:
                # The last step has runs of zeros behind the last block.
                block = b.minimum(block, self.blocks - 1)
        offset = b.add(b.mul(block, codes.columns), self.column)
        guard = "" if self._fills_columns() else f", mask={self._has_column()}, other=0"
        buffer = self.frame.input(known_view(self.op.operands[2 + ordinal]).base)
        return b.let(f"tl.load({buffer} + {offset}{guard})", _WIDE)

    def _rows_of(
        self, row: Int, lanes: Expr | None, masks: dict[int, Expr], run: Int, dim: int, wanted: Expr | None = None
    ) -> Expr:
        """The elements of rows that a run of codes meets, along a dimension of the tile; zeros behind their end."""
        b, codes = self.frame.b, self.codes
        lane = b.lanes(dim, codes.run)
        inside: Expr | None = None
        if codes.block % codes.run and not self.is_one_block:
            within = b.add(b.mul(b.mod(run, codes.block_runs), codes.run), lane)
            inside = b.compare(within, "<", codes.block)
            index = b.add(b.mul(b.div(run, codes.block_runs), codes.block), within)
        else:
            index = b.add(b.mul(run, codes.run), lane)
        if inside is not None or codes.depth % (codes.parts * codes.run):
            inside = b.both(inside, b.compare(index, "<", codes.depth))
        every = {dim: lane} | ({} if lanes is None else {ROW: lanes})
        e = self.frame.evaluator(every, masks | ({} if inside is None else {dim: inside})).wanted(wanted)
        return e.everywhere(e.value(self.x, (*self._coordinates(row), index)))

    # What is written

    def _coordinates(self, row: Int) -> Sequence[Int]:
        """Where a row is along the axes before the last one."""
        sizes = [self.frame.size(size) for size in self.op.operands[0].shape[:-1]]
        return unravel(self.frame.b, row, sizes)

    def _write_tile(self, total: Expr, part: Int) -> None:
        b, tile = self.frame.b, self.tile
        lanes = b.lanes(ROW, tile.rows)
        row = b.add(self.first_row, lanes)
        masks = {} if self._fills_rows() else {ROW: b.compare(row, "<", self.frame.size(self.rows))}
        self._write(total, row, part, {ROW: lanes}, masks)

    def _write_lines(self, totals: Sequence[Expr], part: Int) -> None:
        b = self.frame.b
        for line, total in enumerate(totals):
            row = b.add(self.first_row, line)
            exists = self._exists(row)
            if exists is None:
                self._write(total, row, part, {}, {})
                continue
            with b.block(f"if {exists}"):
                self._write(total, row, part, {}, {})

    def _write(self, total: Expr, row: Int, part: Int, lanes: dict[int, Expr], masks: dict[int, Expr]) -> None:
        """Sums to the result, or as a part of them to scratch memory."""
        frame, b = self.frame, self.frame.b
        columns = {} if self._fills_columns() else {COLUMN: self._has_column()}
        e = frame.evaluator(lanes | {COLUMN: b.lanes(COLUMN, self.tile.columns)}, masks | columns)
        index = (*self._coordinates(row), self.column)
        if self.schedule.split > 1:
            write_part(frame, e, self.op, total, index, part)
        else:
            write_result(frame, e, self.op, total, index)

    def _fills_rows(self) -> bool:
        return isinstance(self.rows, int) and self.rows % self.tile.rows == 0

    def _exists(self, row: Int) -> Expr | None:
        """Whether there is a row of lines; None where there always is."""
        return None if self._fills_rows() else self.frame.evaluator().compare(row, "<", self.frame.size(self.rows))

    def _fills_columns(self) -> bool:
        return self.codes.columns % self.tile.columns == 0

    def _has_column(self) -> Expr:
        return self.frame.b.compare(self.column, "<", self.codes.columns)
