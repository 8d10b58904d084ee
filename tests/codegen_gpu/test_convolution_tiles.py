"""Tiles of convolutions: what fits the result and the registers, and how many programs share one."""

import pytest

from onnxc.compiler.codegen_gpu.tiles.convolution_tiles import ConvolutionProducts, choose_convolution_tile
from onnxc.compiler.codegen_gpu.tiles.product_tiles import TileChoice
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, F32, I8, DType
from tests.codegen_gpu.support import SM_80, SM_90

N = Size.symbol("N")


def _choose(rows: Dim, columns: Dim, channels: Dim, taps: Dim = 9, dtype: DType = BF16, groups: int = 1) -> TileChoice:
    return choose_convolution_tile(ConvolutionProducts(groups, rows, columns, channels, taps, dtype), SM_90)


@pytest.mark.parametrize("dtype", [F32, BF16, I8], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 49, 100352, N])
@pytest.mark.parametrize("columns", [0, 1, 24, 512, N])
@pytest.mark.parametrize("channels", [0, 3, 512, N])
def test_a_tile_fits_its_result_and_the_registers(dtype: DType, rows: Dim, columns: Dim, channels: Dim) -> None:
    products = ConvolutionProducts(1, rows, columns, channels, 9, dtype)
    assert products.is_flat == (channels in (0, 3))
    for target in (SM_80, SM_90):
        tile = choose_convolution_tile(products, target).tile
        assert tile.rows * tile.columns <= (128 * 64 if dtype == F32 else 128 * 128)
        assert tile.rows * tile.columns <= 64 * 64 * tile.warps // 2
        for side, size in ((tile.rows, rows), (tile.columns, columns)):
            assert not isinstance(size, int) or side < max(32, 2 * size)
        assert tile.depth >= (32 if dtype == I8 else 16)


def test_large_problems_get_large_tiles() -> None:
    tile = _choose(32 * 56 * 56, 256, 256).tile
    assert (tile.rows, tile.columns, tile.depth, tile.warps) == (128, 128, 64, 8)
    tile = _choose(32 * 56 * 56, 256, 256, dtype=F32).tile
    assert (tile.rows * tile.columns, tile.depth, tile.warps) == (128 * 64, 32, 8)


def test_programs_share_what_is_few_tiles_and_long() -> None:
    assert _choose(49, 512, 512, dtype=F32).parts > 1
    assert _choose(49, 512, 512, taps=1, dtype=F32).parts == 1
    assert _choose(49, 512, 512, dtype=F32, groups=64).parts == 1
    assert _choose(N, 512, 512, dtype=F32).parts == 1


def test_depth_follows_the_channels() -> None:
    for channels, depth in [(16, 16), (24, 32), (96, 32), (512, 64), (960, 64)]:
        assert _choose(3136, 64, channels).tile.depth == depth, channels


def test_small_tiles_of_16_bit_numbers_load_further_ahead() -> None:
    assert _choose(196, 32, 512).tile.stages > _choose(100352, 512, 512).tile.stages == 3
