"""Tiles of convolutions: rows are output pixels, columns output channels, k the taps and channels of the input."""

from collections.abc import Iterator
from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.tiles.cost_model import cost_model
from onnxc.compiler.codegen_gpu.tiles.product_tiles import MatrixTile, Products, TileChoice, choose_fastest, splits
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BF16, F16, F32, I8, DType
from onnxc.compiler.target import Target

TYPICAL_CHANNELS, TYPICAL_PIXELS, TYPICAL_TAPS = 64, 8 * 28 * 28, 9
"""What sizes are taken for that only a call decides."""

SIDES = (16, 32, 64, 128)

_DEPTHS: dict[DType, tuple[int, ...]] = {F32: (32, 16), F16: (64, 32, 16), BF16: (64, 32, 16), I8: (64, 32)}

LARGEST_TILE, LARGEST_F32_TILE, LARGEST_FLAT_TILE = 128 * 128, 128 * 64, 64 * 64
"""Elements of a tile for which registers suffice: f32 operands are split into parts there, and gathered ones wait."""

LEAST_CHANNELS = 16
"""Below so many channels per group k runs over taps and channels together, as one axis."""

STAGE_BYTES = ((8 << 10, 5), (16 << 10, 4))
"""Up to so many bytes of 16-bit numbers in a stage there are so many stages; else, and where f32 waits for tensor
cores rather than for loads, there are 3."""


@dataclass(frozen=True)
class ConvolutionProducts:
    """`groups` products of [rows, taps * channels] by [taps * channels, columns]."""

    groups: int
    rows: Dim
    columns: Dim
    channels: Dim
    taps: Dim
    dtype: DType
    input_precision: str = "tf32x3"

    @property
    def is_flat(self) -> bool:
        """Whether k is one axis of taps and channels; else no iteration has channels of two taps."""
        return isinstance(self.channels, int) and self.channels < LEAST_CHANNELS

    @property
    def is_known(self) -> bool:
        """Whether all sizes are numbers."""
        return all(isinstance(size, int) for size in (self.rows, self.columns, self.channels, self.taps))

    def typical(self) -> Products:
        """The same in numbers; windows overlap, so that an element of the input is read about once for each pixel."""
        m, n = _number(self.rows, TYPICAL_PIXELS), _number(self.columns, TYPICAL_CHANNELS)
        channels, taps = _number(self.channels, TYPICAL_CHANNELS), _number(self.taps, TYPICAL_TAPS)
        operand_bytes = self.groups * (m * channels + taps * channels * n) * self.dtype.itemsize
        segments, depth = (1, taps * channels) if self.is_flat else (taps, channels)
        return Products(self.groups, m, n, segments, depth, operand_bytes, self.dtype, self.input_precision)


def choose_convolution_tile(products: ConvolutionProducts, target: Target) -> TileChoice:
    """The tile and the split along k that the cost model finds fastest; the first of equals."""
    return choose_fastest(products.typical(), _candidates(products), cost_model(target))


def _candidates(products: ConvolutionProducts) -> Iterator[tuple[MatrixTile, int]]:
    sizes = products.typical()
    for tile in _tiles(sizes, products.is_flat):
        for parts in splits(sizes.iterations(tile)) if products.is_known else (1,):
            yield tile, parts


def _tiles(products: Products, is_flat: bool) -> Iterator[MatrixTile]:
    """The tiles that fit registers, none twice as large as the result."""
    dtype = products.dtype
    largest = LARGEST_FLAT_TILE if is_flat else LARGEST_F32_TILE if dtype == F32 else LARGEST_TILE
    for rows in SIDES:
        for columns in SIDES:
            size = rows * columns
            if size > largest or rows >= max(2 * products.rows, 32) or columns >= max(2 * products.columns, 32):
                continue
            for depth in _depths(products):
                stage = (rows + columns) * depth * dtype.itemsize
                stages = next((count for most, count in STAGE_BYTES if stage <= most and dtype != F32), 3)
                yield MatrixTile(rows, columns, depth, 8 if size == largest > LARGEST_FLAT_TILE else 4, stages)


def _depths(products: Products) -> Iterator[int]:
    """How many channels may be multiplied at a time: fewer only where fewer are then missing behind the last one."""
    least = None
    for depth in _DEPTHS[products.dtype]:
        multiplied = -(-products.depth // depth) * depth
        if least is None or multiplied < least:
            least = multiplied
            yield depth


def _number(size: Dim, typical: int) -> int:
    return max(1, size) if isinstance(size, int) else typical
