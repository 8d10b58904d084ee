"""The builder for passes, and that of rules: what folds, what is a defect of ours, which guards stay."""

import numpy as np
import pytest

from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Function, Module, Op, Value
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.rewriter import Rewriter, rewrite, rule
from onnxc.compiler.ir.types import TensorType

N, M = Size.symbol("N"), Size.symbol("M")


def test_a_float_that_is_broadcast_stays_one_number() -> None:
    build = PassBuilder()
    repeated = build.broadcast(build.scalar(2.0, F32), (), (3,))
    assert repeated.op is not None
    assert (repeated.op.name, repeated.type) == ("broadcast", TensorType(F32, (3,)))


def test_other_small_constants_fold() -> None:
    build = PassBuilder()
    repeated = build.broadcast(build.scalar(2, I64), (), (3,))
    total = build.add(build.constant(np.float32([1, 2])), build.constant(np.float32([3, 4])))
    assert build.known(repeated) == (2, 2, 2)
    np.testing.assert_array_equal(build.known_array(total), [4, 6])


def test_what_does_not_type_is_a_defect_of_ours() -> None:
    build = PassBuilder()
    with pytest.raises(AssertionError, match="broadcast: size 2 cannot be broadcast to 3"):
        build.broadcast(build.constant(np.float32([1, 2])), (0,), (3,))


def test_a_guard_of_a_rule_that_declined_does_not_hide_that_of_the_next() -> None:
    @rule("neg")
    def declines(op: Op, build: Rewriter) -> Value | None:
        build.guard(N, M, "equal", "first")
        return None

    @rule("neg")
    def applies(op: Op, build: Rewriter) -> Value | None:
        build.guard(N, M, "equal", "second")
        return build.abs(op.operands[0])

    build = PassBuilder()
    x = build.parameter("x", TensorType(F32, (N, M)))
    block = build.block([x], [build.neg(x)])
    module = rewrite(Module("m", (Function("main", block, ("y",)),)), [declines, applies])
    assert [op.attributes.get("message", op.name) for op in module.main.body.ops] == ["second", "abs"]
