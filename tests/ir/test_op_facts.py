"""What a value is made of along its last axis, through movements that keep it, and no others."""

from collections.abc import Callable, Sequence

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.op_facts import operands_along_last
from tests.planning.plans import make

MADE: dict[str, tuple[Callable[[Builder, Value], Value], Sequence[int] | None]] = {
    "element by element": (lambda b, x: b.exp(x), [0]),
    "in another shape": (lambda b, x: b.reshape(x, (2, 3, 6)), [0]),
    "in another shape, cut": (lambda b, x: b.reshape(x, (18, 2)), None),
    "turned before the last": (lambda b, x: b.transpose(b.reshape(x, (2, 3, 6)), (1, 0, 2)), [0]),
    "turned": (lambda b, x: b.transpose(x, (1, 0)), None),
    "repeated": (lambda b, x: b.broadcast(x, (1, 2), (4, 6, 6)), [0]),
    "repeated along the last": (lambda b, x: b.broadcast(x, (0, 1), (6, 6, 4)), []),
    "repeated and turned": (lambda b, x: b.broadcast(x, (2, 0), (6, 4, 6)), None),
}


@pytest.mark.parametrize("case", MADE)
def test_operands_along_the_last_axis(case: str) -> None:
    build, ordinals = MADE[case]
    (result,) = make(["f32[6, 6]"], build).main.body.results
    assert result.op is not None
    expected = None if ordinals is None else tuple(result.op.operands[ordinal] for ordinal in ordinals)
    actual = operands_along_last(result)
    assert (actual is None) == (expected is None)
    assert tuple(actual or ()) == tuple(expected or ())
