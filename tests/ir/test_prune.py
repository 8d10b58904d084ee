"""Dropping what is dead: ops that nothing needs, symbols and effects that are needed, and captures of blocks."""

import pytest

from onnxc.compiler.ir.module import Module, Op, walk
from onnxc.compiler.ir.op_facts import has_effects
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.verifier import verify_module


def parsed(body: str) -> Module:
    return parse_module(f'module "m" {{\nfunction main(%x: f32[N]) -> ("y") where N in [0, ...] {{\n{body}\n}}\n}}')


def pruned(module: Module) -> Module:
    return map_bodies(module, lambda body, _: prune(body))


def names(module: Module) -> list[str]:
    return [op.name for op in walk(module.main.body)]


LOOP = """  %0 = constant {value = i64[] 3} : i64[]
  %1 = constant {value = bool[] true} : bool[]
  %2 = exp %x : f32[N]
  %3 = log %x : f32[N]
  %4 = while %0, %1, %x, %2, %3 {carried = 1, scans = 0, symbol = "n"} : f32[N]
    block(%i: i64[], %c: f32[N], %a: f32[N], %b: f32[N]) {
      %5 = add %c, %b : f32[N]
      %6 = constant {value = bool[] true} : bool[]
      return %6, %5
    }
  return %4"""


def test_captures_of_a_loop_that_nothing_uses_are_dropped() -> None:
    module = parsed(LOOP)
    verify_module(module)
    after = pruned(module)
    verify_module(after)
    loop = next(op for op in after.main.body.ops if op.name == "while")
    assert len(loop.operands) == 4
    assert "exp" not in names(after)


def test_an_op_that_binds_a_needed_symbol_stays_though_nothing_reads_it() -> None:
    module = parsed(
        """  %0 = non_zero %x {symbol = "n"} : i64[1, n]
  %1 = sizes {dtype = i64, scalar = false, values = [n]} : i64[1]
  return %1"""
    )
    assert names(pruned(module)) == ["non_zero", "sizes"]


def test_sizes_that_nothing_uses_are_not_read_from_data() -> None:
    module = parsed(
        """  %0 = cast %x {dtype = i64, round_mode = "nearest", saturate = true} : i64[N]
  %1 = slice %0 {shape = [1], starts = [0], steps = [1]} : i64[1]
  bind_sizes %1 {symbols = ["?n"]}
  %2 = neg %x : f32[N]
  return %2"""
    )
    assert names(pruned(module)) == ["neg"]


def test_symbols_of_ops_that_stay_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parsed(
        """  %0 = non_zero %x {symbol = "n"} : i64[1, n]
  %1 = sizes {dtype = i64, scalar = false, values = [n]} : i64[1]
  return %1"""
    )
    body = prune(module.main.body)
    asked: list[Op] = []
    monkeypatch.setattr(Op, "_mentioned_symbols", asked.append)
    assert prune(body) is body
    assert asked == []


def test_guards_and_the_sizes_they_speak_of_stay() -> None:
    module = parsed(
        """  %0 = cast %x {dtype = i64, round_mode = "nearest", saturate = true} : i64[N]
  %1 = slice %0 {shape = [1], starts = [0], steps = [1]} : i64[1]
  bind_sizes %1 {symbols = ["?n"]}
  guard {left = ?n, message = "no", relation = "at_least", right = 1}
  return %x"""
    )
    assert names(pruned(module)) == ["cast", "slice", "bind_sizes", "guard"]


def test_control_flow_without_effects_inside_is_dropped() -> None:
    assert names(pruned(parsed(LOOP.replace("return %4", "return %x")))) == []


def test_control_flow_has_the_effects_of_its_blocks() -> None:
    guarded = LOOP.replace(
        "      %5 = add", '      guard {left = N, message = "no", relation = "at_least", right = 1}\n      %5 = add'
    )
    loops = [op for text in (LOOP, guarded) for op in parsed(text).main.body.ops if op.name == "while"]
    assert [has_effects(loop) for loop in loops] == [False, True]
