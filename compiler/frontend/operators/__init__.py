"""The operators, one file per operator or family, in folders by kind; the folders are the list."""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
