"""Views of a table that kernels read as it lies: each of `VIEWS` makes one of x: T[m, 40]."""

from collections.abc import Callable

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

__all__ = ["VIEWS", "View"]

View = Callable[[Builder, Value], Value]

VIEWS = [
    pytest.param(lambda ir, x: ir.slice(x, (0, 0), (x.shape[0], 20), (1, 2)), id="every second"),
    pytest.param(lambda ir, x: ir.reverse(x, 1), id="backwards"),
    pytest.param(lambda ir, x: ir.transpose(x, (1, 0)), id="turned"),
    pytest.param(lambda ir, x: ir.broadcast(x, (0, 1), (*x.shape, 3)), id="repeated"),
]
