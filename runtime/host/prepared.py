"""Functions of the host, made ready for attributes and constant operands that stay the same from call to call.

`PREPARED["zip_map"]({1: keys}, {})` is a function of all operands, or None where nothing can be done beforehand. It
gives what the function or meaning of that name gives, and may neither warn nor change what it was prepared from.
"""

from collections.abc import Callable, Mapping

import numpy as np

from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue

__all__ = ["PREPARED", "Constants", "HostCall", "prepared"]

Constants = Mapping[int, np.ndarray]
"""The operands that no call changes, by number."""

HostCall = Callable[..., tuple[HostValue, ...]]

Prepare = Callable[[Constants, Attributes], HostCall | None]

PREPARED: dict[str, Prepare] = {}


def prepared(name: str) -> Callable[[Prepare], Prepare]:
    """A decorator that registers how the function or meaning `name` is made ready."""

    def register(definition: Prepare) -> Prepare:
        assert name not in PREPARED, name
        PREPARED[name] = definition
        return definition

    return register
