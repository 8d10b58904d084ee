"""What contractions and convolutions on a CPU have in common: registers, and how much work is worth claiming."""

from onnxc.compiler.target import Target

__all__ = ["GRAIN_PRODUCTS", "register_rows"]

FULL_ROWS = {32: {4: 6, 3: 8, 2: 12, 1: 14}, 16: {4: 2, 3: 4, 2: 6, 1: 8}}
"""How many rows fit the registers beside the vectors of a panel, for 32 and for 16 vector registers."""

GRAIN_PRODUCTS = 1 << 19
"""Multiplications worth claiming: a few microseconds, against 0.1 us to claim them."""


def register_rows(vectors: int, target: Target) -> int:
    """The most rows that are multiplied at once by so many vectors of a panel."""
    return FULL_ROWS[target.vector_registers][vectors]
