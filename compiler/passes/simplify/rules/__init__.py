"""The rules of `canonicalize`, one file per theme; the folder is the list, in alphabetical order.

All are exact, for NaN, infinities and -0.0 too, but where the docstring of a rule says that it rounds elsewhere.
"""

import importlib
import pkgutil
from collections.abc import Sequence

from onnxc.compiler.ir.rewriter import Rule


def _collect() -> tuple[Rule, ...]:
    names = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(name) for name in names]
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Rule))


RULES: Sequence[Rule] = _collect()
