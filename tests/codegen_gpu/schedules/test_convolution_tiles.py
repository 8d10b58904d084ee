"""Tiles of convolutions: what fits the result and the registers, and how many programs share one."""

import pytest

from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, F32, I8, I32, DType
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import ConvolutionSchedule, Tile, Warps
from onnxc.compiler.target import Target
from tests.codegen_gpu.support import SM_80, SM_90, make

N = Size.symbol("N")


def _choose(
    rows: Dim, columns: Dim, channels: Dim, taps: int = 9, dtype: DType = BF16, groups: int = 1, target: Target = SM_90
) -> ConvolutionSchedule:
    """The schedule of a convolution along one axis, with so many pixels, filters and channels in each group."""
    x = TensorType(dtype, (1, rows, channels * groups))
    w = TensorType(dtype, (columns * groups, channels, taps))
    low, high = taps // 2, taps - 1 - taps // 2
    module = make(
        [x, w],
        lambda ir, x, w: ir.convolution(
            x, w, strides=(1,), low=(low,), high=(high,), dilations=(1,), groups=groups,
            dtype=dtype if dtype.is_float else I32, dimensions=channels_innermost(1),
        ),
    )  # fmt: skip
    *_, kernel = plan_kernels(module, gpu_plan_target(target)).kernels
    return kernel.scheduled(ConvolutionSchedule)


def _warps(schedule: ConvolutionSchedule) -> Warps:
    assert isinstance(schedule.workers, Warps), schedule
    return schedule.workers


@pytest.mark.parametrize("dtype", [F32, BF16, I8], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 49, 100352, N])
@pytest.mark.parametrize("columns", [0, 1, 24, 512, N])
@pytest.mark.parametrize("channels", [0, 3, 512, N])
def test_a_tile_fits_its_result_and_the_registers(dtype: DType, rows: Dim, columns: Dim, channels: Dim) -> None:
    for target in (SM_80, SM_90):
        schedule = _choose(rows, columns, channels, dtype=dtype, target=target)
        tile = schedule.tile
        assert schedule.flat == (channels in (0, 3))
        assert tile.rows * tile.columns <= (128 * 64 if dtype == F32 else 128 * 128)
        assert tile.rows * tile.columns <= 64 * 64 * _warps(schedule).count // 2
        for side, size in ((tile.rows, rows), (tile.columns, columns)):
            assert not isinstance(size, int) or side < max(32, 2 * size)
        assert tile.depth >= (32 if dtype == I8 else 16)


def test_large_problems_get_large_tiles() -> None:
    schedule = _choose(32 * 56 * 56, 256, 256)
    assert (schedule.tile, _warps(schedule).count) == (Tile(128, 128, 64), 8)
    schedule = _choose(32 * 56 * 56, 256, 256, dtype=F32)
    assert (schedule.tile.rows * schedule.tile.columns, schedule.tile.depth) == (128 * 64, 32)
    assert _warps(schedule).count == schedule.tile.rows // 16


def test_programs_share_what_is_few_tiles_and_long() -> None:
    assert _choose(49, 512, 512, dtype=F32).split > 1
    assert _choose(49, 512, 128, taps=1, dtype=F32).split == 1
    assert _choose(49, 512, 512, dtype=F32, groups=64).split == 1
    assert _choose(N, 512, 512, dtype=F32).split == 1


def test_depth_follows_the_channels() -> None:
    for channels, depth in [(16, 16), (24, 32), (96, 32), (512, 64), (960, 64)]:
        assert _choose(3136, 64, channels).tile.depth == depth, channels


def test_small_tiles_of_16_bit_numbers_load_further_ahead() -> None:
    assert _warps(_choose(196, 32, 512)).stages > _warps(_choose(100352, 512, 512)).stages == 3
