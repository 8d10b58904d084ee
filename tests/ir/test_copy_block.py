"""Copying blocks: the same results, with symbols and parameters of their own."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.copy_block import copy_block
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Value
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.verifier import verify_module

PROGRAM = """module "m" {
function main(%x: f32[4], %n: i64[1]) -> ("y") {
  %0 = non_zero %x {symbol = "found"} : i64[1, found]
  %1 = transpose %0 {permutation = [1, 0]} : i64[found, 1]
  %2 = gather_nd %x, %1 {batch_dims = 0} : f32[found]
  bind_sizes %n {symbols = ["?size"]}
  %3 = iota {shape = [found, ?size], axis = 1, dtype = f32} : f32[found, ?size]
  %4 = broadcast %2 {axes = [0], shape = [found, ?size]} : f32[found, ?size]
  %5 = add %3, %4 : f32[found, ?size]
  %6 = reduce %5 {kind = "sum", axes = [0, 1]} : f32[]
  return %6
}
}
"""


def copied(module: Module, times: int) -> Module:
    """A module with the results of the body, `times` over."""
    build = Builder()
    body = module.main.body
    parameters = [build.parameter(value.producer.name, value.type) for value in body.parameters]
    results: list[Value] = []
    for _ in range(times):
        results += copy_block(body, parameters, build)
    names = tuple(f"y{place}" for place in range(len(results)))
    return Module("m", (Function("main", build.block(parameters, results), names, module.main.symbols),))


def test_symbols_that_ops_bind_get_names_of_their_own() -> None:
    module = parse_module(PROGRAM)
    twice = copied(module, 2)
    verify_module(twice)
    text = print_module(twice)
    assert "found_1" in text
    assert "?size_1" in text
    inputs = {"x": np.array([0, 2, 0, 3], np.float32), "n": np.array([2])}
    (expected,) = interpret(module, inputs)
    for result in interpret(twice, inputs):
        np.testing.assert_array_equal(result, expected)


def test_a_copy_keeps_that_a_size_may_be_negative() -> None:
    build = Builder()
    build.symbols.ranges["?size"] = (-5, 7)
    body = parse_module(PROGRAM).main.body
    parameters = [build.parameter(value.producer.name, value.type) for value in body.parameters]
    copy_block(body, parameters, build)
    assert build.symbols.ranges["?size_1"] == (-5, 7)
