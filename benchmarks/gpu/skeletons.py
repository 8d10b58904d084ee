"""Models without their large weights: a mark stands for each element, and seeded numbers take its place before a run.

Marks take no room in a file that is compressed, and lie wherever a layout has put elements. Times do not depend on the
weights, but zeros would: a device that multiplies zeros needs less power and keeps higher clocks.
"""

from dataclasses import replace

import ml_dtypes
import numpy as np

from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.runtime.native.aligned_memory import allocate_aligned

__all__ = ["LEAST_ELEMENTS", "emptied", "filled"]

LEAST_ELEMENTS = 4096
"""Constants of fewer elements stay: scales, tables and indices are among them."""

# Numbers that no model has: about 1e35 in f32 and bf16, and no halves of the first are the others.
_MARKS = {np.dtype(np.float32): 0x7A5C3E19, np.dtype(ml_dtypes.bfloat16): 0x7B11, np.dtype(np.float16): 0x7911}

# As the weights of transformers are drawn at first; sums over a thousand of them stay near 1.
_DEVIATION = 0.02

# So many are drawn and repeated: drawing hundreds of millions would take longer than all that is measured.
_DRAWN = 1 << 20


def emptied(plan: KernelPlan) -> KernelPlan:
    """The plan with marks for the elements of its large constants."""
    return replace(plan, constants=tuple(map(_marked, plan.constants)))


def filled(weights: np.ndarray, seed: int = 0) -> np.ndarray:
    """The bytes of weights with numbers in the place of marks."""
    made = allocate_aligned(weights.nbytes)
    made[:] = weights
    rng = np.random.default_rng(seed)
    for dtype, mark in _MARKS.items():
        words = made[: made.nbytes // dtype.itemsize * dtype.itemsize].view(f"u{dtype.itemsize}")
        indices = np.flatnonzero(words == mark)
        drawn = (_DEVIATION * rng.standard_normal(min(_DRAWN, indices.size), np.float32)).astype(dtype)
        words[indices] = np.resize(drawn.view(words.dtype), indices.size)
    return made


def _marked(constant: np.ndarray) -> np.ndarray:
    mark = _MARKS.get(constant.dtype)
    if mark is None or constant.size < LEAST_ELEMENTS:
        return constant
    return np.full(constant.shape, mark, f"u{constant.dtype.itemsize}").view(constant.dtype)
