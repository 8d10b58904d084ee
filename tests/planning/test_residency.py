"""Values are brought where they are read: by a step of the plan where that is certain, else only the call knows."""

from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.planning.kernel_plan import Transfer, walk_steps
from onnxc.compiler.planning.residency import copies_of
from tests.planning.plans import DEVICE, TARGET, plan, step_lines

MIDDLE = """\
module "middle" {
function main(%x: f32[N]) -> ("y", "z") where N in [0, ...] {
  %0 = abs %x : f32[N]
  %1 = non_zero %0 {symbol = "count"} : i64[1, count]
  %2 = neg %1 : i64[1, count]
  %3 = exp %0 : f32[N]
  %4 = non_zero %0 {symbol = "again"} : i64[1, again]
  return %2, %4
}
}"""

LOOP = """\
module "loop" {
function main(%x: f32[4], %limit: i64[], %again: bool[]) -> ("y") {
  %0 = exp %x : f32[4]
  %1 = while %limit, %again, %0, %0 {carried = 1, scans = 0, symbol = "steps"} : f32[4]
    block(%iteration: i64[], %state: f32[4], %captured: f32[4]) {
      %2 = add %state, %captured : f32[4]
      %3 = non_zero %captured {symbol = "count"} : i64[1, count]
      %4 = reduce %3 {axes = [0, 1], kind = "sum"} : i64[]
      %5 = less %iteration, %4 : bool[]
      return %5, %2
    }
  return %1
}
}"""

BRANCH = """\
module "branch" {
function main(%x: f32[4], %c: bool[]) -> ("y", "z") {
  %0 = exp %x : f32[4]
  %1 = if %c, %0 : i64[1, rows]
    block(%a: f32[4]) {
      %2 = non_zero %a {symbol = "count"} : i64[1, count]
      return %2
    }
    block(%b: f32[4]) {
      %3 = constant {value = i64[1, 0] []} : i64[1, 0]
      %4 = neg %3 : i64[1, 0]
      return %4
    }
  %5 = neg %1 : i64[1, rows]
  %6 = non_zero %5 {symbol = "more"} : i64[2, more]
  return %5, %6
}
}"""

# %a is on the device in the first two iterations, and on the host in the third.
ROTATE = """\
module "rotate" {
function main(%x: f32[], %m: i64[], %k: bool[]) -> ("y") {
  %0 = exp %x : f32[]
  %1 = host %x {function = "opaque"} : f32[]
  %2, %3, %4, %5 = while %m, %k, %0, %0, %1, %k {carried = 3, scans = 1, symbol = "n"} : f32[], f32[], f32[], f32[n]
    block(%iteration: i64[], %a: f32[], %b: f32[], %c: f32[], %go: bool[]) {
      %6 = neg %a : f32[]
      return %go, %b, %c, %a, %6
    }
  return %5
}
}"""


def test_what_a_host_step_reads_is_copied_once_and_what_it_makes_before_a_launch() -> None:
    assert step_lines(plan(parse_module(MIDDLE), DEVICE)) == [
        "segment (%x) -> (%0), arena 0 bytes",
        "release %x",
        "transfer %0 to host",
        "host non_zero (%0) -> (%1)",
        "host non_zero (%0) -> (%2)",
        "release %0",
        "transfer %1 to device",
        "segment (%1) -> (%3), arena 0 bytes",
    ]


def test_launches_on_the_host_need_no_transfers() -> None:
    assert not any(isinstance(step, Transfer) for step in walk_steps(plan(parse_module(MIDDLE), TARGET).body.steps))


def test_an_iteration_ends_with_its_condition_on_the_host() -> None:
    assert step_lines(plan(parse_module(LOOP), DEVICE)) == [
        "segment (%x) -> (%0), arena 0 bytes",
        "release %x",
        "loop (%limit, %again, %0, %0) -> (%1), 1 carried, 0 stacked",
        "  region (%iteration, %state, %captured) -> (%2, %3)",
        "    transfer %captured to host",
        "    host non_zero (%captured) -> (%4)",
        "    transfer %4 to device",
        "    transfer %iteration to device",
        "    segment (%state, %captured, %4, %iteration) -> (%3, %2), arena 0 bytes",
        "    transfer %2 to host",
    ]


def test_what_one_branch_leaves_on_the_host_and_the_other_on_the_device_is_for_the_call_to_bring() -> None:
    made = plan(parse_module(BRANCH), DEVICE)
    assert step_lines(made)[2:10] == [
        "branch (%c, %0) -> (%1)",
        "  region (%a) -> (%2)",
        "    transfer %a to host",
        "    host non_zero (%a) -> (%2)",
        "  region (%b) -> (%3)",
        "    segment () -> (%3), arena 0 bytes",
        "release %0, %c",
        "segment (%1) -> (%4), arena 0 bytes",
    ]
    uncertain = [(copy.value.producer.name, copy.to) for copy in copies_of(made) if not copy.is_certain]
    assert uncertain == [("c", "host"), ("a", "host"), ("if", "device")]


def test_what_a_loop_carries_is_followed_through_all_iterations() -> None:
    made = plan(parse_module(ROTATE), DEVICE)
    (copy,) = (copy for copy in copies_of(made) if copy.in_loop)
    assert (copy.value.producer.name, copy.to, copy.is_certain) == ("a", "device", False)
