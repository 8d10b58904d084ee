"""Common subexpressions: what is merged, and what only looks alike."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I32, I64
from onnxc.compiler.ir.module import Value, walk
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from tests.passes.golden import N, Pair, built, check_pair, f32, i64


def _vector(build: Builder, *numbers: float) -> Value:
    return build.constant(np.array(numbers, np.float32))


def _shared(build: Builder, value: Value) -> Value:
    return build.mul(value, value)


FIRES = {
    "unary": Pair((f32(N),), lambda b, x: b.mul(b.exp(x), b.exp(x)), lambda b, x: _shared(b, b.exp(x))),
    "chain": Pair(
        (f32(4),), lambda b, x: b.mul(b.neg(b.exp(x)), b.neg(b.exp(x))), lambda b, x: _shared(b, b.neg(b.exp(x)))
    ),
    "commuted": Pair(
        (f32(4), f32(4)), lambda b, x, y: b.sub(b.add(x, y), b.add(y, x)), lambda b, x, y: _minus_itself(b, b.add(x, y))
    ),
    "constants": Pair(
        (), lambda b: b.sub(_vector(b, 1, 2), _vector(b, 1, 2)), lambda b: _minus_itself(b, _vector(b, 1, 2))
    ),
    "large_constants": Pair(
        (),
        lambda b: b.sub(b.constant(np.arange(5000.0)), b.constant(np.arange(5000.0))),
        lambda b: _minus_itself(b, b.constant(np.arange(5000.0))),
    ),
    "several_results": Pair(
        (f32(4),), lambda b, x: b.sub(b.sort(x, 0)[0], b.sort(x, 0)[0]), lambda b, x: _minus_itself(b, b.sort(x, 0)[0])
    ),
}


def _minus_itself(build: Builder, value: Value) -> Value:
    return build.op("sub", [value, value])[0]


REFUSES = {
    "order": Pair((f32(4), f32(4)), lambda b, x, y: b.mul(b.sub(x, y), b.sub(y, x))),
    "zeros": Pair((f32(2),), lambda b, x: b.mul(b.add(x, _vector(b, 0, 1)), b.add(x, _vector(b, -0.0, 1)))),
    "dtypes": Pair((f32(2),), lambda b, x: (b.cast(x, I32), b.cast(x, I64))),
    "equal_numbers": Pair((), lambda b: (b.constant(np.zeros(2000, np.int32)), b.constant(np.zeros(2000, np.float32)))),
    "attributes": Pair((f32(4, 4),), lambda b, x: (b.reduce(x, "sum", [0]), b.reduce(x, "max", [0]))),
    "shapes": Pair((f32(4),), lambda b, x: (b.reshape(x, (2, 2)), b.reshape(x, (4, 1)))),
    "one_element_differs": Pair((), lambda b: (_marked(b, 3), _marked(b, 4))),
}


def _marked(build: Builder, place: int) -> Value:
    array = np.zeros(4000, np.float32)
    array[place] = 1
    return build.constant(array)


@pytest.mark.parametrize("name", FIRES)
def test_equal_expressions_are_merged(name: str) -> None:
    check_pair(eliminate_common_subexpressions, FIRES[name])


@pytest.mark.parametrize("name", REFUSES)
def test_different_expressions_are_kept(name: str) -> None:
    check_pair(eliminate_common_subexpressions, REFUSES[name])


def test_nan_constants_are_compared_by_their_bits() -> None:
    module = built((), lambda b: (b.constant(np.array([np.nan, 1])), b.constant(np.array([np.nan, 1]))))
    assert len(eliminate_common_subexpressions(module).main.body.ops) == 1


def test_what_binds_symbols_is_kept_apart() -> None:
    module = built((f32(4),), lambda b, x: (b.non_zero(x), b.non_zero(x)))
    assert len(eliminate_common_subexpressions(module).main.body.ops) == 2


def test_equal_guards_are_made_once_and_blocks_are_searched() -> None:
    module = parse_module(
        """module "m" {
function main(%x: f32[N], %c: bool[]) -> ("y") where N in [0, ...] {
  guard {left = N, message = "first", relation = "at_least", right = 1}
  guard {left = N, message = "second", relation = "at_least", right = 1}
  %0 = if %c, %x : f32[N]
    block(%a: f32[N]) {
      %1 = exp %a : f32[N]
      %2 = exp %a : f32[N]
      %3 = add %1, %2 : f32[N]
      return %3
    }
    block(%a: f32[N]) {
      return %a
    }
  return %0
}
}"""
    )
    after = eliminate_common_subexpressions(module)
    assert [op.name for op in walk(after.main.body)] == ["guard", "if", "exp", "add"]
    assert after.main.body.ops[0].text("message") == "first"


def test_the_first_of_equal_ops_stays_in_its_place() -> None:
    module = built((i64(3),), lambda b, x: (b.neg(x), b.abs(x), b.neg(x)))
    assert [op.name for op in eliminate_common_subexpressions(module).main.body.ops] == ["neg", "abs"]
