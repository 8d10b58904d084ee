"""Values are released behind their last use, each once; what a region gives or its last step uses is not."""

from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.planning.release_values import with_releases
from tests.planning.plans import plan, step_lines

COUNTS = """\
module "counts" {
function main(%x: f32[N], %unread: f32[N]) -> ("y", "z") where N in [0, ...] {
  %0 = abs %x : f32[N]
  %1 = non_zero %0 {symbol = "nonzero"} : i64[1, nonzero]
  %2 = neg %1 : i64[1, nonzero]
  %3 = non_zero %2 {symbol = "more"} : i64[2, more]
  %4 = non_zero %3 {symbol = "most"} : i64[2, most]
  return %3, %4
}
}"""

LOOP = """\
module "loop" {
function main(%x: f32[N], %limit: i64[], %again: bool[]) -> ("y") where N in [0, ...] {
  %0 = while %limit, %again, %x {carried = 1, scans = 0, symbol = "steps"} : f32[N]
    block(%iteration: i64[], %state: f32[N]) {
      %1 = neg %state : f32[N]
      %2 = non_zero %1 {symbol = "found"} : i64[1, found]
      %3 = reduce %2 {axes = [0, 1], kind = "sum"} : i64[]
      %4 = less %iteration, %3 : bool[]
      return %4, %1
    }
  %5 = exp %0 : f32[N]
  return %5
}
}"""


def test_a_value_is_released_behind_the_last_step_that_uses_it() -> None:
    assert step_lines(plan(parse_module(COUNTS))) == [
        "segment (%x) -> (%0), arena 0 bytes",
        "release %x",
        "host non_zero (%0) -> (%1)",
        "release %0",
        "segment (%1) -> (%2), arena 0 bytes",
        "release %1",
        "host non_zero (%2) -> (%3)",
        "release %2",
        "host non_zero (%3) -> (%4)",
    ]


def test_a_loop_releases_what_its_iterations_make() -> None:
    assert step_lines(plan(parse_module(LOOP))) == [
        "loop (%limit, %again, %x) -> (%0), 1 carried, 0 stacked",
        "  region (%iteration, %state) -> (%1, %2)",
        "    segment (%state) -> (%2), arena 0 bytes",
        "    release %state",
        "    host non_zero (%2) -> (%3)",
        "    segment (%3, %iteration) -> (%1), arena 0 bytes",
        "release %limit, %again, %x",
        "segment (%0) -> (%4), arena 0 bytes",
    ]


def test_one_step_releases_nothing() -> None:
    body = plan(parse_module(COUNTS)).body
    assert with_releases(body.steps[:1], body.block.results) == body.steps[:1]
    assert with_releases((), body.block.results) == ()
