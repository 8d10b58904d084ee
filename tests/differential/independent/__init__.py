"""What operators give, written with NumPy from their texts: the third voice where engines disagree.

Nothing here knows of onnxc or of another engine. The folder is the registry: importing this package fills it.
"""

import importlib
import pkgutil

from tests.differential.independent.registry import COMPUTED, Given, Rounded

__all__ = ["COMPUTED", "Given", "Rounded"]

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")
