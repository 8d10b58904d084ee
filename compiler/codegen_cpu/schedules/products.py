"""What contractions and convolutions on a CPU share: registers, widths of panels, how much work is worth claiming."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.target import Target

__all__ = ["GRAIN_PRODUCTS", "panel_vectors", "register_rows", "row_step_products"]

FULL_ROWS = {32: {4: 6, 3: 8, 2: 12, 1: 14}, 16: {4: 2, 3: 4, 2: 6, 1: 8}}
"""How many rows fit the registers beside the vectors of a panel, for 32 and for 16 vector registers."""

ROW_STEP_PRODUCTS = {
    32: {4: 5.0, 3: 4.0, 2: 3.0, 1: 2.0},
    16: {4: 4.8, 3: 3.1, 2: 2.0, 1: 1.3},
}
"""What a row takes for a step along k of a panel of so many vectors, beside one multiply-add of a vector.

With 32 registers one product more than it makes, for loads. With 16 the fewest loads decide: 2x4, 4x3, 6x2 and 8x1 had
86, 102, 102 and 77 GFLOP/s of the 102 of an EPYC of Zen 3; and 16 columns waste least of what models have: 1x1
convolutions of 64 to 2048 channels had 84 to 97 by 6x2, 82 to 93 by 4x3, and 77 to 91 by 2x4.
"""

GRAIN_PRODUCTS = 1 << 19
"""Multiplications worth claiming: a few microseconds, against 0.1 us to claim them."""


def register_rows(vectors: int, target: Target) -> int:
    """The most rows that are multiplied at once by so many vectors of a panel."""
    return FULL_ROWS[target.vector_registers][vectors]


def row_step_products(vectors: int, target: Target) -> float:
    """What a row takes for a step along k, in multiply-adds of vectors."""
    return ROW_STEP_PRODUCTS[target.vector_registers][vectors]


def panel_vectors(columns: Dim, lanes: int, target: Target, widths: Sequence[int] = (4, 3, 2, 1)) -> int:
    """The width of panels with which all columns take the least time, of `widths`; the first of equals."""
    if not isinstance(columns, int):
        return min(widths, key=lambda vectors: row_step_products(vectors, target) / vectors)
    return min(widths, key=lambda vectors: -(-columns // (vectors * lanes)) * row_step_products(vectors, target))


def split_vectors(columns: Dim, lanes: int, target: Target) -> int:
    """The same where a last panel of fewer columns takes the time of its vectors; of equals one without such a panel.

    Panels of 4 and of 1 vectors took 1.03 times as long as three of 3 for 144 columns.
    """
    if not isinstance(columns, int):
        return panel_vectors(columns, lanes, target)
    whole = -(-columns // lanes)

    def time(vectors: int) -> tuple[float, bool]:
        panels, rest = divmod(whole, vectors)
        last = row_step_products(rest, target) if rest else 0
        return panels * row_step_products(vectors, target) + last, rest > 0

    return min((4, 3, 2, 1), key=time)
