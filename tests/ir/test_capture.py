"""Closing blocks: what they use from outside becomes operands and parameters."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.capture import close_blocks, replace_operands
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.module import Block, Function, Module, Value
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.compiler.ir.verifier import verify_module

N = Size.symbol("N")
VECTOR = TensorType(F32, (N,))


def inside(block: Block) -> set[Value]:
    return {*block.parameters, *(result for op in block.ops for result in op.results)}


def is_closed(block: Block) -> bool:
    used = {*block.results, *(operand for op in block.ops for operand in op.operands)}
    return used <= inside(block)


def test_a_block_that_uses_nothing_from_outside_stays() -> None:
    build = Builder()
    x = build.parameter("x", VECTOR)
    passed, (block,) = close_blocks([build.block([x], [build.neg(x)])])
    assert passed == ()
    assert [op.name for op in block.ops] == ["neg"]
    assert block.parameters == (x,)


def test_values_from_outside_are_passed_to_every_block() -> None:
    outer = Builder()
    x, y = outer.parameter("x", VECTOR), outer.parameter("y", VECTOR)
    first, second = outer.nested(), outer.nested()
    blocks = [first.block((), [first.neg(x)]), second.block((), [second.mul(second.neg(y), x)])]
    passed, closed = close_blocks(blocks)
    assert passed == (x, y)
    assert all(map(is_closed, closed))
    assert [[value.type for value in block.parameters] for block in closed] == [[VECTOR, VECTOR]] * 2
    assert [[op.name for op in block.ops] for block in closed] == [["neg"], ["neg", "mul"]]


def test_a_result_from_outside_is_passed_too() -> None:
    outer = Builder()
    x = outer.parameter("x", VECTOR)
    passed, (block,) = close_blocks([Builder().block((), [x])])
    assert passed == (x,)
    assert block.results == block.parameters


def test_own_parameters_stay_before_what_is_captured() -> None:
    outer = Builder()
    x = outer.parameter("x", VECTOR)
    inner = outer.nested()
    own = inner.parameter("own", TensorType(I64, ()))
    _, (block,) = close_blocks([inner.block([own], [x])])
    assert [value.type for value in block.parameters] == [TensorType(I64, ()), VECTOR]


def test_constants_and_known_sizes_are_made_again_inside() -> None:
    outer = Builder()
    x = outer.parameter("x", VECTOR)
    constant, sizes = outer.constant(np.float32([2.0])), outer.sizes([N, 1])
    inner = outer.nested()
    scaled = inner.mul(x, constant)
    passed, (block,) = close_blocks([inner.block((), [scaled, sizes])])
    assert passed == (x,)
    assert is_closed(block)
    assert sorted(op.name for op in block.ops) == ["broadcast", "constant", "mul", "sizes"]
    assert Builder().known(block.results[1]) == (N, 1)


def test_a_value_used_twice_is_passed_once() -> None:
    outer = Builder()
    x = outer.parameter("x", VECTOR)
    inner = outer.nested()
    passed, (block,) = close_blocks([inner.block((), [inner.add(x, x), x])])
    assert passed == (x,)
    assert block.results[1] == block.parameters[0]


def test_closed_blocks_make_a_legal_module() -> None:
    build = Builder()
    x, condition = build.parameter("x", VECTOR), build.parameter("c", TensorType(BOOL, ()))
    y = build.exp(x)
    yes, no = build.nested(), build.nested()
    blocks = [yes.block((), [yes.add(y, 1.0)]), no.block((), [no.mul(x, no.neg(y))])]
    passed, closed = close_blocks(blocks)
    types: list[Type] = [VECTOR]
    results = build.if_(condition, passed, closed, types)
    verify_module(Module("m", (Function("main", build.block([x, condition], results), ("z",)),)))


def test_a_block_within_a_block_hands_its_captures_on() -> None:
    build = Builder()
    x, condition = build.parameter("x", VECTOR), build.parameter("c", TensorType(BOOL, ()))

    def either(outer: Builder, test: Value, depth: int) -> Value:
        branches = [outer.nested(), outer.nested()]
        made = [either(branch, test, depth - 1) if depth else branch.neg(x) for branch in branches]
        passed, closed = close_blocks([branch.block((), [value]) for branch, value in zip(branches, made, strict=True)])
        return outer.if_(test, passed, closed, [VECTOR])[0]

    result = either(build, condition, 2)
    verify_module(Module("m", (Function("main", build.block([x, condition], [result]), ("z",)),)))


def test_replacing_operands_keeps_what_is_not_concerned() -> None:
    build = Builder()
    x, y = build.parameter("x", VECTOR), build.parameter("y", VECTOR)
    kept, changed, after = build.neg(y), build.exp(x), None
    after = build.add(changed, kept)
    made, known = replace_operands(build.ops, {x: y})
    assert made[0] is kept.op
    assert made[1].operands == (y,)
    assert known[after].op is made[2]
    assert made[2].operands == (known[changed], kept)


def test_what_is_made_from_nothing_is_made_again_inside() -> None:
    outer = Builder()
    x = outer.parameter("x", VECTOR)
    two, counter = outer.scalar(2.0, F32), outer.iota((N,), 0, F32)
    inner = outer.nested()
    passed, (block,) = close_blocks([inner.block((), [inner.add(inner.mul(x, two), counter)])])
    assert passed == (x,)
    assert {"constant", "iota"} <= {op.name for op in block.ops}
    assert is_closed(block)
