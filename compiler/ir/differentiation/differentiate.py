"""Reverse-mode differentiation: from a value and what it is computed from to the gradients, as ops of the same program.

The gradients are ordinary values, so they can be differentiated again.
"""

from collections.abc import Sequence

import onnxc.compiler.ir.derivatives  # noqa: F401  (fills the table of rules)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import carries_gradient, zeros_like
from onnxc.compiler.ir.differentiation.pull_back import pull_back
from onnxc.compiler.ir.module import Value


def gradients(y: Value, xs: Sequence[Value], build: Builder, seed: Value | None = None) -> tuple[Value, ...]:
    """The gradient of the sum of `seed * y` with respect to each of `xs`, of its type; without a seed, of the sum of y.

    `build` must see `y`, `xs` and all between them. A value that `y` does not depend on, or only through integers, has
    a gradient of zeros. The `xs` are taken as independent of each other: what one contributes through another is not
    counted for it. Raises UnsupportedError, which names the op, where an op on the way has no derivative.
    """
    for value in (y, *xs):
        assert carries_gradient(value.type), f"{value.type} has no gradient"
    seed = build.full(y.shape, 1, y.dtype) if seed is None else seed
    assert seed.type == y.type, (seed, y)
    gradients_of_xs = pull_back([y], [seed], xs, build)
    return tuple(zeros_like(x, build) if value is None else value for x, value in zip(xs, gradients_of_xs, strict=True))
