"""Convolution kernels."""

from collections.abc import Mapping, Sequence

from compiler.ir.module import Block, Op
from compiler.target import Target


def is_native(op: Op) -> bool:
    """Not yet."""
    return False


def schedule(block: Block, constants: Sequence[int], target: Target) -> Mapping[str, int | str]:
    """Nothing to choose."""
    return {}


def weight_layout(block: Block, index: int, plan: Mapping[str, int | str], target: Target) -> tuple[str | int, ...]:
    """As they are."""
    return ()
