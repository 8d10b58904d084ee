"""Contractions: tiles of the result, multiplied by tensor cores along k; the pointwise ops that follow, in registers.

The letters of the equation become four groups: outer (batch, and whatever cannot be merged), m, n, k; rows of m are
gathered where they lie in several strides. A program makes one tile of m by n for one position of the outer letters;
where there are few tiles and k is long, several programs share one and a second launch adds up their parts, always in
the same order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onnxc.compiler.codegen_gpu.schedules.block_copies import BlockSide, block_sides, column_strides
from onnxc.compiler.codegen_gpu.schedules.cards import WARP_THREADS
from onnxc.compiler.codegen_gpu.schedules.elements import accumulator_of
from onnxc.compiler.codegen_gpu.schedules.product_tiles import HALVED_SUMS, products_of, tile_problem
from onnxc.compiler.codegen_gpu.source.arranged_results import computed_value, offset_in_result
from onnxc.compiler.codegen_gpu.source.element_types import MULTIPLIED, register_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.scalars import emit_cast
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, SourceBuilder, is_multiple, unravel
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import F32, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.matrix_products import Problem
from onnxc.compiler.planning.loops.views import View, known_view, row_major
from onnxc.compiler.planning.schedules import Arithmetic, ContractionSchedule, Tile
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

M, N = 0, 1
"""The dimensions of a tile."""

_FIRST: Int = 0

GROUP_WARPS = 4
"""Warps that multiply together."""

GROUP_ROWS = 8
"""Tiles of so many rows are made column by column, so that what they read is still in the cache."""


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a contraction."""
    schedule, problem = kernel.scheduled(ContractionSchedule), tile_problem(kernel.block)
    if schedule.algorithm == "general" or problem is None:
        return _emit_general(open_kernel(kernel, target))
    tiles = _Tiles(open_kernel(kernel, target, rank=2), problem, schedule).emit()
    if schedule.split == 1:
        return KernelCode((tiles,), element_counts(kernel))
    dots = products_of(kernel.block)
    return KernelCode((tiles, emit_totals(open_kernel(kernel, target), dots, schedule.split)), element_counts(kernel))


@record
class _Blocks:
    """Operands that are copied in whole blocks, which fill what is outside of an operand with zeros.

    The first one is multiplied by each of the others; `sides` are that of the first one and of any other.
    """

    descriptors: tuple[Expr, ...]
    sides: tuple[BlockSide, BlockSide]

    def multiply(
        self, b: SourceBuilder, starts: tuple[Int, Int], range: tuple[Int, Int], depth: int, totals: Sequence[Expr]
    ) -> None:
        """Adds the products along a range of k to the sums of a tile of each."""
        (first, *others), (left, right) = self.descriptors, self.sides
        with b.loop(*range, depth, prefix="k") as k:
            text = _block(first, left, starts[0], k)
            x = b.let(text if left.depth_is_dense else f"{text}.T", frozenset((M, N)))
            for other, total in zip(others, totals, strict=True):
                text = _block(other, right, starts[1], k)
                y = b.let(f"{text}.T" if right.depth_is_dense else text, frozenset((M, N)))
                b.assign(total, f"tl.dot({x}, {y}, {total}, out_dtype=tl.float32)")


def _block(descriptor: Expr, side: BlockSide, start: Int, k: Int) -> str:
    """A block of an operand, which begins at `start` and k."""
    return f"{descriptor}.load([{start}, {k}])" if side.depth_is_dense else f"{descriptor}.load([{k}, {start}])"


@dataclass
class _Tiles:
    """One launch of tiles."""

    frame: KernelFrame
    problem: Problem
    schedule: ContractionSchedule

    def __post_init__(self) -> None:
        self.tile, self.parts = self.schedule.tile, self.schedule.split
        self.tiles: tuple[Dim, Dim] = (0, 0)
        self.dots = products_of(self.frame.kernel.block)
        self.columns = [self.problem.b, *(known_view(dot.operands[1]) for dot in self.dots[1:])]

    def emit(self) -> DeviceStep:
        """The whole kernel: a tile for each program, or one after the other."""
        frame, b, problem, tile = self.frame, self.frame.b, self.problem, self.tile
        row_tiles = floordiv(problem.rows + tile.rows - 1, tile.rows)
        column_tiles = floordiv(problem.columns + tile.columns - 1, tile.columns)
        self.tiles = (row_tiles, column_tiles)
        if resident := self.schedule.resident:
            blocks = self._blocks({})
            count, hands_over = row_tiles * column_tiles, self.schedule.hands_over
            options = {"hands_over": True} if hands_over else {"joined": True}
            with b.loop(b.program(), frame.size(count), resident, "tile", **options) as stayed:
                self._emit_tile({}, 0, stayed, blocks)
            # The compiler makes a group of so many warps for the copies, and one for each half of the rows.
            warps = replace(frame.warps, count=GROUP_WARPS) if hands_over else frame.warps
            return frame.step((minimum(count, resident),), warps)
        outer_sizes = [problem.sizes[letter] for letter in problem.outer]
        counts: list[Dim] = [*outer_sizes, self.parts, row_tiles * column_tiles]
        *outer, part, ordinal = unravel(b, b.program(), [frame.size(size) for size in counts])
        coordinates = dict(zip(problem.outer, outer, strict=True))
        self._emit_tile(coordinates, part, ordinal, self._blocks(coordinates) if self.schedule.block_copies else None)
        return frame.step((product(counts),))

    def _emit_tile(self, outer: Mapping[str, Int], part: Int, ordinal: Int, blocks: "_Blocks | None") -> None:
        """One tile of the result for a place along the outer letters, or a part of its sums."""
        frame, b, problem, tile = self.frame, self.frame.b, self.problem, self.tile
        row_tile, column_tile = tile_coordinates(b, ordinal, *(frame.size(size) for size in self.tiles))
        starts = b.mul(row_tile, tile.rows), b.mul(column_tile, tile.columns)
        row = b.add(starts[0], b.lanes(M, tile.rows))
        row_mask = self._mask(row, problem.rows, tile.rows)
        totals = self._multiply(outer, starts, (row, row_mask), part, blocks)
        m_sizes = [frame.size(problem.sizes[letter]) for letter in problem.m]
        letters = parse_equation(problem.dot.attributes["equation"])[2]
        # Axes of size 1 are neither rows nor outer.
        coordinates = dict.fromkeys(letters, _FIRST) | dict(outer)
        coordinates |= dict(zip(problem.m, unravel(b, row, m_sizes), strict=True))
        # What copies has left its registers to those that multiply.
        most = HALVED_SUMS // len(totals)
        columns = [
            [(starts[1], tile.columns, total)]
            if self.schedule.hands_over
            else halves(frame, tile, starts[1], total, most)
            for total in totals
        ]
        if self.schedule.quarters:
            columns = [[half for each in own for half in in_halves(frame, tile.rows, *each)] for own in columns]
        for alike in zip(*columns, strict=True):
            (start, width, _), sums = alike[0], [own for _, _, own in alike]
            column = b.add(start, b.lanes(N, width))
            masks = {M: row_mask, N: self._mask(column, problem.columns, tile.columns)}
            lanes = {M: b.lanes(M, tile.rows), N: b.lanes(N, width)}
            e = frame.evaluator(lanes, {dim: mask for dim, mask in masks.items() if mask is not None})
            coordinates[problem.n] = column
            index = [coordinates[letter] for letter in letters]
            if self.parts == 1:
                write_results(frame, e, dict(zip(self.dots, sums, strict=True)), index)
                continue
            for ordinal, (dot, own) in enumerate(zip(self.dots, sums, strict=True)):
                write_part(frame, e, dot, own, index, b.add(part, ordinal * self.parts))

    def _mask(self, position: Int, size: Dim, tile: int) -> Expr | None:
        if isinstance(size, int) and size % tile == 0:
            return None
        return self.frame.b.compare(position, "<", self.frame.size(size))

    def _multiply(
        self,
        outer: Mapping[str, Int],
        starts: tuple[Int, Int],
        rows: tuple[Int, Expr | None],
        part: Int,
        blocks: "_Blocks | None",
    ) -> list[Expr]:
        """The sums of products along k, as f32 or i32."""
        frame, b, problem, tile = self.frame, self.frame.b, self.problem, self.tile
        dot, depth = problem.dot, problem.depth
        accumulator = F32 if dot.operands[0].dtype.is_float else dot.dtype()
        per_part = floordiv(depth + self.parts * tile.depth - 1, self.parts * tile.depth) * tile.depth
        first = b.mul(part, frame.size(per_part))
        stop = (
            frame.size(depth) if self.parts == 1 else b.minimum(b.add(first, frame.size(per_part)), frame.size(depth))
        )
        shape, type = f"[{tile.rows}, {tile.columns}]", register_type(accumulator)
        totals = [b.variable(f"tl.zeros({shape}, {type})", frozenset((M, N))) for _ in self.dots]
        if blocks is not None:
            blocks.multiply(b, starts, (first, stop), tile.depth, totals)
            return totals
        (row, row_mask), column = rows, b.add(starts[1], b.lanes(N, tile.columns))
        masks = row_mask, self._mask(column, problem.columns, tile.columns)
        is_whole = is_multiple(depth, tile.depth) and (self.parts == 1 or is_multiple(per_part, tile.depth))
        a_k, b_k = b.lanes(N, tile.depth), b.lanes(M, tile.depth)
        b_strides = column_strides(problem, self.schedule.packing is not None)
        a = self._offset(problem.left, outer, problem.a)
        left = self._pointers(problem.a, problem.a_strides, a, (row, problem.m), (b.add(first, a_k), problem.k))
        along = (column, (problem.n,)), (b.add(first, b_k), problem.k)
        rights = [
            self._pointers(view, b_strides, self._offset(1 - problem.left, outer, view), *along)
            for view in self.columns
        ]
        option = precision_option(self.schedule.arithmetic, dot.operands[0].dtype)
        if dot.operands[0].dtype in MULTIPLIED:
            # Tensor cores of sm_90 keep about 14 bits of a sum of 8-bit floats: each tile of depth is added in f32.
            option = f", max_num_imprecise_acc={tile.depth}"
        with b.loop(first, stop, tile.depth, prefix="k") as k:
            inside = None if is_whole else (b.compare(b.add(k, a_k), "<", stop), b.compare(b.add(k, b_k), "<", stop))
            x = self._load(left, masks[M], None if inside is None else inside[0], problem.a.base.dtype)
            for right, total in zip(rights, totals, strict=True):
                y = self._load(right, masks[N], None if inside is None else inside[1], problem.b.base.dtype)
                b.assign(total, f"tl.dot({x}, {y}, {total}{option}, out_dtype={type})")
            for pointers, strides in ((left, problem.a_strides), *((right, b_strides) for right in rights)):
                step = b.mul(frame.size(strides[problem.k[-1]]), tile.depth)
                b.assign(pointers, f"{pointers} + {step}")
        return totals

    def _blocks(self, outer: Mapping[str, Int]) -> "_Blocks":
        """Both operands as the copy engine is told of them, for a place along the outer letters."""
        frame, b, tile = self.frame, self.frame.b, self.tile
        sides = block_sides(self.problem, frame.target, self.schedule.packing is not None)
        assert sides is not None, self.schedule
        descriptors = []
        others = [replace(sides[1], view=view) for view in self.columns]
        operands = (self.problem.left, *[1 - self.problem.left] * len(others))
        counts = (tile.rows, *[tile.columns] * len(others))
        for operand, side, count in zip(operands, (sides[0], *others), counts, strict=True):
            offset = self._offset(operand, outer, side.view)
            size, depth, stride = (frame.size(dim) for dim in (side.size, self.problem.depth, side.stride))
            shape = f"[{size}, {depth}]" if side.depth_is_dense else f"[{depth}, {size}]"
            block = f"[{count}, {tile.depth}]" if side.depth_is_dense else f"[{tile.depth}, {count}]"
            base = f"{frame.input(side.view.base)} + {offset}"
            text = f"tl.make_tensor_descriptor({base}, shape={shape}, strides=[{stride}, 1], block_shape={block})"
            descriptors.append(b.let(text, prefix="d"))
        return _Blocks(tuple(descriptors), sides)

    def _pointers(
        self,
        view: View,
        strides: Mapping[str, Dim],
        offset: Int,
        *positions: tuple[Int, Sequence[str]],
    ) -> Expr:
        """The addresses of the first tile of an operand, as a variable."""
        frame, b = self.frame, self.frame.b
        terms = [offset, *(self._step(position, group, strides) for position, group in positions)]
        # A tile has both dimensions, even where an operand is the same along one of them.
        shape = " + ".join(f"0 * {position}" for position, _ in positions if isinstance(position, Expr))
        buffer = frame.input(view.base).text
        if view.base.dtype in MULTIPLIED:
            buffer = b.let(f"{buffer}.to(tl.pointer_type({MULTIPLIED[view.base.dtype]}))").text
        return b.variable(f"{buffer} + {b.add(*terms)} + {shape}", frozenset((M, N)))

    def _offset(self, operand: int, outer: Mapping[str, Int], view: View) -> Int:
        """Where a view that lies as an operand of the op does begins for a place along the outer letters."""
        frame, b, problem = self.frame, self.frame.b, self.problem
        _, strides, pick = problem.operand(operand)
        terms = [b.mul(coordinate, frame.size(strides[letter])) for letter, coordinate in outer.items()]
        if pick is not None:
            index = [outer.get(letter, 0) for letter in problem.letters(operand)]
            terms.append(b.mul(frame.evaluator().position_of_pick(pick, index), frame.size(pick.step)))
        return b.add(frame.size(view.offset), *terms)

    def _step(self, position: Int, group: Sequence[str], strides: Mapping[str, Dim]) -> Int:
        """How far a place along merged letters is from the first one; gathered rows lie in several strides."""
        frame, b = self.frame, self.frame.b
        if not self.problem.gathers or group != self.problem.m:
            return b.mul(position, frame.size(strides[group[-1]]) if group else 0)
        coordinates = unravel(b, position, [frame.size(self.problem.sizes[letter]) for letter in group])
        steps = (b.mul(own, frame.size(strides[letter])) for own, letter in zip(coordinates, group, strict=True))
        return b.add(*steps)

    def _load(self, pointers: Expr, mask: Expr | None, inside: Expr | None, dtype: DType) -> Expr:
        kept = self.frame.b.both(mask, inside)
        guard = "" if kept is None else f", mask={kept}, other={0.0 if dtype in MULTIPLIED else 0}"
        return self.frame.b.let(f"tl.load({pointers}{guard})", pointers.dims)


def halves(frame: KernelFrame, tile: Tile, start: Int, total: Expr, most: int) -> Sequence[tuple[Int, int, Expr]]:
    """Where columns of a tile begin, how many there are, and their sums.

    In two halves where a thread has `most` sums or more, so that what follows would have no registers.
    """
    if tile.rows * tile.columns < most * frame.warps.count * WARP_THREADS:
        return [(start, tile.columns, total)]
    return in_halves(frame, tile.rows, start, tile.columns, total)


def in_halves(frame: KernelFrame, rows: int, start: Int, columns: int, total: Expr) -> Sequence[tuple[Int, int, Expr]]:
    """Both halves of so many columns: where each begins, how many they are, and their sums."""
    b = frame.b
    width, names = columns // 2, (b.fresh("half"), b.fresh("half"))
    b.line(f"{', '.join(names)} = {total}.reshape([{rows}, 2, {width}]).permute(0, 2, 1).split()")
    return [(b.add(start, width * side), width, Expr(name, total.dims)) for side, name in enumerate(names)]


def tile_coordinates(b: SourceBuilder, ordinal: Int, row_tiles: Int, column_tiles: Int) -> tuple[Int, Int]:
    """Which tile of rows and of columns: a few rows of tiles together, column by column."""
    if row_tiles == 1:
        return 0, ordinal
    if column_tiles == 1:
        return ordinal, 0
    width = b.mul(column_tiles, GROUP_ROWS)
    first = b.mul(b.div(ordinal, width), GROUP_ROWS)
    height, inside = b.minimum(b.sub(row_tiles, first), GROUP_ROWS), b.mod(ordinal, width)
    return b.add(first, b.mod(inside, height)), b.div(inside, height)


def write_result(frame: KernelFrame, e: Evaluator, anchor: Op, total: Expr, index: Sequence[Int]) -> None:
    """The pointwise ops that follow an anchor, on its result in registers, and the way to memory."""
    write_results(frame, e, {anchor: total}, index)


def write_results(frame: KernelFrame, e: Evaluator, totals: Mapping[Op, Expr], index: Sequence[Int]) -> None:
    """The same of what follows several."""
    root = frame.root
    for anchor, total in totals.items():
        value = anchor.results[0]
        accumulated = F32 if value.dtype.is_float else value.dtype
        e.bound[value] = emit_cast(total, accumulated, value.dtype, frame.b) if total.dims else total
    offset = offset_in_result(e, root, index)
    e.store(e.value(computed_value(root), index), root.dtype, frame.output(), offset)


def write_part(frame: KernelFrame, e: Evaluator, anchor: Op, total: Expr, index: Sequence[Int], part: Int) -> None:
    """A part of the sums of a tile, to the memory that the launch reads which adds them up."""
    shape = anchor.results[0].shape
    before = frame.b.mul(part, e.size(product(shape)))
    offset = e.linear(index, [e.size(stride) for stride in row_major(shape)], before)
    e.store(total, F32, frame.scratch("parts", F32), offset)


def emit_total(frame: KernelFrame, anchor: Op, parts: int) -> DeviceStep:
    """The launch that adds up the parts of each element."""
    return emit_totals(frame, (anchor,), parts)


def emit_totals(frame: KernelFrame, anchors: Sequence[Op], parts: int) -> DeviceStep:
    """The same of several results of one shape, the parts of the first of them first."""
    shape = anchors[0].results[0].shape
    count = product(shape)

    def write(e: Evaluator, offset: Int) -> None:
        b = frame.b
        pointer = frame.scratch("parts", F32)
        totals: dict[Op, Expr] = {}
        for ordinal, anchor in enumerate(anchors):
            first = ordinal * parts
            total = e.load(F32, pointer, b.add(offset, b.mul(e.size(count), first)))
            for part in range(first + 1, first + parts):
                other = e.load(F32, pointer, b.add(offset, b.mul(e.size(count), part)))
                total = b.let(f"{total} + {other}", total.dims)
            totals[anchor] = total
        write_results(frame, e, totals, unravel(b, offset, [frame.size(size) for size in shape]))

    joining = frame.joining
    return frame.flat(count, write, joining.tile.columns, joining.workers).steps[0]


def _emit_general(frame: KernelFrame) -> KernelCode:
    """Each lane sums the products of one element: for types, and for shapes, that tensor cores do not take."""
    b, block = frame.b, frame.kernel.block
    dot = next(op for op in block.ops if op.name == "dot")
    left, right, result = parse_equation(dot.attributes["equation"])
    sizes = dict(zip(left + right, dot.operands[0].shape + dot.operands[1].shape, strict=True))
    summed = [letter for letter in dict.fromkeys(left + right) if letter not in result]
    accumulator = accumulator_of(dot)

    def write(e: Evaluator, offset: Int) -> None:
        index = unravel(b, offset, [frame.size(size) for size in dot.results[0].shape])
        known = dict(zip(result, index, strict=True))
        zero = e.spread(0, frozenset(e.lanes))
        total = b.variable(f"{zero} * tl.full([], 0, {register_type(accumulator)})", frozenset(e.lanes))
        with b.loop(0, frame.size(product(sizes[letter] for letter in summed)), prefix="k") as k:
            inner = Evaluator(b, e.pointers, e.reports, e.lanes, e.masks)
            at = known | dict(zip(summed, unravel(b, k, [frame.size(sizes[x]) for x in summed]), strict=True))
            factors = [
                emit_cast(inner.value(operand, [at[x] for x in letters]), operand.dtype, accumulator, b)
                for operand, letters in zip(dot.operands, (left, right), strict=True)
            ]
            b.assign(total, f"{total} + {factors[0]} * {factors[1]}")
        result_type = dot.results[0].dtype
        e.bound[dot.results[0]] = emit_cast(total, accumulator, result_type, b)
        root = frame.root
        e.store(e.value(computed_value(root), index), root.dtype, frame.output(), offset_in_result(e, root, index))

    return frame.flat(product(dot.results[0].shape), write, frame.kernel.scheduled(ContractionSchedule).tile.columns)


def precision_option(arithmetic: Arithmetic, dtype: DType) -> str:
    """What tl.dot is told of the form in which operands are multiplied."""
    return f', input_precision="{arithmetic.operands}"' if dtype == F32 else ""
