"""The operators, one file per operator or family, in folders by kind; the folders are the list.

Most models have no operators but those of ai.onnx. Others are imported for the first node of their domain: they take
11 of the 21 ms that all take.
"""

import importlib
import pkgutil
from functools import cache

from onnxc.compiler.frontend.operator import OPERATORS, Lowering, OperatorKey
from onnxc.compiler.frontend.operator_domains import MICROSOFT, NCHWC

__all__ = ["import_operators", "registered_lowering"]

_FOLDERS = {MICROSOFT: "microsoft", NCHWC: "microsoft", "ai.onnx.ml": "ml", "ai.onnx.preview.training": "training"}
"""Of the domains that have one of their own; the others have the rest."""


def registered_lowering(key: OperatorKey) -> Lowering | None:
    """The lowering of an operator version, None where there is none."""
    domain, _, _ = key
    import_operators(domain)
    return OPERATORS.get(key)


@cache
def import_operators(domain: str) -> None:
    """Fills the registry with the operators of a domain."""
    own, others = _FOLDERS.get(domain), _FOLDERS.values()
    for folder in pkgutil.iter_modules(__path__):
        if folder.name == own or (own is None and folder.name not in others):
            package = importlib.import_module(f"{__name__}.{folder.name}")
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
