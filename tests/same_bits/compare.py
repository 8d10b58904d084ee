"""How two answers differ, bit by bit, and which kernels of two plans do."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tests.same_bits.worker import Answer


def difference(before: Answer, now: Answer) -> str:
    """What differs first, in words; empty where both are the same, errors included."""
    if before["error"] != now["error"]:
        return f"{before['error'] or 'ran'} -> {now['error'] or 'ran'}"
    for call, (old, new) in enumerate(zip(before["outputs"], now["outputs"], strict=True)):
        if len(old) != len(new):
            return f"call {call}: {len(old)} -> {len(new)} outputs"
        for output, (x, y) in enumerate(zip(old, new, strict=True)):
            if words := value_difference(x, y):
                return f"call {call}, output {output}: {words}"
    return ""


def value_difference(x: object, y: object) -> str:
    """How two values differ: arrays by their bits, sequences element by element; empty where they do not."""
    if isinstance(x, list | tuple) and isinstance(y, list | tuple):
        if len(x) != len(y):
            return f"{len(x)} -> {len(y)} elements"
        return next((words for words in map(value_difference, x, y) if words), "")
    if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
        return "" if x is None and y is None else f"{type(x).__name__} -> {type(y).__name__}"
    if (x.dtype, x.shape) != (y.dtype, y.shape):
        return f"{x.dtype}{list(x.shape)} -> {y.dtype}{list(y.shape)}"
    same = x == y if x.dtype.hasobject else bits(x) == bits(y)
    if np.all(same):
        return ""
    return f"{np.size(same) - np.count_nonzero(same)} of {np.size(same)} elements{largest(x, y)}"


def bits(x: np.ndarray) -> np.ndarray:
    """The bytes of each element, as one row of each."""
    return np.ascontiguousarray(x).view(np.void).reshape(x.shape)


def largest(x: np.ndarray, y: np.ndarray) -> str:
    """By how much numbers differ at most, as a part of the largest finite number; other elements are not measured."""
    if x.dtype.kind not in "fciu":
        return ""
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    a, b = x.astype(wide), y.astype(wide)
    finite = np.isfinite(a) & np.isfinite(b)
    scale = np.max(np.abs(b[finite]), initial=0.0)
    distance = np.max(np.abs(a[finite] - b[finite]), initial=0.0)
    return f", by {distance / scale if scale else distance:.1e} of the largest"


def changed_kernels(before: Sequence[str], now: Sequence[str]) -> str:
    """How many kernels of each kind are in one of the plans only; empty where both have the same."""
    gone, new = Counter(before), Counter(now)
    kinds = Counter(text.split()[0] for text in (new - gone).elements())
    lost = Counter(text.split()[0] for text in (gone - new).elements())
    return ", ".join(f"{lost[kind]} -> {kinds[kind]} {kind}" for kind in sorted(kinds | lost))
