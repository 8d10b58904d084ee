"""Folds on a CPU: how rows are gone along, how many at a time, and what is kept of them."""

from collections.abc import Mapping
from dataclasses import replace

from onnxc.compiler.codegen_cpu.schedules.element_threads import TOGETHER_VECTORS, element_threads
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.decompose import decompose_block
from onnxc.compiler.planning.fusion.element_cost import element_cost
from onnxc.compiler.planning.loops.collapse_axes import collapse_axes
from onnxc.compiler.planning.loops.rows import Rows, fold_axes
from onnxc.compiler.planning.schedules import ReductionSchedule, Schedule, Threads, Tile
from onnxc.compiler.target import Target

__all__ = ["STAGED_COST", "finishes_folds", "plain_block", "reduction_schedule"]

LONGEST_SHORT_FOLD = 4
"""Rows up to which a vector takes an element of each of several rows, where the fold of each is one value.

What is longer is gathered. Sums of 65,536 elements in rows of 4, 5 and 8: 5.5, 15.1 and 14.7 us so, and 14.9, 13.1 and
7.1 us row by row; of products of two 10.3, 29.2 and 28.3, and 21.1, 19.0 and 10.2."""

LONGEST_EXTREMA_FOLD = 8
"""The same for sums of functions, and for extrema of one tensor, of which NaN is told apart at the end of a row.

Extrema of differences of two in rows of 4, 5, 6 and 8 took 10.4, 29.7, 29.4 and 28.4 us so, about half of it for each
tensor, and 41.9, 33.4, 27.9 and 18.1 us row by row."""

LONGEST_COSTLY_FOLD = 12
"""The same where a function of the fold is computed, and one tensor is read along the rows.

In rows of 8, 12, 16 and 32, exponentials of norms took 19.5, 17.7, 16.6 and 15.4 us so, and 34.4, 27.7, 18.9 and 10.5;
quantized means 14.7, 15.0, 14.2 and 14.3, and 12.8, 12.4, 7.5 and 4.7; those of products of two tensors 28 each, and
14.7, 13.7, 8.3 and 5.3."""

LONGEST_DEAR_FOLD = 32
"""The same for functions of sums of functions of one tensor, and for positions of extrema, of which more is done for a
row than to add up its lanes.

Logarithms of sums of exponentials of 65,536 elements in rows of 5, 13, 16, 24 and 32: 44, 39, 35, 32 and 29 us so, and
70, 55, 42 and 32 us row by row from 13 on. ArgMax of 8,400 rows of 4, 21, 32 and 64 elements: 13, 101, 162 and 416 us
so; 282, 241, 251 and 330 us row by row."""

FEW_FOLDS = 32
"""Rows up to which functions of what these are folded to are computed one by one: a kernel for them takes as long."""

OPEN_SUM, OPEN_WRITTEN, OPEN_FUNCTIONS, OPEN_SEARCH = 1 / 2, 3 / 8, 3 / 4, 2
"""How many vectors long rows are, of a length that only a call tells, up to which lanes are rows: for sums, rows that
are written, extrema and folds of functions, and positions of extrema.

65,536 f32 in rows of 1, 4, 8, 12 and 16, vectors of 16: sums 21, 18, 17, 16 and 16 us so, and 114, 30, 16, 11 and 7 us
row by row; sums of tanh 33, 29, 28, 28 and 27, and 330, 83, 43, 29 and 18; softmax 99, 89, 86, 85 and 85, and 560, 139,
70, 48 and 25; log-softmax of x * sigmoid(x) 165, 124, 115, 112 and 109, and 2440, 614, 294, 209 and 89; ArgMax of rows
of 1, 8, 16 and 32 7, 18, 17 and 17, and 641, 82, 36 and 22."""

MANY_COLUMNS = 1024
"""What stands for the length of rows that are not short."""

LONGEST_WRITTEN_FOLD = 8
"""Rows up to which registers hold an element of each of several rows, where rows are written."""

ACCUMULATORS = 4
"""Independent partial folds of a row, so that one addition need not wait for the last: its latency in cycles."""

LEAST_TURNS = 4
"""How often searches for an extremum take turns at least, for joining them to pay."""

STAGED_COST = 8
"""A value that costs more simple instructions than this per element, and is wanted in two passes, waits in the row."""

TOGETHER_BYTES = 256
"""How much that lies side by side is read at a step along rows that lie further apart.

On one core with AVX2, sums and maxima of f32[1024, 1024] along axis 0 with 32, 128, 256, 512 bytes: 999, 256, 104,
132 us and 499, 125, 96, 113 us; of f64: 799, 739, 230, 157 us; a softmax along axis 0 4,318, 1,419, 990, 936 us."""

TOGETHER_PART = 2
"""The folds of what goes together fill no more than this part of the registers."""

FEWEST_TOGETHER = 4
"""Fewer units than this side by side are worth less to threads than whole lines of memory."""

HELD_PART = 4
"""A row is held in registers if it fills no more than this part of them; constants and what is computed need others."""

MOST_UNROLLED = 1024
"""The simple instructions that the passes over such a row may take: they are code without loops."""


def plain_block(problem: KernelProblem) -> Block:
    """The block without composites, but for the one that the kernel is named after."""
    return decompose_block(problem.block, lambda op: op.name == problem.kind)


def finishes_folds(anchor: Op, op: Op) -> bool:
    """Whether a kernel that folds rows computes `op` of what a row is folded to, one number, or a few side by side.

    Where rows are long enough for lanes to be their columns, each function is computed for one lane: GELU of means of
    10,752 rows of 28 took 87 us so, and takes 27 in a kernel of its own; of rows of 100 97 and 41, of 500 70 and 67.
    """
    if anchor.name not in ("reduce", "arg_reduce") or element_cost(op) <= STAGED_COST:
        return True
    shape, axes = anchor.operands[0].shape, fold_axes(anchor)
    last = max((axis for axis, size in enumerate(shape) if size != 1), default=0)
    length, count = product(shape[axis] for axis in axes), product(anchor.result.shape)
    longest = LONGEST_DEAR_FOLD if anchor.name == "arg_reduce" else LONGEST_COSTLY_FOLD
    is_short, are_few = (
        isinstance(size, int) and size <= most for size, most in ((length, longest), (count, FEW_FOLDS))
    )
    return last not in axes or is_short or are_few


def reduction_measures(problem: KernelProblem, target: Target) -> Mapping[str, Measure]:
    """The length of rows that only a call tells: short ones, and all others."""
    rows = Rows(collapse_axes(plain_block(problem)))
    length = product(rows.shape[axis] for axis in rows.axes)
    if isinstance(length, int) or not rows.last_is_folded or not _fill_vectors(rows, target):
        return {}
    most = int(_longest_open_fold(rows) * _folding_threads(rows, target).lanes)
    return {"columns": Measure(length, (Typical(most, 0, most), Typical(MANY_COLUMNS)))}


def reduction_schedule(problem: KernelProblem, case: Case, target: Target) -> Schedule:
    """How rows are folded."""
    rows = Rows(collapse_axes(plain_block(problem)))
    threads = _rows_beside(rows, _folding_threads(rows, target))
    is_open_and_short = case.most.get("columns") is not None
    is_short_and_held = _writes_short_rows(rows, threads.lanes, target)
    is_short = is_open_and_short or is_short_and_held or _folds_short_rows(rows, target)
    is_held = is_short_and_held or (not is_short and _holds_rows(rows, target))
    if not is_short and not is_held and _folds_functions(rows, threads.lanes):
        threads = replace(threads, lanes=TOGETHER_VECTORS * threads.lanes)
    return ReductionSchedule(
        algorithm="short" if is_short else "rows",
        tile=Tile(1, _vectors_together(rows, threads.lanes, target) * threads.lanes),
        accumulators=ACCUMULATORS,
        staged_cost=0 if is_held and not is_short else STAGED_COST,
        is_held=is_held,
        least_turns=LEAST_TURNS,
        workers=threads,
    )


def _folds_functions(rows: Rows, lanes: int) -> bool:
    """Whether rows are folded whose elements take long, as functions do, and that have two vectors or more.

    Where only a call tells the length, what is left of a row would take two vectors too: softmax of 3,000 rows of 8 and
    of 56 elements took 77 and 271 us, and 198 and 408 so.
    """
    length = product(rows.shape[axis] for axis in rows.axes[-rows.merged :])
    is_long = isinstance(length, int) and length >= TOGETHER_VECTORS * lanes
    if not rows.last_is_folded or not is_long or rows.folds[0].name == "arg_reduce":
        return False
    is_wide = any(leaf.dtype.bits > F32.bits for leaf in (*(fold.operands[0] for fold in rows.folds), rows.root))
    return not is_wide and any(rows.cost(fold.operands[0]) > STAGED_COST for fold in rows.folds)


def _folding_threads(rows: Rows, target: Target) -> Threads:
    """Threads whose vectors have as many elements as positions of extrema, which are of 64 bits, where these are too.

    Comparisons of two registers would be packed into one, and unpacked again: ArgMax of f64[128, 768] along axis 1 took
    95 us so, and takes 35.
    """
    threads = element_threads(target)
    is_wide = any(fold.name == "arg_reduce" and fold.operands[0].dtype.bits == I64.bits for fold in rows.folds)
    return replace(threads, lanes=target.vector_bits // I64.bits) if is_wide else threads


def _rows_beside(rows: Rows, threads: Threads) -> Threads:
    """Vectors no wider than there are rows side by side, where lanes are these: what is left over takes masks."""
    beside = None if rows.last_is_folded else rows.shape[rows.kept[-1]]
    if not isinstance(beside, int) or not 1 < beside <= threads.lanes // 2:
        return threads
    return replace(threads, lanes=1 << (beside - 1).bit_length())


def _vectors_together(rows: Rows, lanes: int, target: Target) -> int:
    """How many vectors of rows side by side go along their rows together."""
    if rows.last_is_folded:
        return 1
    beside = rows.shape[rows.kept[-1]]
    widest = max(leaf.dtype.itemsize for leaf in (*(fold.operands[0] for fold in rows.folds), rows.root))
    vectors = min(TOGETHER_BYTES // (lanes * widest), target.vector_registers // TOGETHER_PART)
    while vectors > 1 and isinstance(beside, int) and beside < FEWEST_TOGETHER * vectors * lanes:
        vectors //= 2
    return max(vectors, 1)


def _holds_rows(rows: Rows, target: Target) -> bool:
    """Whether rows that are passed over several times are known to be so short that registers hold one."""
    length = product(rows.shape[axis] for axis in rows.axes[-rows.merged :])
    is_one_piece = rows.last_is_folded and rows.merged == len(rows.axes)
    if not (rows.writes_rows and rows.folds and is_one_piece and isinstance(length, int)):
        return False
    vectors = -(-length * max(rows.root.dtype.itemsize, 4) * 8 // target.vector_bits)
    cost = sum(rows.cost(fold.operands[0]) for fold in rows.folds) + rows.cost(rows.root)
    return vectors <= target.vector_registers // HELD_PART and vectors * cost <= MOST_UNROLLED


def _writes_short_rows(rows: Rows, lanes: int, target: Target) -> bool:
    """Whether rows that are written are known to be short, enough of them fill a vector, and registers hold these.

    Softmax of 4,000 rows of 2, 3, 5 and 8 f32: 5, 6, 15 and 21 us so, and 25, 25, 25 and 20 us row by row; its
    logarithm 6, 10, 18 and 25 us, and 51, 152, 153 and 45.
    """
    if not (rows.writes_rows and rows.last_is_folded and len(rows.axes) == 1 and rows.kept):
        return False
    length, count = rows.shape[-1], rows.shape[rows.kept[-1]]
    if not isinstance(length, int) or any(fold.name == "arg_reduce" for fold in rows.folds):
        return False
    vectors = -(-length * lanes * max(rows.root.dtype.itemsize, 4) * 8 // target.vector_bits)
    is_held = vectors <= target.vector_registers // HELD_PART
    return 1 < length <= LONGEST_WRITTEN_FOLD and is_held and (not isinstance(count, int) or count >= lanes)


def _folds_short_rows(rows: Rows, target: Target) -> bool:
    """Whether the folded axes, the last among them, are known to be short, and enough rows fill a vector."""
    length = product(rows.shape[axis] for axis in rows.axes)
    if not rows.last_is_folded or rows.writes_rows or not isinstance(length, int):
        return False
    return 1 < length <= _longest_short_fold(rows) and _fill_vectors(rows, target)


def _fill_vectors(rows: Rows, target: Target) -> bool:
    """Whether there may be enough rows side by side for the lanes of a vector."""
    count = rows.shape[rows.kept[-1]] if rows.kept else 1
    return not isinstance(count, int) or count >= _folding_threads(rows, target).lanes


def _longest_open_fold(rows: Rows) -> float:
    """Up to how long, in vectors, rows of a length that only a call tells are when lanes are rows."""
    first = rows.folds[0]
    if first.name == "arg_reduce":
        return OPEN_SEARCH
    if rows.cost(first.operands[0]) > STAGED_COST:
        return OPEN_FUNCTIONS
    if rows.writes_rows:
        return OPEN_WRITTEN
    return OPEN_SUM if first.text("kind") == "sum" else OPEN_FUNCTIONS


def _longest_short_fold(rows: Rows) -> int:
    """Up to how many elements of each of several rows are taken one after another."""
    last = rows.folds[-1]
    if last.name == "arg_reduce":
        return LONGEST_DEAR_FOLD
    if _tensors_along(rows) > 1:
        return LONGEST_SHORT_FOLD
    is_dear = any(rows.cost(fold.operands[0]) > STAGED_COST for fold in rows.folds)
    if rows.cost(rows.root) > STAGED_COST:
        return LONGEST_DEAR_FOLD if is_dear else LONGEST_COSTLY_FOLD
    return LONGEST_SHORT_FOLD if last.text("kind") == "sum" and not is_dear else LONGEST_EXTREMA_FOLD


def _tensors_along(rows: Rows) -> int:
    """How many parameters the folds read along the folded axes."""
    seen: set[Value] = set()

    def visit(value: Value) -> None:
        op = value.op
        if value in seen or (op is not None and op.name == "broadcast" and not set(op.ints("axes")) & set(rows.axes)):
            return
        seen.add(value)
        for operand in () if op is None else op.operands:
            visit(operand)

    for fold in rows.folds:
        visit(fold.operands[0])
    return sum(value.op is None for value in seen)
