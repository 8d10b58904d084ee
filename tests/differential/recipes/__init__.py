"""What legal operands of an operator look like: a function of a Draw for each operator, named by its domain and name.

The folder is the registry: importing this package imports every file of it.
"""

import importlib
import pkgutil

from tests.differential.recipes.registry import RECIPES

__all__ = ["RECIPES"]

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")
