"""What tiles of products take: iterations along k, and how many programs may share them."""

from onnxc.compiler.codegen_gpu.schedules.product_tiles import Products, splits
from onnxc.compiler.ir.dtypes import BF16


def _products(segments: int, depth: int) -> Products:
    return Products(1, 4096, 4096, segments, depth, 1 << 20, BF16)


def test_no_iteration_is_in_two_segments() -> None:
    assert _products(1, 9 * 40).iterations(32) == 12
    assert _products(9, 40).iterations(32) == 18
    assert _products(0, 40).iterations(32) == 0


def test_programs_that_share_a_tile_have_iterations_enough_for_each() -> None:
    assert [splits(count) for count in (0, 15, 16, 63)] == [(1,), (1,), (1, 2), (1, 2, 4)]
    assert splits(1 << 20) == (1, 2, 4, 8, 16)
