"""What of a processor decides which form of a program is faster on it."""

from collections.abc import Callable, Collection

from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.runtime.records import record

__all__ = ["ANY_CPU", "CpuTraits"]


def _never(op: Op) -> bool:
    return False


def _always(op: Op) -> bool:
    return True


@record
class CpuTraits:
    """Facts of a processor that passes ask for; by default of one that has all instructions for bytes.

    multiplied: the 16-bit floats that it multiplies as they are.
    multiplies_byte_blocks: whether it has a kernel for a product of bytes with weights of few bits.
    convolves_as_floats: whether a convolution of floats that stand for bytes is faster than that of the bytes.
    """

    multiplied: Collection[DType] = ()
    multiplies_byte_blocks: Callable[[Op], bool] = _always
    convolves_as_floats: Callable[[Op], bool] = _never


ANY_CPU = CpuTraits()
