"""Sizes: what guards prove is used, and guards that are decided go."""

import numpy as np
import pytest

from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, walk
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from onnxc.compiler.passes.simplify.simplify_sizes import simplify_sizes
from onnxc.runtime.errors import InputError


def program(body: str, ranges: str = "N in [0, ...], M in [0, ...]") -> Module:
    module = parse_module(
        f'module "m" {{\nfunction main(%x: f32[N], %y: f32[M]) -> ("z") where {ranges} {{\n{body}\n}}\n}}'
    )
    verify_module(module)
    return module


def simplified(module: Module) -> Module:
    after = simplify_sizes(module)
    verify_module(after)
    return after


def guards(module: Module) -> list[str]:
    return [
        f"{op.attributes['left']} {op.text('relation')} {op.attributes['right']}"
        for op in walk(module.main.body)
        if op.name == "guard"
    ]


def test_a_size_proved_equal_to_another_is_written_as_that_from_the_start() -> None:
    module = program(
        """  %0 = exp %x : f32[N]
  guard {left = N, message = "differ", relation = "equal", right = M}
  %1 = reshape %0 {shape = [M]} : f32[M]
  %2 = add %1, %y : f32[M]
  return %2"""
    )
    after = simplified(module)
    # Which of the two names stays does not matter, but all values have the same one.
    assert guards(after) == ["N equal M"]
    assert [str(op.result.type) for op in after.main.body.ops if op.results] == ["f32[N]", "f32[N]", "f32[N]"]
    assert [op.name for op in after.main.body.ops] == ["guard", "exp", "reshape", "add"]
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(interpret(after, {"x": x, "y": x})[0], interpret(module, {"x": x, "y": x})[0])
    with pytest.raises(InputError, match="differ"):
        interpret(after, {"x": x, "y": x[:2]})


def test_a_clipped_size_that_must_broadcast_is_not_clipped() -> None:
    module = program(
        """  %0 = slice %y {shape = [min(8, N)], starts = [0], steps = [1]} : f32[min(8, N)]
  guard {left = N, message = "too long", relation = "broadcast", right = min(8, N)}
  %1 = broadcast %x {axes = [0], shape = [bcast(N, min(8, N))]} : f32[bcast(N, min(8, N))]
  %2 = broadcast %0 {axes = [0], shape = [bcast(N, min(8, N))]} : f32[bcast(N, min(8, N))]
  %3 = add %1, %2 : f32[bcast(N, min(8, N))]
  return %3"""
    )
    after = simplified(module)
    assert guards(after) == ["8 at_least N"]
    assert {str(op.result.type) for op in after.main.body.ops if op.results} == {"f32[N]"}
    y = np.arange(9, dtype=np.float32)
    for size in (0, 1, 3, 8):
        inputs = {"x": np.ones(size, np.float32), "y": y}
        np.testing.assert_array_equal(interpret(after, inputs)[0], interpret(module, inputs)[0])
    with pytest.raises(InputError, match="too long"):
        interpret(after, {"x": np.ones(9, np.float32), "y": y})


def test_a_size_that_must_be_its_maximum_with_a_number_is_at_least_that() -> None:
    """What 1 + (N - 1) // 2 is to exporters, max(1, ...) here, must be the size of a strided convolution."""
    half = "floordiv(N + 1, 2)"
    module = program(
        f"""  %0 = slice %x {{shape = [{half}], starts = [0], steps = [2]}} : f32[{half}]
  %1 = slice %x {{shape = [max(0, {half} - 1) + 1], starts = [0], steps = [2]}} : f32[max(0, {half} - 1) + 1]
  guard {{left = {half}, message = "empty", relation = "equal", right = max(0, {half} - 1) + 1}}
  %2 = reshape %1 {{shape = [{half}]}} : f32[{half}]
  %3 = add %0, %2 : f32[{half}]
  return %3"""
    )
    after = simplified(module)
    assert guards(after) == [f"{half} at_least 1"]
    assert {str(op.result.type) for op in after.main.body.ops if op.results} == {f"f32[{half}]"}
    with pytest.raises(InputError, match="empty"):
        interpret(after, {"x": np.ones(0, np.float32), "y": np.ones(1, np.float32)})


def test_declared_ranges_decide_guards_and_sizes() -> None:
    body = """  guard {left = 8, message = "a", relation = "at_least", right = N}
  guard {left = N, message = "b", relation = "at_least", right = 2}
  %0 = slice %x {shape = [min(8, N)], starts = [0], steps = [1]} : f32[min(8, N)]
  return %0"""
    after = simplified(program(body, "N in [2, 8], M in [0, ...]"))
    assert guards(after) == []
    assert str(after.main.body.results[0].type) == "f32[N]"
    assert guards(simplified(program(body, "N in [2, 9], M in [0, ...]"))) == ["8 at_least N"]


def test_a_guard_that_another_one_decides_goes() -> None:
    module = program(
        """  guard {left = 2*N, message = "twice", relation = "equal", right = 2*M}
  guard {left = N, message = "once", relation = "equal", right = M}
  guard {left = N, message = "wide", relation = "broadcast", right = M}
  return %x"""
    )
    assert guards(simplified(module)) == ["N equal M"]


def test_a_contradiction_stays_for_the_call_to_report() -> None:
    module = program('  guard {left = 2, message = "never", relation = "equal", right = 3}\n  return %x')
    assert guards(simplified(module)) == ["2 equal 3"]


def test_what_data_decides_is_known_from_its_guard_on() -> None:
    module = program(
        """  %0 = cast %x {dtype = i64, round_mode = "nearest", saturate = true} : i64[N]
  %1 = slice %0 {shape = [1], starts = [0], steps = [1]} : i64[1]
  bind_sizes %1 {symbols = ["?n"]}
  %2 = slice %y {shape = [?n], starts = [0], steps = [1]} : f32[?n]
  guard {left = ?n, message = "differ", relation = "equal", right = M}
  %3 = reshape %2 {shape = [M]} : f32[M]
  %4 = add %3, %y : f32[M]
  return %4"""
    )
    after = simplified(module)
    assert guards(after) == ["?n equal M"]
    assert [op.name for op in after.main.body.ops][3:] == ["slice", "guard", "reshape", "add"]
    x, y = np.array([2, 5], np.float32), np.ones(2, np.float32)
    np.testing.assert_array_equal(interpret(after, {"x": x, "y": y})[0], 2 * y)


def test_nested_blocks_follow() -> None:
    module = program(
        """  guard {left = N, message = "differ", relation = "equal", right = M}
  %0 = constant {value = bool[] true} : bool[]
  %1 = reshape %x {shape = [M]} : f32[M]
  %2 = if %0, %1 : f32[M]
    block(%a: f32[M]) {
      guard {left = N, message = "again", relation = "equal", right = M}
      %3 = neg %a : f32[M]
      return %3
    }
    block(%a: f32[M]) {
      return %a
    }
  return %2"""
    )
    after = simplified(module)
    assert guards(after) == ["N equal M"]
    assert {str(op.result.type) for op in walk(after.main.body) if op.name in ("neg", "if")} == {"f32[N]"}


def test_what_a_block_learns_does_not_leave_it() -> None:
    module = program(
        """  %0 = constant {value = bool[] true} : bool[]
  %1 = if %0, %y : f32[M]
    block(%a: f32[M]) {
      guard {left = N, message = "inside", relation = "equal", right = M}
      %2 = neg %a : f32[M]
      return %2
    }
    block(%a: f32[M]) {
      return %a
    }
  %3 = exp %1 : f32[M]
  return %3"""
    )
    after = simplified(module)
    assert guards(after) == ["N equal M"]
    assert str(after.main.body.results[0].type) == "f32[M]"


def test_the_result_is_the_same_every_time() -> None:
    module = program(
        """  guard {left = N, message = "a", relation = "equal", right = M}
  guard {left = 512, message = "b", relation = "at_least", right = M}
  %0 = reshape %x {shape = [M]} : f32[M]
  %1 = add %0, %y : f32[M]
  return %1"""
    )
    first, second = (print_module(eliminate_common_subexpressions(simplified(module))) for _ in range(2))
    assert first == second


TWICE = """  %0 = non_zero %x {symbol = "a"} : i64[1, a]
  %1 = exp %y : f32[M]
  %2 = non_zero %x {symbol = "b"} : i64[1, b]
  guard {left = a, message = "differ", relation = "equal", right = b}
  %3 = reshape %2 {shape = [1, a]} : i64[1, a]
  %4 = add %0, %3 : i64[1, a]
  %5 = iota {axis = 0, dtype = i64, shape = [b]} : i64[b]
  %6 = reshape %5 {shape = [1, a]} : i64[1, a]
  %7 = add %4, %6 : i64[1, a]
  return %7"""


def test_what_is_not_zero_in_a_value_is_looked_for_once() -> None:
    module = program(TWICE)
    after = simplified(module)
    assert guards(after) == []
    assert [op.name for op in after.main.body.ops].count("non_zero") == 1
    assert {str(op.result.type) for op in after.main.body.ops} <= {"i64[1, a]", "i64[a]", "f32[M]"}
    y = np.zeros(2, np.float32)
    for x in ([], [0, 0], [0, 3, 0, 1]):
        inputs = {"x": np.array(x, np.float32), "y": y}
        np.testing.assert_array_equal(interpret(after, inputs)[0], interpret(module, inputs)[0])


def test_what_is_not_zero_in_two_values_is_looked_for_in_both() -> None:
    module = program(TWICE.replace("%2 = non_zero %x", "%2 = non_zero %1"))
    assert [op.name for op in simplified(module).main.body.ops].count("non_zero") == 2
    assert guards(simplified(module)) == ["a equal b"]


def test_what_a_block_looks_for_again_has_a_size_of_its_own() -> None:
    module = program(
        """  %0 = reduce %x {axes = [0], kind = "max"} : f32[]
  %1 = less %0, %0 : bool[]
  %2 = if %1, %x : i64[1, c]
    block(%a: f32[N]) {
      %3 = non_zero %a {symbol = "a"} : i64[1, a]
      %4 = non_zero %a {symbol = "b"} : i64[1, b]
      return %4
    }
    block(%b: f32[N]) {
      %5 = non_zero %b {symbol = "d"} : i64[1, d]
      return %5
    }
  return %2"""
    )
    assert [op.name for op in walk(simplified(module).main.body)].count("non_zero") == 3


# What is found of x, by its places; of none, nothing.
BRANCHES = """  %0 = non_zero %x {{symbol = "k"}} : i64[1, k]
  %1 = reshape %0 {{shape = [k]}} : i64[k]
  %2 = sizes {{dtype = i64, scalar = true, values = [{size}]}} : i64[]
  %3 = constant {{value = i64[] {number}}} : i64[]
  %4 = {comparison} : bool[]
  %5 = if %4, %1, %y : i64[m]
    block(%a: i64[k], %b: f32[M]) {{
      {first}
    }}
    block(%a: i64[k], %b: f32[M]) {{
      {second}
    }}
  %6 = slice %5 {{shape = [min(3, m)], starts = [0], steps = [1]}} : i64[min(3, m)]
  %7 = cast %6 {{dtype = f32, round_mode = "nearest", saturate = true}} : f32[min(3, m)]
  return %7"""
NOTHING = "%8 = constant {value = i64[0] []} : i64[0]\n      return %8"
FOUND_AGAIN = (
    '%8 = non_zero %a {symbol = "j"} : i64[1, j]\n      %9 = reshape %8 {shape = [j]} : i64[j]\n'
    "      %10 = gather %a, %9 {axis = 0} : i64[j]\n      return %10"
)
BRANCHING = {"size": "k", "number": "0", "comparison": "equal %2, %3", "first": NOTHING, "second": FOUND_AGAIN}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"size": "4*k"},
        {"size": "2*min(7, k)"},
        {"comparison": "less %3, %2", "first": FOUND_AGAIN, "second": NOTHING},
        {"comparison": "less_equal %2, %3"},
    ],
)
def test_a_branch_for_nothing_goes_where_the_other_one_makes_nothing_of_it(changed: dict[str, str]) -> None:
    module = program(BRANCHES.format(**BRANCHING | changed))
    after = simplified(module)
    assert [op.name for op in walk(after.main.body) if op.name == "if"] == []
    assert str(after.main.body.results[0].type) == "f32[min(3, j)]"
    for x in ([], [0, 0], [3], [0, 1, 2, 0, 5, 6]):
        inputs = {"x": np.array(x, np.float32), "y": np.zeros(2, np.float32)}
        (found,), (wanted,) = interpret(after, inputs), interpret(module, inputs)
        assert (found.dtype, found.shape, found.tolist()) == (wanted.dtype, wanted.shape, wanted.tolist())


@pytest.mark.parametrize(
    "changed",
    [
        {"number": "1"},
        {"size": "k*N"},
        {"size": "k - 1"},
        {"size": "max(3, k)"},
        # Of none it would make one.
        {"first": "%8 = constant {value = i64[1] [0]} : i64[1]\n      return %8"},
        {"first": FOUND_AGAIN.replace("j", "i"), "second": NOTHING},
        # Of none there is no first one, and the call would be refused.
        {"second": "%8 = constant {value = i64[1] [0]} : i64[1]\n      %9 = gather %a, %8 {axis = 0} : i64[1]\n"
         "      %11 = slice %a {shape = [k], starts = [0], steps = [1]} : i64[k]\n      return %11"},
        {"second": 'guard {left = M, message = "too few", relation = "at_least", right = 1}\n      return %a'},
        # How many there are of y has nothing to do with it.
        {"second": '%8 = non_zero %b {symbol = "j"} : i64[1, j]\n      %9 = reshape %8 {shape = [j]} : i64[j]\n'
         "      return %9"},
    ],
)  # fmt: skip
def test_branches_stay_where_none_does_for_the_other(changed: dict[str, str]) -> None:
    after = simplified(program(BRANCHES.format(**BRANCHING | changed)))
    assert [op.name for op in walk(after.main.body) if op.name == "if"] == ["if"]
