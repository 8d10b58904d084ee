"""The functions that host steps name: what is not arithmetic on tensors, in NumPy and Python alone.

`FUNCTIONS["sequence_at"]([sequence, position], {})`. The folder is the list: every module registers what it defines.
Unlike the meanings of primitives, a function may refuse its operands: it raises InputError, or DeviceError where a
library is missing.
"""

import importlib
import pkgutil

from onnxc.runtime.host.functions.registry import FUNCTIONS, HostFunction, Values, function

__all__ = ["FUNCTIONS", "HostFunction", "Values", "function"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
