"""Fewer searches of Python's garbage collector while a model is compiled.

The values and ops of a module name each other, and most of them live as long as it does: to look through all of them
whenever 700 objects more are there took a fifth of the time of a large model. What is garbage stays a little longer.
"""

import gc
import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from types import ModuleType

__all__ = ["RARE", "import_for_good", "rare_collections"]

RARE = (2_000, 100)
"""New objects between two searches of the newest, and how many of these come before one of all that lived through them.

The newest are in the second-level cache still: to look through 2,000 at a time takes 12 ms of a small model, to look
through 20,000 took 40. A detector of 1,000 nodes compiled in 10.3 s with (700, 10), in 8.0 s with (20_000, 10), and
took 235 and 249 MB.
"""

_lock = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""The thresholds before each compilation that runs now; the first are the process's own."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Within it searches are rare, unless the process has them rarer still; compilations may overlap."""
    with _lock:
        thresholds = gc.get_threshold()
        _before.append(thresholds)
        if 0 < thresholds[0] * thresholds[1] < prod(RARE):
            gc.set_threshold(*RARE, thresholds[2])
    try:
        yield
    finally:
        with _lock:
            first = _before[0]
            _before.pop()
            # What others have set in the meantime stays.
            if not _before and gc.get_threshold()[:2] == RARE:
                gc.set_threshold(*first)


def import_for_good(name: str) -> ModuleType:
    """The module, after whose first import all that lives counts as old: no search looks through it but those of all.

    Else the next one would, in 35 ms for what the compiler is made of.
    """
    is_new = name not in sys.modules
    module = importlib.import_module(name)
    # What others have frozen stays so.
    if is_new and gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()
    return module
