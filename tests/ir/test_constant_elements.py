"""What constants alone decide: its elements, and what is left because it would only repeat them."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.meanings import cone_of, constant_elements
from onnxc.compiler.ir.module import Value
from tests.passes.golden import built, f32

CODES = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)


def _narrow(b: Builder) -> Value:
    return b.cast(b.constant(CODES), F32)


def test_narrow_constants_are_widened_and_turned() -> None:
    b = Builder()
    found = constant_elements(b.transpose(b.mul(_narrow(b), 0.5), (1, 0)))
    assert found is not None
    assert found.dtype == np.float32
    assert np.array_equal(found, CODES.T / 2)


def test_what_many_paths_lead_to_is_computed_once() -> None:
    b = Builder()
    x = _narrow(b)
    for _ in range(100):
        x = b.max(x, b.neg(x))
    found = constant_elements(x)
    assert found is not None
    assert np.array_equal(found, np.abs(CODES))
    assert x.op is not None
    cone = cone_of(x.op)
    assert len(cone) == len(set(cone))
    assert all(operand.op in cone[:place] for place, op in enumerate(cone) for operand in op.operands)


def _repeated(b: Builder, *shape: Dim) -> Value:
    return b.broadcast_to(b.cast(b.constant(np.ones(1, np.int8)), F32), shape)


OTHERS: Mapping[str, Callable[[Builder, Value], Value]] = {
    "repeated": lambda b, x: _repeated(b, 1 << 40),
    "made by what is repeated": lambda b, x: b.slice(_repeated(b, 1 << 40), (0,), (1,)),
    "of unknown size": lambda b, x: _repeated(b, Size.symbol("N")),
    "of an input": lambda b, x: b.mul(_narrow(b), x),
    "an input": lambda b, x: x,
}


@pytest.mark.parametrize("other", OTHERS)
def test_others_are_not_known(other: str) -> None:
    (result,) = built((f32(2, 3),), OTHERS[other]).main.body.results
    assert constant_elements(result) is None
