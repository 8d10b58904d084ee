"""Convolutions on a GPU: rows are output pixels, columns output channels, k the taps and channels of the input."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxc.compiler.codegen_gpu.schedules.cost_model import Amount, cost_model
from onnxc.compiler.codegen_gpu.schedules.elements import (
    WINDOW_BLOCK,
    accumulator_of,
    flat_tile,
    joining_of,
    with_smaller_tiles,
)
from onnxc.compiler.codegen_gpu.schedules.product_tiles import (
    TILED_DTYPES,
    WARP_GROUP_ROWS,
    Products,
    arithmetic_of,
    product_seconds,
    samples_of,
    splits,
    typical_size,
)
from onnxc.compiler.codegen_gpu.source.sliding_windows import padding_of
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import BF16, F16, F32, I8, I32, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.layouts import Permuted, known_sizes
from onnxc.compiler.planning.loops.views import operand_view
from onnxc.compiler.planning.schedules import ConvolutionSchedule, Packing, Tile, Warps
from onnxc.compiler.target import Target

__all__ = ["convolution_candidates", "convolution_cost", "convolution_measures", "convolution_sweep"]

TYPICAL_CHANNELS, TYPICAL_PIXELS, TYPICAL_TAPS = 64, 8 * 28 * 28, 9
"""What sizes are taken for that only a call decides."""

MOST_RANGES = 4
"""A network has dozens of convolutions of different sizes: with 4 ranges of pixels resnet50 in 16-bit types is compiled
from 90 sources, with one from 29. One image is the first range, as where latency counts."""

HALF_EMPTY = 1.25
"""What an estimate is multiplied by where more than half of the card has no program, as nothing hides the loads of few.
Not measured; work is divided among more programs where it costs up to so much more."""

LEAST_TILED = 16
"""Groups with fewer filters, or fewer products to sum, would leave most of a tile empty."""

SIDES = (16, 32, 64, 128)

_DEPTHS: dict[DType, tuple[int, ...]] = {F32: (32, 16), F16: (64, 32, 16), BF16: (64, 32, 16), I8: (64, 32)}

LARGEST_TILE, LARGEST_F32_TILE, LARGEST_FLAT_TILE = 128 * 128, 128 * 64, 128 * 64
"""Elements of a tile for which registers suffice: f32 operands are split into parts there, and gathered ones wait."""

LEAST_CHANNELS = 16
"""Below so many channels per group k runs over taps and channels together, as one axis."""

DIRECT_ELEMENTS, DIRECT_CHANNELS, MOST_FILLED = 1024, (8, 16, 32, 64, 128), 1.07
"""Elements of a tile whose lanes sum their own windows, how many of them may be channels, and how many more of these
than there are: 8 elements of each thread are 16 bytes of 16-bit numbers."""

STRIP, MOST_STRIP_TAPS, FEWEST_STRIPS = 4, 9, 1 << 15
"""The neighbouring results of a lane, up to how many taps along them, and from how many strips of an image on."""

STAGE_BYTES = ((8 << 10, 5), (16 << 10, 4))
"""Up to so many bytes of 16-bit numbers in a stage there are so many stages; else, and where f32 waits for tensor
cores rather than for loads, there are 3."""


def convolution_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """The sizes of the products of one group."""
    op = _convolution(problem)
    shape, w = op.results[0].shape, op.operands[1].shape
    axes = parse_dimensions(op.text("dimensions")).result
    pixels = product((shape[axes.batch], *(shape[axis] for axis in axes.spatial)))
    samples = samples_of(pixels)
    usual = Typical(typical_size(pixels, TYPICAL_PIXELS))
    one = samples[0] if samples else 0
    ranges = (Typical(one, 0, one), replace(usual, least=one + 1)) if one >= LEAST_TILED else (usual,)
    return {
        "rows": Measure(pixels, ranges, samples, MOST_RANGES),
        "columns": Measure(floordiv(w[0], op.int("groups")), (Typical(TYPICAL_CHANNELS),)),
        "channels": Measure(w[1], (Typical(TYPICAL_CHANNELS),)),
        "taps": Measure(product(w[2:]), (Typical(TYPICAL_TAPS),)),
    }


def convolution_candidates(
    problem: KernelProblem, case: Case, target: Target, f32_operands: str
) -> Sequence[ConvolutionSchedule]:
    """Tiles on tensor cores where there are channels to sum, else each lane sums its own window."""
    op = _convolution(problem)
    dtype, reason = op.operands[0].dtype, _no_tiles(op)
    if reason:
        return (_direct(problem, op, reason),)
    packing, is_flat = _packing(problem, op, along_k=True), _is_flat(op)
    arithmetic = arithmetic_of(dtype, F32 if dtype.is_float else op.dtype(), f32_operands)
    products = _products(op, case.sizes)
    most_rows = case.sizes["rows"] if case.sweep is None else case.sweep.samples[-1]
    return [
        ConvolutionSchedule(
            algorithm="tiles",
            tile=tile,
            arithmetic=arithmetic,
            workers=warps,
            split=split,
            flat=is_flat,
            packing=packing,
            joining=joining_of(product(op.results[0].shape)) if split > 1 else None,
            shared_bytes=_parts_bytes(op, case, split),
        )
        for tile, warps in _tiles(products, max(1, most_rows), is_flat)
        for split in (splits(products.iterations(tile.depth)) if case.is_bounded else (1,))
    ]


def convolution_cost(problem: KernelProblem, schedule: ConvolutionSchedule, case: Case, target: Target) -> float:
    """The seconds that the launches of tiles take."""
    return float(_seconds(problem, schedule, case.sizes, target))


def convolution_sweep(problem: KernelProblem, schedule: ConvolutionSchedule, case: Case, target: Target) -> np.ndarray:
    """The same for each number of a sweep."""
    assert case.sweep is not None, case
    sizes: Mapping[str, Amount] = {**case.sizes, case.sweep.measure: np.array(case.sweep.samples)}
    return np.asarray(_seconds(problem, schedule, sizes, target))


def _seconds(
    problem: KernelProblem, schedule: ConvolutionSchedule, sizes: Mapping[str, Amount], target: Target
) -> Amount:
    assert isinstance(schedule.workers, Warps), schedule
    products, tile, model = _products(_convolution(problem), sizes), schedule.tile, cost_model(target)
    programs = products.programs(tile, schedule.split)
    seconds = product_seconds(products, tile, schedule.workers, schedule.split, schedule.arithmetic, model)
    return np.where(programs < model.card.sms // 2, HALF_EMPTY, 1.0) * seconds


def _convolution(problem: KernelProblem) -> Op:
    return next(op for op in problem.block.ops if op.name == "convolution")


def _no_tiles(op: Op) -> str:
    """Why tensor cores do not multiply a convolution; nothing where they do."""
    (x, w), pad = op.operands, padding_of(op)
    sums = {I8: (I32,), F32: (F32,), F16: (F16, BF16, F32), BF16: (F16, BF16, F32)}
    if x.dtype != w.dtype or x.dtype not in TILED_DTYPES or op.dtype() not in sums[x.dtype]:
        return f"{x.dtype} by {w.dtype} to {op.dtype()}: tensor cores do not multiply these"
    if operand_view(x if pad is None else pad.operands[0]) is None or operand_view(w) is None:
        return "an operand does not lie in memory"
    filters, depth = floordiv(w.shape[0], op.int("groups")), product(w.shape[1:])
    is_narrow = any(isinstance(size, int) and size < LEAST_TILED for size in (filters, depth))
    return "few channels in each of many groups" if op.int("groups") > 1 and is_narrow else ""


def _direct(problem: KernelProblem, op: Op, why: str) -> ConvolutionSchedule:
    tile, warps = _direct_tile(op)
    sums = accumulator_of(op)
    strip = _strip(op) if tile.rows > 1 else 1
    schedule = ConvolutionSchedule(
        algorithm="direct",
        tile=tile,
        arithmetic=arithmetic_of(sums, sums, "f32"),
        workers=warps,
        unit=Tile(1, strip) if strip > 1 else None,
        packing=_packing(problem, op, along_k=False),
        why=why,
    )
    return with_smaller_tiles(schedule)


def _direct_tile(op: Op) -> tuple[Tile, Warps]:
    """Pixels by channels where these lie last, so that a thread finds its pixel once; else elements in order."""
    shape, labels = op.results[0].shape, parse_dimensions(op.text("dimensions"))
    channels = shape[labels.result.channel]
    if not isinstance(channels, int) or {labels.x.channel, labels.result.channel} != {len(shape) - 1}:
        block, warps = flat_tile(product(shape), WINDOW_BLOCK)
        return Tile(1, block), warps
    # The widest of those of which the last one is not much emptier than that of the narrowest.
    filled = {width: -(-channels // width) * width for width in DIRECT_CHANNELS}
    columns = max(width for width in filled if filled[width] <= MOST_FILLED * min(filled.values()))
    return Tile(DIRECT_ELEMENTS // columns, columns), Warps(4)


def _strip(op: Op) -> int:
    """The neighbouring results of a lane, of maps that are large enough to fill a card with such lanes."""
    labels, w = parse_dimensions(op.text("dimensions")), op.operands[1]
    along, shape = w.shape[labels.w.spatial[-1]], op.results[0].shape
    image = [shape[axis] for axis in labels.result.spatial]
    lanes = evaluate(product((*image, shape[labels.result.channel])), dict.fromkeys(symbols_of(product(image)), 1 << 6))
    is_plain = accumulator_of(op) == F32 and op.ints("input_dilations")[-1] == 1 and w.shape[1] == 1
    is_short = isinstance(along, int) and 1 < along <= MOST_STRIP_TAPS and op.int("groups") == w.shape[0]
    return STRIP if is_plain and is_short and lanes >= STRIP * FEWEST_STRIPS else 1


def _packing(problem: KernelProblem, op: Op, *, along_k: bool) -> Packing | None:
    """Constant weights that nothing else reads, in the order in which the algorithm reads them.

    Products read along k, a filter after the other; lanes of a direct sum are neighbouring filters.
    """
    w, block = op.operands[1], problem.block
    uses = [operand for other in block.ops for operand in other.operands].count(w)
    parameter = block.parameters.index(w) if w in block.parameters else None
    if uses != 1 or parameter is None or not problem.is_constant(parameter):
        return None
    taps = range(2, w.rank)
    return Packing(parameter, Permuted((0, *taps, 1) if along_k else (*taps, 1, 0), known_sizes(w.shape)))


def _is_flat(op: Op) -> bool:
    """Whether k is one axis of taps and channels; else no iteration has channels of two taps."""
    channels = op.operands[1].shape[1]
    return isinstance(channels, int) and channels < LEAST_CHANNELS


def _parts_bytes(op: Op, case: Case, split: int) -> Dim:
    """What the programs that share a tile leave for the launch that adds it up."""
    if split == 1:
        return 0
    elements, most = op.results[0].tensor.elements, case.most["rows"]
    return split * F32.itemsize * (elements if most is None else minimum(elements, most * op.operands[1].shape[0]))


def _products(op: Op, sizes: Mapping[str, Amount]) -> Products:
    """The products; windows overlap, so that an element of the input is read about once for each pixel."""
    m = np.maximum(1, sizes["rows"])
    n, channels, taps = (max(1, int(sizes[name])) for name in ("columns", "channels", "taps"))
    groups, dtype = op.int("groups"), op.operands[0].dtype
    operand_bytes = groups * (m * channels + taps * channels * n) * dtype.itemsize
    segments, depth = (1, taps * channels) if _is_flat(op) else (taps, channels)
    return Products(groups, m, n, segments, depth, operand_bytes, dtype)


def _tiles(products: Products, most_rows: int, is_flat: bool) -> Iterator[tuple[Tile, Warps]]:
    """The tiles that fit registers, none twice as large as the result."""
    dtype = products.dtype
    largest = LARGEST_FLAT_TILE if is_flat else LARGEST_F32_TILE if dtype == F32 else LARGEST_TILE
    for rows in SIDES:
        for columns in SIDES:
            size = rows * columns
            if size > largest or rows >= max(2 * most_rows, 32) or columns >= max(2 * products.columns, 32):
                continue
            for depth in _depths(products):
                stage = (rows + columns) * depth * dtype.itemsize
                stages = next((count for most, count in STAGE_BYTES if stage <= most and dtype != F32), 3)
                is_wide = size == largest and not is_flat and (rows > WARP_GROUP_ROWS or dtype != F32)
                # Where nothing is summed in turn, several programs are to run at once: some load while others store.
                if not (is_wide and dtype != F32 and products.iterations(depth) == 1):
                    yield Tile(rows, columns, depth), Warps(8 if is_wide else 4, stages)


def _depths(products: Products) -> Iterator[int]:
    """How many channels may be multiplied at a time: fewer only where fewer are then missing behind the last one."""
    least = None
    for depth in _DEPTHS[products.dtype]:
        multiplied = -(-products.depth // depth) * depth
        if least is None or multiplied < least:
            least = multiplied
            yield depth
