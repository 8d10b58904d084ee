"""Routines: what is one native call, and that the proof of their buffers notices what is wrong."""

from dataclasses import replace

import pytest

from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import (
    BindSizes,
    Carried,
    Collective,
    GuardStep,
    HostStep,
    KernelPlan,
    Loop,
    Release,
    Routine,
    Segment,
)
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.routine.check_routine import check_routine
from tests.codegen_host.native import HOST

# The sum of x and y, which the loop carries, changes places with y; the data says how often.
SWAPPED = """module "m" {
function main(%x: f32[N], %y: f32[N], %n: i64[], %c: bool[]) -> ("a", "b", "rows") where N in [0, ...] {
  %sum = add %x, %y : f32[N]
  %twice = add %sum, %sum : f32[N]
  %a, %b, %rows = while %n, %c, %sum, %y, %twice {carried = 2, scans = 1, symbol = "k"} : f32[N], f32[N], f32[k, N]
    block(%i: i64[], %p: f32[N], %q: f32[N], %t: f32[N]) {
      %going = constant {value = bool[] true} : bool[]
      %next = mul %p, %t : f32[N]
      return %going, %q, %next, %p
    }
  %last = neg %a : f32[N]
  return %last, %b, %rows
}
}"""

# A host step between two native ones; sizes from data are bound as early as can be.
BROKEN = """module "m" {
function main(%x: f32[N], %n: i64[1]) -> ("y") where N in [0, ...] {
  guard {left = N, message = "too few", relation = "at_least", right = 1}
  %0 = neg %x : f32[N]
  %1 = host %0 {function = "unchanged", mode = "any"} : f32[N]
  %2 = mul %1, %1 : f32[N]
  bind_sizes %n {symbols = ["?k"]}
  guard {left = N, message = "other sizes", relation = "equal", right = ?k}
  %3 = reshape %2 {shape = [?k]} : f32[?k]
  %4 = abs %3 : f32[?k]
  return %4
}
}"""

# The second product depends on nothing that is exchanged.
OVERLAPPED = """module "m" {
function main(%x: f32[N, 4], %w: f32[4, 4]) -> ("y", "z") where N in [0, ...] {
  %0 = dot %x, %w {dtype = f32, equation = "mk,kn->mn"} : f32[N, 4]
  %1 = all_gather %0 {axis = 0, groups = [[0, 1]]} : f32[2*N, 4]
  %2 = neg %1 : f32[2*N, 4]
  %3 = abs %x : f32[N, 4]
  %4 = dot %3, %w {dtype = f32, equation = "mk,kn->mn"} : f32[N, 4]
  return %2, %4
}
}"""


def planned(text: str) -> KernelPlan:
    plan = plan_kernels(parse_module(text), cpu_plan_target(HOST))
    check_plan(plan)
    return plan


def routine_of(plan: KernelPlan) -> Routine:
    (routine,) = (step for step in plan.body.steps if isinstance(step, Routine))
    return routine


def test_a_program_without_the_host_is_one_routine() -> None:
    plan = planned(SWAPPED)
    assert [type(step) for step in plan.body.steps] == [Routine]
    assert [type(step) for step in routine_of(plan).steps] == [Segment, Loop, Segment]


def test_the_host_and_guards_that_inputs_decide_stay_outside() -> None:
    plan = planned(BROKEN)
    kinds = [type(step) for step in plan.body.steps if not isinstance(step, Release)]
    assert kinds == [GuardStep, Routine, HostStep, Segment]
    assert [type(step) for step in routine_of(plan).steps] == [BindSizes, GuardStep, Segment]


def test_outputs_whose_sizes_only_the_call_finds_are_late() -> None:
    routine = routine_of(planned(SWAPPED))
    assert [str(routine.outputs[k].type) for k in routine.late] == ["f32[k, N]"]
    assert routine_of(planned(BROKEN)).late == ()


def test_a_result_that_is_another_parameter_is_copied_and_a_written_one_exchanged() -> None:
    (loop,) = routine_of(planned(SWAPPED)).loops.values()
    assert [each.how for each in loop.carried] == ["copied", "exchanged"]
    assert len(loop.stacked) == 1


def test_the_text_of_a_plan_shows_routines() -> None:
    text = str(planned(SWAPPED))
    assert "routine (%x, %y, %n, %c) -> " in text
    assert "carried copied, exchanged" in text


def test_values_that_are_needed_at_one_time_have_different_buffers() -> None:
    routine = routine_of(planned(SWAPPED))
    first, second = list(routine.buffers)[:2]
    broken = replace(routine, buffers={**routine.buffers, second: routine.buffers[first]})
    with pytest.raises(AssertionError, match="which holds another"):
        check_routine(broken, ())


def test_a_buffer_of_a_loop_is_none_of_its_body() -> None:
    routine = routine_of(planned(SWAPPED))
    ((step, loop),) = routine.loops.items()
    copied, exchanged = loop.carried
    captured = next(buffer for value, buffer in routine.buffers.items() if value in step.op.operands)
    for carried in ((Carried("copied", copied.buffer, captured), exchanged), (copied, Carried("exchanged", 1, 1))):
        with pytest.raises(AssertionError):
            check_routine(replace(routine, loops={step: replace(loop, carried=carried)}), ())


def test_there_are_as_many_buffers_as_are_used() -> None:
    routine = routine_of(planned(SWAPPED))
    with pytest.raises(AssertionError, match="there is no buffer"):
        check_routine(replace(routine, buffer_count=routine.buffer_count - 1), ())


def test_what_overlaps_with_an_exchange_is_a_call_of_its_own() -> None:
    steps = (step for step in planned(OVERLAPPED).body.steps if not isinstance(step, Release))
    first, exchange, meanwhile, behind = steps
    assert isinstance(first, Segment)
    assert isinstance(exchange, Collective)
    assert isinstance(meanwhile, Segment)
    assert isinstance(behind, Segment)
    assert exchange.op.result not in meanwhile.inputs
    assert exchange.op.result in behind.inputs
