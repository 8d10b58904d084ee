"""The libraries that our times stand beside, where they can be imported."""

import importlib
from collections.abc import Callable
from types import ModuleType

from benchmarks.gpu.bench import Work

__all__ = ["torch_or_none", "torch_work"]


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
