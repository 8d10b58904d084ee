"""The libraries that our times stand beside, where they can be imported."""

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np

from benchmarks.gpu.bench import Work

__all__ = ["cublas_of_cupy", "torch_or_none", "torch_work"]


def torch_or_none() -> ModuleType | None:
    """torch, if it is installed and sees a device."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def torch_work(torch: ModuleType, call: Callable[[], object]) -> Work:
    """A call of torch as work on a stream of ours."""

    def work(stream: int) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)), torch.no_grad():
            call()

    return work


def cublas_of_cupy(inputs: Sequence[np.ndarray]) -> Work | None:
    """The product of two matrices by cuBLAS, where CuPy is installed and knows their type."""
    try:
        cupy = importlib.import_module("cupy")
        if not cupy.cuda.is_available():
            return None
        x, y = map(cupy.asarray, inputs)
    except (ImportError, TypeError, ValueError):
        return None
    result = x @ y

    def work(stream: int) -> None:
        with cupy.cuda.ExternalStream(stream):
            cupy.matmul(x, y, out=result)

    return work
