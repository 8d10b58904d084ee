"""The table of host functions."""

from collections.abc import Callable, Sequence

import numpy as np

from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue

Values = Sequence[HostValue]
HostFunction = Callable[[Values, Attributes], tuple[HostValue, ...]]

FUNCTIONS: dict[str, HostFunction] = {}


def function(name: str) -> Callable[[HostFunction], HostFunction]:
    """A decorator that registers a host function; attributes arrive as those of meanings do."""

    def register(definition: HostFunction) -> HostFunction:
        assert name not in FUNCTIONS, name
        FUNCTIONS[name] = np.errstate(all="ignore")(definition)
        return FUNCTIONS[name]

    return register
