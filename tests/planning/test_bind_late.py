"""Sizes from data that nobody waits for: what follows is planned for the most, until a step needs what they are."""

from dataclasses import replace

import pytest

from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.planning.bind_late import bind_late, check_bind_late
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import (
    BindLate,
    BindMost,
    Buffer,
    KernelPlan,
    Launch,
    Region,
    Release,
    Segment,
    SizeRange,
    Transfer,
    Variant,
    segments_of,
)
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.residency import copies_of
from tests.planning.plans import DEVICE, plan, step_lines

LATE = replace(DEVICE, serves_less=lambda kernel: True)

COUNTED = """\
  %0 = cast %x {dtype = i64, round_mode = "nearest", saturate = true} : i64[N]
  %1 = reduce %0 {axes = [0], kind = "sum"} : i64[]
  %2 = reshape %1 {shape = [1]} : i64[1]
  bind_sizes %2 {symbols = ["count"]}
  %3 = slice %v {shape = [count], starts = [0], steps = [1]} : f32[count]
"""


def module(rest: str, results: str, names: str, counted: str = COUNTED) -> str:
    """A module that keeps the first elements of `v`, as many as are true in `x`."""
    head = f'module "m" {{\nfunction main(%x: bool[N], %v: f32[N]) -> ({names}) where N in [0, ...] {{\n'
    return f"{head}{counted}{rest}  return {results}\n}}\n}}"


def planned(text: str) -> KernelPlan:
    return plan(parse_module(text), LATE)


def test_what_follows_a_count_is_launched_for_the_most_and_the_count_is_read_at_the_end() -> None:
    made = planned(module("  %4 = neg %3 : f32[count]\n", "%4", '"y"'))
    assert step_lines(made) == [
        "segment (%x) -> (%0), arena 0 bytes",
        "release %x",
        "bind count to N, the most of %0",
        "segment (%v, %0) -> (%1), arena 0 bytes",
        "release %v",
        "bind late count from %0, shapes of (%1)",
    ]
    assert copies_of(made) == ()
    _, late = segments_of(made.body.steps)
    assert late.counts == (("count", Buffer("input", 1)),)
    kernel = made.kernels[late.launches[0].general.kernel]
    assert [name for name, size in zip(kernel.symbols, late.launches[0].general.sizes, strict=True)
            if name in kernel.loads and str(size) == "count"] == [*kernel.loads]  # fmt: skip
    assert "loaded" in str(made)


def test_there_must_be_room_for_what_is_made_and_counted() -> None:
    (most,) = (
        step
        for step in planned(module("  %4 = neg %3 : f32[count]\n", "%4", '"y"')).body.steps
        if isinstance(step, BindMost)
    )
    count = Size.symbol("count")
    # The bytes of the result, and its elements.
    assert (most.symbol, most.most, most.room) == ("count", Size.symbol("N"), 5 * count)


def test_a_step_on_the_host_finds_what_it_reads_in_its_shape() -> None:
    text = module('  %4 = neg %3 : f32[count]\n  %5 = host %4 {function = "opaque"} : f32[count]\n', "%5", '"y"')
    made = planned(text)
    assert step_lines(made)[-6:] == [
        "release %v",
        "transfer %0 to host",
        "bind late count from %0, shapes of (%1)",
        "release %0",
        "transfer %1 to host",
        "host host (%1) -> (%2)",
    ]
    assert [copy.to for copy in copies_of(made)] == ["host", "host"]


def test_a_condition_on_a_count_waits_for_it() -> None:
    guard = '  guard {left = count, message = "too few", relation = "at_least", right = 2}\n'
    text = module(f"{guard}  %4 = neg %3 : f32[count]\n", "%4", '"y"')
    # Nothing is computed between: the count is read at once.
    assert "bind sizes count from %0" in step_lines(planned(text))
    assert not [step for step in planned(text).body.steps if isinstance(step, BindMost | BindLate)]


def test_a_condition_on_other_sizes_does_not_wait() -> None:
    guard = '  guard {left = N, message = "too few", relation = "at_least", right = 2}\n'
    text = module(f"  %4 = neg %3 : f32[count]\n{guard}", "%4", '"y"')
    assert any(isinstance(step, BindMost) for step in planned(text).body.steps)


def test_a_count_behind_a_count_is_at_most_what_the_first_one_may_be() -> None:
    again = """\
  %4 = less %3, %3 : bool[count]
  %5 = cast %4 {dtype = i64, round_mode = "nearest", saturate = true} : i64[count]
  %6 = reduce %5 {axes = [0], kind = "sum"} : i64[]
  %7 = reshape %6 {shape = [1]} : i64[1]
  bind_sizes %7 {symbols = ["fewer"]}
  %8 = slice %3 {shape = [fewer], starts = [0], steps = [1]} : f32[fewer]
  %9 = neg %8 : f32[fewer]
"""
    made = planned(module(again, "%3, %9", '"y", "z"'))
    first, second = (step for step in made.body.steps if isinstance(step, BindMost))
    assert (second.symbol, second.most) == ("fewer", Size.symbol("count"))
    # The first is decided before there is a second: for that there must be room for its most.
    assert first.room.symbols == {"count"} if isinstance(first.room, Size) else False
    (late,) = (step for step in made.body.steps if isinstance(step, BindLate))
    assert [str(value.type) for value in late.values] == ["f32[count]", "f32[fewer]"]
    assert copies_of(made) == ()


def without_late(text: str, **target: object) -> bool:
    made = plan_kernels(parse_module(text), replace(LATE, **target))  # type: ignore[arg-type]
    check_plan(made)
    return not [step for step in made.body.steps if isinstance(step, BindMost | BindLate)]


NEGATED = module("  %4 = neg %3 : f32[count]\n", "%4", '"y"')


def test_the_host_waits_where_a_kernel_is_right_for_its_sizes_alone() -> None:
    assert without_late(NEGATED, serves_less=lambda kernel: False)
    assert without_late(NEGATED, serves_less=None)


@pytest.mark.parametrize(
    "counted",
    [
        # The rest: the fewer are counted, the more room it takes.
        COUNTED.replace("[count]", "[N - count]"),
        # What is added up are no ones.
        COUNTED.replace("cast %x {", "cast %v {"),
        # The largest of ones and zeros.
        COUNTED.replace('"sum"', '"max"'),
    ],
)
def test_the_host_waits_where_the_most_is_not_known_or_not_enough(counted: str) -> None:
    kept = "N - count" if "N - count" in counted else "count"
    assert without_late(module(f"  %4 = neg %3 : f32[{kept}]\n", "%4", '"y"', counted))


def test_a_variant_for_more_than_a_count_may_be_is_left_out() -> None:
    count, other = Size.symbol("count"), Size.symbol("N")
    guards: list[tuple[SizeRange, ...]] = [
        (SizeRange(count, 0, 64),),
        (SizeRange(count, 32),),
        (SizeRange(count + other, 32),),
        (SizeRange(other, 7),),
    ]
    made = guarded(guards)
    assert [variant.guard for variant in made] == [
        (SizeRange(count, 0, 64),),
        (SizeRange(other, 32), SizeRange(count + other, 32)),
        (SizeRange(other, 7),),
        (),
    ]


def guarded(guards: list[tuple[SizeRange, ...]]) -> tuple[Variant, ...]:
    """The variants of the launch behind a count, where these guards stand before the general one."""
    early = plan_kernels(parse_module(NEGATED), DEVICE)
    *before, segment = (step for step in early.body.steps if not isinstance(step, Release | Transfer))
    assert isinstance(segment, Segment)
    (launch,) = segment.launches
    variants = (*(replace(launch.general, guard=guard) for guard in guards), launch.general)
    region = Region(early.body.block, (*before, replace(segment, launches=(replace(launch, variants=variants),))))
    steps = bind_late(region, early.kernels, lambda kernel: True)[0].steps
    late: list[Launch] = [launch for each in segments_of(steps) for launch in each.launches]
    return late[-1].variants


def test_a_plan_that_needs_a_size_before_it_was_read_is_not_sound() -> None:
    made = planned(NEGATED)
    for broken in (
        tuple(step for step in made.body.steps if not isinstance(step, BindLate)),
        tuple(replace(step, counts=()) if isinstance(step, Segment) else step for step in made.body.steps),
    ):
        with pytest.raises(AssertionError):
            check_bind_late(Region(made.body.block, broken))


def test_kernels_that_no_launch_runs_any_more_are_gone() -> None:
    made = planned(NEGATED)
    used = {v.kernel for each in segments_of(made.body.steps) for launch in each.launches for v in launch.variants}
    assert used == set(range(len(made.kernels)))
