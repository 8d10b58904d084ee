"""What tiles of products take: iterations along k, and how many programs may share them."""

from onnxc.compiler.codegen_gpu.tiles.cost_model import cost_model
from onnxc.compiler.codegen_gpu.tiles.product_tiles import MatrixTile, Products, choose_fastest, splits
from onnxc.compiler.ir.dtypes import BF16
from tests.codegen_gpu.support import SM_90

TILE = MatrixTile(64, 64, 32, 4, 3)


def _products(segments: int, depth: int) -> Products:
    return Products(1, 4096, 4096, segments, depth, 1 << 20, BF16, "tf32x3")


def test_no_iteration_is_in_two_segments() -> None:
    assert _products(1, 9 * 40).iterations(TILE) == 12
    assert _products(9, 40).iterations(TILE) == 18
    assert _products(0, 40).iterations(TILE) == 0


def test_programs_that_share_a_tile_have_iterations_enough_for_each() -> None:
    assert [splits(count) for count in (0, 15, 16, 63)] == [(1,), (1,), (1, 2), (1, 2, 4)]
    assert splits(1 << 20) == (1, 2, 4, 8, 16)


def test_the_first_of_equals_is_chosen_and_tells_of_the_next() -> None:
    other = MatrixTile(32, 16, 32, 4, 3)
    twin = MatrixTile(64, 64, 32, 4, 3)
    model = cost_model(SM_90)
    choice = choose_fastest(_products(1, 512), [(other, 1), (TILE, 1), (twin, 1)], model)
    assert choice.tile is TILE
    assert f"of 3 the next is {twin}" in choice.why
    assert choose_fastest(_products(1, 512), [(other, 1)], model).why.endswith("nothing else fits")
