"""Fewer searches of Python's garbage collector while a model is compiled.

The values and ops of a module name each other, and most of them live as long as it does: to look through all of them
whenever 700 objects more are there took a fifth of the time of a large model. What is garbage stays a little longer.
"""

import gc
import importlib
import sys
from math import prod
from types import ModuleType

from onnxc.compiler.jobs.shared_setting import SharedSetting

__all__ = ["RARE", "import_for_good", "rare_collections"]

RARE = (2_000, 100)
"""New objects between two searches of the newest, and how many of these come before one of all that lived through them.

The newest are in the second-level cache still: to look through 2,000 at a time takes 12 ms of a small model, to look
through 20,000 took 40. A detector of 1,000 nodes compiled in 10.3 s with (700, 10), in 8.0 s with (20_000, 10), and
took 235 and 249 MB.
"""


def _rarer(thresholds: tuple[int, int, int]) -> tuple[int, int, int]:
    """The thresholds, unless the process has its searches rarer still, or none."""
    return (*RARE, thresholds[2]) if 0 < thresholds[0] * thresholds[1] < prod(RARE) else thresholds


rare_collections = SharedSetting(gc.get_threshold, lambda thresholds: gc.set_threshold(*thresholds), _rarer).held
"""Within `with rare_collections():` searches are rare; compilations may overlap."""


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
