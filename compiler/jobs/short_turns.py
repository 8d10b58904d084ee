"""Short turns of Python's threads, for code that is written while LLVM compiles what was written before.

LLVM needs no turn, but to be given a module, and to give its object back, takes six of them.
"""

import sys

from onnxc.compiler.jobs.shared_setting import SharedSetting

__all__ = ["SECONDS", "short_turns"]

SECONDS = 0.0005
"""With Python's own 5 ms LLVM stood still for up to 30 ms before each of the first modules."""


def _write(seconds: float) -> None:
    # Python drops what is less than a microsecond, and its product of one with a million may be a little less.
    sys.setswitchinterval(seconds + 1e-7)


short_turns = SharedSetting(sys.getswitchinterval, _write, lambda seconds: min(seconds, SECONDS)).held
"""Within `with short_turns():` a thread gives way after so long; compilations may overlap."""
