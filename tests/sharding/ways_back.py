"""How an executable for several devices comes back from a file or from bytes, as the same one."""

import copy
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import onnxc
from onnxc.runtime.executable import Executable

WayBack = Callable[[Executable, Path], Executable]
"""From an executable, or from the file that it was saved in."""

WAYS_BACK: Mapping[str, WayBack] = {
    "loaded": lambda exe, path: onnxc.load(path),
    "loaded for its devices": lambda exe, path: onnxc.load(path, devices="cpu:4"),
    "loaded into memory": lambda exe, path: onnxc.load(path, weights="resident"),
    "pickled": lambda exe, path: pickle.loads(pickle.dumps(exe)),
    "pickled by its path": lambda exe, path: pickle.loads(pickle.dumps(onnxc.load(path))),
    "copied": lambda exe, path: copy.deepcopy(exe),
}


def expect_back(way: str, exe: Executable, saved: Path, x: np.ndarray) -> None:
    """What comes back gives the same bits, and says the same of itself."""
    again = WAYS_BACK[way](exe, saved)
    np.testing.assert_array_equal(np.asarray(again(x)), np.asarray(exe(x)))
    assert (str(again), again.report()) == (str(exe), exe.report())
