"""Attention on a CPU: how many queries are folded at once, over blocks of how many keys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from onnxc.compiler.codegen_cpu.schedules.products import GRAIN_PRODUCTS, register_rows
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.layouts import Batch, PackedPanels, known_sizes
from onnxc.compiler.planning.loops.views import is_dense, operand_view
from onnxc.compiler.planning.schedules import Arithmetic, AttentionSchedule, Packing, Threads, Tile
from onnxc.compiler.target import Target

__all__ = ["attention_candidates", "attention_measures", "is_native"]

PANEL_VECTORS = {32: 4, 16: 3}
"""The vectors of queries of a panel, by the vector registers that there are. 6 heads of 1500 queries and keys, 64 wide,
took 50, 54 and 59 ms with 4, 3 and 2 of 16 lanes; by code for AVX2 on a Zen 5 31.4, 28.3, 29.4 and 39.5 with 4, 3, 2
and 1, and 12 heads of 512 7.3, 6.6, 7.0 and 8.8."""

PANEL_KEYS = 128
"""The keys of a block: its scores with 64 queries are 32 KiB. The same took 46.3, 45.8, 47.4 and 47.4 ms with 64, 128,
256 and 512."""

FEW_QUERIES = 12
"""Up to so many queries go by lines: 12 heads of 9, 12 and 16 with 512 keys took 0.75, 0.96 and 0.98 of the time that
panels took, with 2048 keys 0.74, 0.82 and 1.0; 8 heads, 128 wide, with 512 keys 0.75, 0.95 and 1.08."""

LINE_KEYS = 128
"""The keys of a block of lines, which all rows of a group read from the first-level cache. 8 heads in 2 groups with
2048 keys took 205, 141, 166 and 218 us with 64, 128, 256 and 512; heads without groups take the same time with any."""

LINE_ROWS = 8
"""The rows that share keys and values: 32 heads in 4 groups, 128 wide, took 2.31, 2.18 and 2.03 ms with 4, 8 and 16;
with 16 fewer units are left for threads."""

LINE_VECTORS = 4
"""The most vectors of values that the weights of lines are multiplied by at once: the widest panel that has kernels."""

WIDEST = 512
"""The widest heads: queries, sums and results of a panel take 128 KiB each on the stack. Wider ones are taken apart by
passes/lower/decompose_attention.py."""


def is_native(op: Op) -> bool:
    """Whether the heads are of known widths that fit the stack."""
    q, _, v, *_ = op.operands
    return all(isinstance(width, int) and 0 < width <= WIDEST for width in (q.shape[3], v.shape[3]))


def attention_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """How many queries a head has: few, as when tokens are generated, or many."""
    return {"queries": Measure(_attention(problem).operands[0].shape[2], (Typical(1, 0, FEW_QUERIES), Typical(1024)))}


def attention_candidates(problem: KernelProblem, case: Case, target: Target) -> Sequence[AttentionSchedule]:
    """Lines for few queries, where keys lie along their width; panels for all others."""
    op = _attention(problem)
    keys = operand_view(op.operands[1])
    in_lines = keys is not None and keys.strides[3] == 1
    return (_lines(op, target) if in_lines and case.sizes["queries"] <= FEW_QUERIES else _panels(problem, target),)


def _attention(problem: KernelProblem) -> Op:
    return next(op for op in problem.block.ops if op.name == "attention")


def _panels(problem: KernelProblem, target: Target) -> AttentionSchedule:
    op = _attention(problem)
    lanes, queries = _lanes(op, target), op.operands[0].shape[2]
    vectors = PANEL_VECTORS[target.vector_registers]
    if isinstance(queries, int):
        vectors = max(1, min(vectors, -(-queries // lanes)))
    tile = Tile(vectors * lanes, _block(op, PANEL_KEYS, 1))
    schedule = _schedule(op, "panels", tile, Tile(register_rows(vectors, target), tile.rows), lanes)
    return replace(schedule, packing=_constant_biases(problem, op, tile.rows))


def _constant_biases(problem: KernelProblem, op: Op, width: int) -> Packing | None:
    """Biases that are constants, in panels of so many queries, as the scores lie that they are added to.

    Turned on the way, those of 12 heads, 196 queries and keys took a third of the time of the kernel.
    """
    if len(op.operands) < 4:
        return None
    biases, (queries, keys) = operand_view(op.operands[3]), (each.shape[2] for each in op.operands[:2])
    if biases is None or not is_dense(biases) or biases.base.dtype != _sums(op):
        return None
    parameter, sizes = (
        problem.block.parameters.index(biases.base),
        [size for size in biases.shape if isinstance(size, int)],
    )
    if not problem.is_constant(parameter) or biases.shape[2:] != (queries, keys) or len(sizes) < len(biases.shape):
        return None
    batches = zip(sizes[:2], known_sizes(biases.strides[:2]), strict=True)
    several = tuple(Batch(size, stride) for size, stride in batches if size != 1)
    return Packing(parameter, PackedPanels(width, sizes[3], sizes[2], 1, sizes[3], batches=several))


def _lines(op: Op, target: Target) -> AttentionSchedule:
    lanes, queries = _lanes(op, target), op.operands[0].shape[2]
    heads, groups = known_sizes((op.operands[0].shape[1], op.operands[1].shape[1]))
    rows = max(1, min(LINE_ROWS, queries * heads // groups)) if isinstance(queries, int) else LINE_ROWS
    (value_width,) = known_sizes(op.operands[2].shape[3:])
    vectors = min(LINE_VECTORS, -(-value_width // lanes))
    registers = Tile(register_rows(vectors, target), vectors * lanes)
    return _schedule(op, "lines", Tile(rows, _block(op, LINE_KEYS, lanes)), registers, lanes)


def _schedule(
    op: Op, algorithm: Literal["panels", "lines"], tile: Tile, registers: Tile, lanes: int
) -> AttentionSchedule:
    sums = _sums(op)
    width, value_width = known_sizes((op.operands[0].shape[3], op.operands[2].shape[3]))
    return AttentionSchedule(
        algorithm=algorithm,
        tile=tile,
        widths=(width, value_width),
        arithmetic=Arithmetic(str(sums), sums),
        registers=registers,
        workers=Threads(lanes, GRAIN_PRODUCTS),
    )


def _block(op: Op, most: int, lanes: int) -> int:
    """The keys of a block, whole vectors of them."""
    keys = op.operands[1].shape[2]
    return -(-max(1, min(keys, most)) // lanes) * lanes if isinstance(keys, int) else most


def _sums(op: Op) -> DType:
    return F64 if op.operands[0].dtype == F64 else F32


def _lanes(op: Op, target: Target) -> int:
    return target.vector_bits // _sums(op).bits
