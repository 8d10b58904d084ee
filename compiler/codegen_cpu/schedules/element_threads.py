"""What a thread takes at once of elements that are computed one like the other, and how many go together."""

from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.planning.schedules import Threads
from onnxc.compiler.target import Target

__all__ = ["GRAIN_ELEMENTS", "TOGETHER_VECTORS", "element_threads"]

GRAIN_ELEMENTS = 16384
"""About how many elements a thread takes at once: a few microseconds of work, against 0.1 us to claim it."""

TOGETHER_VECTORS = 2
"""Vectors of a row that are computed beside each other, as steps of one wait for each other.

On one core of Zen 1, cycles for 8 elements in the cache, one vector and two: log 44 and 35, sin 31 and 27, softplus 137
and 80, mish 181 and 112, pow 159 and 100, sinh 62 and 43, SiLU 33 and 24; of four vectors about as many as of two.
Rows of known length whose elements are functions are folded so too: softmax of 197 rows of 768 took 191 us and takes
175, the largest of 64 sigmoids 3,136 times 316 and 282, a LayerNormalization of Gelu 261 and 239.
"""


def element_threads(target: Target) -> Threads:
    """Threads whose vectors are full of f32."""
    return Threads(target.vector_bits // F32.bits, GRAIN_ELEMENTS)
