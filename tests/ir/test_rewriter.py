"""Rewriting modules by rules: order, cascades, types, nested blocks, and what is dropped afterwards."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Op, Value, walk
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, Rule, rewrite, rule
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module

VECTOR = TensorType(F32, (4,))


@rule("neg")
def negate_twice(op: Op, build: Builder) -> Value | None:
    """-(-x) = x"""
    inner = op.operands[0].op
    return inner.operands[0] if inner is not None and inner.name == "neg" else None


@rule("abs")
def abs_by_neg(op: Op, build: Builder) -> Value | None:
    """|x| = -(-x), which is wrong and shows what is visited"""
    return build.neg(build.neg(op.operands[0]))


def module_of(make: Callable[[Builder, Value], Value | tuple[Value, ...]], type: TensorType = VECTOR) -> Module:
    build = Builder()
    x = build.parameter("x", type)
    made = make(build, x)
    results = made if isinstance(made, tuple) else (made,)
    return Module("m", (Function("main", build.block([x], results), tuple(f"r{i}" for i in range(len(results)))),))


def parsed(body: str) -> Module:
    return parse_module(f'module "m" {{\nfunction main(%x: f32[N]) -> ("y") where N in [0, ...] {{\n{body}\n}}\n}}')


def names(module: Module) -> list[str]:
    return [op.name for op in walk(module.main.body)]


def test_a_rule_is_applied_until_it_no_longer_matches() -> None:
    module = module_of(lambda b, x: b.neg(b.neg(b.neg(b.neg(b.neg(x))))))
    assert names(rewrite(module, [negate_twice])) == ["neg"]


def test_what_a_rule_makes_is_rewritten_in_its_turn() -> None:
    module = module_of(lambda b, x: b.exp(b.abs(x)))
    assert names(rewrite(module, [abs_by_neg, negate_twice])) == ["exp"]


def test_the_first_rule_that_matches_wins() -> None:
    to_exp = Rule("to_exp", ("neg",), lambda op, build: build.exp(op.operands[0]))
    to_log = Rule("to_log", ("neg",), lambda op, build: build.log(op.operands[0]))
    assert names(rewrite(module_of(lambda b, x: b.neg(x)), [to_exp, to_log])) == ["exp"]


def test_new_ops_carry_the_location_of_the_op_they_replace() -> None:
    def make(b: Builder, x: Value) -> Value:
        with b.at(Location("main", 3, "node", "ai.onnx.Abs-13")):
            return b.abs(x)

    found = rewrite(module_of(make), [abs_by_neg])
    assert [str(op.location) for op in walk(found.main.body)] == ['graph "main", node 3 "node" (ai.onnx.Abs-13)'] * 2


def test_an_op_that_nothing_changes_stays_the_same_object() -> None:
    module = module_of(lambda b, x: (b.exp(x), b.log(b.neg(b.neg(x)))))
    kept = module.main.body.ops[0]
    after = rewrite(module, [negate_twice])
    assert after.main.body.ops[0] is kept
    assert names(after) == ["exp", "log"]


def test_a_refusal_is_reported_and_changes_nothing() -> None:
    heard: list[tuple[str, str, str]] = []

    @rule("neg")
    def unwilling(op: Op, build: Builder) -> Refusal:
        """-x stays"""
        build.exp(op.operands[0])
        return Refusal("it does not want to")

    module = module_of(lambda b, x: b.neg(x))
    after = rewrite(module, [unwilling], lambda rule, op, refusal: heard.append((rule.name, op.name, refusal.reason)))
    assert heard == [("unwilling", "neg", "it does not want to")]
    assert print_module(after) == print_module(module)


def test_rules_that_undo_each_other_end() -> None:
    back = Rule("back", ("exp",), lambda op, build: build.neg(op.operands[0]))
    forth = Rule("forth", ("neg",), lambda op, build: build.exp(op.operands[0]))
    verify_module(rewrite(module_of(lambda b, x: b.neg(x)), [back, forth]))


def test_sizes_written_differently_are_made_to_fit() -> None:
    module = parsed(
        """  %0 = reshape %x {shape = [N, 1]} : f32[N, 1]
  %1 = neg %0 : f32[N, 1]
  %2 = reshape %1 {shape = [2*floordiv(N, 2)]} : f32[2*floordiv(N, 2)]
  %3 = exp %2 : f32[2*floordiv(N, 2)]
  return %3"""
    )
    straight = Rule("straight", ("reshape",), lambda op, build: build.neg(_root(op)) if op.result.rank == 1 else None)
    after = rewrite(module, [straight])
    verify_module(after)
    assert names(after) == ["neg", "reshape", "exp"]


def _root(op: Op) -> Value:
    value = op.operands[0]
    while value.op is not None:
        value = value.op.operands[0]
    return value


def test_a_rule_that_makes_what_does_not_type_is_a_defect() -> None:
    wrong = Rule("wrong", ("neg",), lambda op, build: build.add(op.operands[0], build.scalar(1, I64)))
    with pytest.raises(AssertionError, match="differ in element type"):
        rewrite(module_of(lambda b, x: b.neg(x)), [wrong])


@pytest.mark.parametrize("twice", [False, True])
def test_uses_are_counted(twice: bool) -> None:
    counted: list[int] = []

    @rule("exp")
    def count(op: Op, build: Rewriter) -> None:
        """counts"""
        counted.append(build.uses(op.operands[0]))

    def make(b: Builder, x: Value) -> tuple[Value, ...]:
        y = b.neg(x)
        return (b.exp(y), b.mul(y, y), y) if twice else (b.exp(y),)

    rewrite(module_of(make), [count])
    assert counted == [4 if twice else 1]


def test_uses_of_what_became_dead_are_not_counted() -> None:
    counted: list[int] = []

    @rule("exp")
    def count(op: Op, build: Rewriter) -> None:
        """counts"""
        counted.append(build.uses(op.operands[0]))

    def make(b: Builder, x: Value) -> Value:
        y = b.log(x)
        return b.exp(b.neg(b.neg(y)))

    rewrite(module_of(make), [negate_twice, count])
    assert counted == [1]


# Nested blocks


def with_branch(inner: Callable[[Builder, Value, Value], Value], captured: Callable[[Builder, Value], Value]) -> Module:
    """if x[0] != 0 {inner(x, captured)} else {x}"""

    def make(b: Builder, x: Value) -> Value:
        condition = b.cast(b.reshape(b.slice(x, (0,), (1,)), ()), BOOL)
        captures = (x, captured(b, x))
        blocks = []
        for place in range(2):
            nested = b.nested()
            taken = [nested.parameter(f"p{i}", value.type) for i, value in enumerate(captures)]
            blocks.append(nested.block(taken, [taken[0] if place else inner(nested, *taken)]))
        return b.if_(condition, captures, blocks, [VECTOR])[0]

    return module_of(make)


def test_nested_blocks_are_rewritten_and_unused_captures_dropped() -> None:
    module = with_branch(lambda b, x, c: b.neg(b.neg(x)), lambda b, x: b.exp(x))
    after = rewrite(module, [negate_twice])
    verify_module(after)
    branch = next(op for op in after.main.body.ops if op.name == "if")
    assert len(branch.operands) == 2
    assert [len(block.parameters) for block in branch.blocks] == [1, 1]
    assert names(after) == ["slice", "reshape", "cast", "if"]


def test_constants_are_made_again_inside_a_block() -> None:
    module = with_branch(lambda b, x, c: b.add(x, c), lambda b, x: b.full((4,), 2, F32))
    after = rewrite(module, [])
    verify_module(after)
    branch = next(op for op in after.main.body.ops if op.name == "if")
    assert len(branch.operands) == 2
    assert [op.name for op in branch.blocks[0].ops] == ["constant", "add"]
    x = np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(interpret(after, {"x": x})[0], x + 2)


def test_a_block_can_be_put_in_the_place_of_its_op() -> None:
    inline = Rule("inline", ("if",), lambda op, build: build.inline(op.blocks[0], op.operands[1:]))
    after = rewrite(with_branch(lambda b, x, c: b.mul(b.neg(x), c), lambda b, x: b.exp(x)), [inline])
    verify_module(after)
    assert names(after) == ["exp", "neg", "mul"]


def test_operands_that_stay_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of(lambda b, x: b.neg(b.add(b.exp(x), b.abs(x))))
    asked: list[Value] = []
    replacement = Rewriter._value
    monkeypatch.setattr(Rewriter, "_value", lambda build, value: asked.append(value) or replacement(build, value))
    assert rewrite(module, [negate_twice]).main.body is module.main.body
    assert asked == [*module.main.body.results]


def test_ten_thousand_ops_take_a_moment() -> None:
    def make(b: Builder, x: Value) -> Value:
        for _ in range(5000):
            x = b.exp(b.neg(b.neg(b.abs(x))))
        return x

    assert len(names(rewrite(module_of(make), [negate_twice]))) == 10000
