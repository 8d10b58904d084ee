"""Convolutions on a CPU: which have panels, how wide these are, and what keeps them from it."""

from collections.abc import Sequence
from math import prod
from typing import Literal

from onnxc.compiler.codegen_cpu.schedules.elements import ROW_BLOCK, element_threads
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.schedules import (
    Arithmetic,
    ConvolutionSchedule,
    Schedule,
    Threads,
    Tile,
)
from onnxc.compiler.planning.views import View, is_dense
from onnxc.compiler.target import Target

__all__ = [
    "convolution_candidates",
    "reads_view",
    "register_rows",
]

FULL_ROWS = {32: {4: 6, 3: 8, 2: 12, 1: 14}, 16: {4: 2, 3: 4, 2: 6, 1: 8}}
"""How many rows fit the registers beside the vectors of a panel, for 32 and for 16 vector registers."""

FILTERS = 512
"""The most filters in a unit: their tile of 64 pixels takes 128 KiB of the second-level cache."""

WINDOW_DEPTH = 384
"""About how many products of a window are summed per block: a panel of 96 KiB."""

GRAIN_PRODUCTS = 1 << 19
"""Multiplications worth claiming: a few microseconds, against 0.1 us to claim them."""

SPATIAL_RANKS = (1, 2)
"""How many spatial axes the fast convolutions are written for."""


def register_rows(vectors: int, target: Target) -> int:
    """The most rows that are multiplied at once by so many vectors of a panel."""
    return FULL_ROWS[target.vector_registers][vectors]


# Convolutions


def reads_view(anchor: Op, ordinal: int, view: View) -> bool:
    """Whether kernels read an operand as a view: convolutions want theirs dense, all others step through any."""
    return anchor.name != "convolution" or is_dense(view)


def convolution_candidates(problem: KernelProblem, target: Target) -> Sequence[Schedule]:
    """Panels of pixels, or one filter for each channel; for what neither is written for, the general kernel."""
    op = next(op for op in problem.block.ops if op.name == "convolution")
    reason = _no_fast_convolution(op)
    if reason:
        return (_lone(op, "general", target, reason),)
    if op.operands[1].shape[1] == 1 and op.int("groups") > 1:
        return (_lone(op, "depthwise", target, "one filter for each channel"),)
    return (_pixel_panels(op, target),)


def _no_fast_convolution(op: Op) -> str:
    """Why a convolution has neither panels nor a depthwise kernel; nothing where it has one."""
    x, w = op.operands
    dtypes: tuple[DType, ...] = (x.dtype, w.dtype, op.dtype())
    if len(set(dtypes)) > 1 or dtypes[0] not in (F32, F64):
        return f"{dtypes[0]} by {dtypes[1]} to {dtypes[2]}: panels multiply f32 or f64 alone"
    if not all(isinstance(size, int) for size in w.shape) or product(w.shape) == 0:
        return f"the filters are {w.type}"
    if set(op.ints("input_dilations")) - {1}:
        return "the input is dilated"
    ranks = " or ".join(map(str, SPATIAL_RANKS))
    return "" if len(op.ints("strides")) in SPATIAL_RANKS else f"there are not {ranks} spatial axes"


def _pixel_panels(op: Op, target: Target) -> Schedule:
    lanes = target.vector_bits // op.dtype().bits
    filters, channels, *taps = known_sizes(op.operands[1].shape)
    pixels: Dim = product(op.results[0].shape[2:])
    vectors = max(1, min(-(-pixels // lanes), 4)) if isinstance(pixels, int) else 4
    block_channels = max(1, min(channels, WINDOW_DEPTH // prod(taps)))
    return ConvolutionSchedule(
        algorithm="panels",
        tile=Tile(min(filters // op.int("groups"), FILTERS), vectors * lanes, block_channels * prod(taps)),
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        registers=Tile(register_rows(vectors, target), vectors * lanes),
        workers=Threads(lanes, GRAIN_PRODUCTS),
        why="windows are unrolled into panels of pixels, on the way",
    )


def _lone(op: Op, algorithm: Literal["depthwise", "general"], target: Target, why: str) -> Schedule:
    """One element after the other, in vectors along the last axis."""
    threads = element_threads(target)
    if algorithm == "depthwise":
        threads = Threads(target.vector_bits // op.dtype().bits, threads.grain)
    return ConvolutionSchedule(
        algorithm=algorithm,
        tile=Tile(1, ROW_BLOCK),
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        workers=threads,
        why=why,
    )
