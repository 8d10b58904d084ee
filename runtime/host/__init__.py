"""The NumPy meanings of the IR primitives: what each one computes, once, for whoever asks.

`MEANINGS["add"]([x, y], {})` is the one definition that constant folding, the interpreter, host steps and the tests of
both back ends share. The folder is the list: every module here registers what it defines.

All meanings are total: no value makes them raise or warn. float16 and the narrower floats are computed in f32 and
rounded once to nearest even; the integers below eight bits are computed in eight and wrapped.
"""

import importlib
import pkgutil

from onnxc.runtime.host.registry import MEANINGS, Arrays, Attributes, Meaning, meaning

__all__ = ["MEANINGS", "Arrays", "Attributes", "Meaning", "meaning"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
