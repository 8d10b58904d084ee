"""Buffers: values that live at once never overlap, whatever the sizes; a plan in which they do is rejected."""

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, Size, floordiv
from onnxc.compiler.ir.dtypes import BOOL, F32, F64
from onnxc.compiler.ir.module import Parameter, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.check_plan import check_plan, check_segment
from onnxc.compiler.planning.kernel_plan import Branch, Lifetime, Region, Segment
from onnxc.compiler.planning.place_buffers import ALIGNMENT_BYTES, Life, Placement, aligned, place_buffers, value_bytes
from tests.planning.plans import make, plan

N, M = Size.symbol("N"), Size.symbol("M")
SIZES: list[Dim] = [
    1,
    7,
    64,
    N,
    M,
    N * M,
    N + 1,
    2 * N,
    N * N,
    N + M,
    4 * N * M,
    maximum(N, M),
    minimum(N, 5),
    floordiv(N, 2),
]
VALUES = [{"N": n, "M": m} for n in (0, 1, 2, 17) for m in (0, 1, 5, 64)]


@composite
def lives(draw: DrawFn) -> list[Life]:
    """Values with their first and last launch, in order of the first."""
    count = draw(st.integers(0, 12))
    firsts = sorted(draw(st.lists(st.integers(0, 8), min_size=count, max_size=count)))
    dtypes = st.sampled_from((F32, F64, BOOL))
    return [
        _life(
            Parameter("x", TensorType(draw(dtypes), (draw(st.sampled_from(SIZES)),))).value,
            first,
            first + draw(st.integers(0, 4)),
        )
        for first in firsts
    ]


def _life(value: Value, first: int, last: int) -> Life:
    return Life(value, value_bytes(value), first, last)


def _segment(placement: Placement) -> Segment:
    return Segment((), (), (), placement.slot_bytes, placement.lifetimes)


@settings(max_examples=300, deadline=None)
@given(lives())
def test_what_lives_at_once_is_apart(given_lives: list[Life]) -> None:
    placement = place_buffers(given_lives, {})
    segment = _segment(placement)
    check_segment(segment, {})
    for sizes in VALUES:
        ends = [0, *accumulate(evaluate(size, sizes) for size in segment.slots)]
        assert evaluate(segment.arena_bytes, sizes) == ends[-1]
        ranges = [
            (ends[placement.slots[life.tenant]], evaluate(life.size_bytes, sizes), life.first, life.last)
            for life in given_lives
        ]
        for index, (start, length, first, last) in enumerate(ranges):
            assert start % ALIGNMENT_BYTES == 0
            assert start + length <= ends[-1]
            for other_start, other_length, other_first, other_last in ranges[:index]:
                if first <= other_last and other_first <= last:
                    assert start + length <= other_start or other_start + other_length <= start


@settings(max_examples=100, deadline=None)
@given(lives().filter(lambda found: len(found) > 1), st.data())
def test_a_corrupted_placement_is_rejected(given_lives: list[Life], data: st.DataObject) -> None:
    placement = place_buffers(given_lives, {})
    segment = _segment(placement)
    index = data.draw(st.integers(0, len(given_lives) - 1))
    life = placement.lifetimes[index]
    at_once = [x for x in placement.lifetimes if x is not life and x.first <= life.last and life.first <= x.last]
    for changed in [replace(life, slot=other.slot) for other in at_once if other.slot != life.slot]:
        lifetimes = (*placement.lifetimes[:index], changed, *placement.lifetimes[index + 1 :])
        with pytest.raises(AssertionError):
            check_segment(replace(segment, lifetimes=lifetimes), {})
    with pytest.raises(AssertionError):
        check_segment(replace(segment, slots=(*segment.slots[:-1], segment.slots[-1] + 64)), {})
    with pytest.raises(AssertionError):
        check_segment(replace(segment, slots=(*segment.slots, 64)), {})


def test_space_is_used_again_where_the_order_of_sizes_is_certain() -> None:
    small, large, other = (Parameter("x", TensorType(F32, (size,))).value for size in (N, N + 5, M))
    placement = place_buffers([_life(large, 0, 1), _life(small, 2, 3)], {})
    assert placement.slots == {small: 0, large: 0}
    placement = place_buffers([_life(small, 0, 1), _life(large, 2, 3)], {})
    assert placement.slot_bytes == (aligned(value_bytes(large)),)
    placement = place_buffers([_life(small, 0, 1), _life(other, 2, 3)], {})
    assert placement.slot_bytes == (aligned(value_bytes(small)), aligned(value_bytes(other)))


@pytest.mark.parametrize("sizes", [(512, 128, 256, 128), (128, 512, 128, 256), (256, 128, 512, 128)], ids=str)
def test_of_slots_that_are_large_enough_the_first_of_the_smallest_is_taken(sizes: tuple[int, ...]) -> None:
    before = [Life(ordinal, size, 0, 0) for ordinal, size in enumerate(sizes)]
    placement = place_buffers([*before, Life(9, 100, 1, 1)], {})
    assert placement.slots[9] == placement.slots[sizes.index(128)]


def test_ranges_of_symbols_decide_orders() -> None:
    one, many = (Parameter("x", TensorType(F32, (size,))).value for size in (4, N))
    assert place_buffers([_life(one, 0, 0), _life(many, 1, 1)], {"N": (4, None)}).slots[many] == 0
    assert place_buffers([_life(one, 0, 0), _life(many, 1, 1)], {}).slots[many] == 1


def test_no_values_need_no_arena() -> None:
    assert place_buffers([], {}) == Placement({}, (), ())


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4 * N + 1])
def test_alignment(size: Dim) -> None:
    for sizes in VALUES:
        rounded, exact = evaluate(aligned(size), sizes), evaluate(size, sizes)
        assert rounded % ALIGNMENT_BYTES == 0
        assert exact <= rounded < exact + ALIGNMENT_BYTES


def test_a_plan_is_checked_in_all_its_bodies() -> None:
    made = plan(make(["f32[N, 4]"], lambda ir, x: ir.softmax(ir.softmax(ir.softmax(x, 0), 1), 0)))
    (segment,) = made.body.steps
    assert isinstance(segment, Segment)
    overlapping = tuple(Lifetime(0, life.size_bytes, life.first, life.last) for life in segment.lifetimes)
    wrong = replace(segment, lifetimes=overlapping)
    for body in (Region(made.body.block, (wrong,)), Region(made.body.block, (_nested(made.body, wrong),))):
        with pytest.raises(AssertionError):
            check_plan(replace(made, body=body))


def _nested(body: Region, segment: Segment) -> Branch:
    return Branch(body.block.ops[0], Region(body.block, ()), Region(body.block, (segment,)))


@pytest.mark.parametrize("unit", [1, N, N * M])
def test_small_values_do_not_take_the_slots_of_large_ones(unit: Dim) -> None:
    """As the features of densenet121: each step has a large value for a while, and leaves a small one until the end."""
    large = [_life(_value(20 * unit), 2 * step, 2 * step) for step in range(5)]
    small = [_life(_value(2 * unit), 2 * step + 1, 20) for step in range(5)]
    lives = [life for both in zip(large, small, strict=True) for life in both]
    assert sorted(place_buffers(lives, {}).slot_bytes, key=str) == sorted(
        (aligned(80 * unit), *[aligned(8 * unit)] * 4), key=str
    )


def test_slots_are_counted_in_the_order_of_launches() -> None:
    placement = place_buffers([_life(_value(1), 0, 2), _life(_value(9), 1, 2), _life(_value(5), 3, 4)], {})
    assert [*placement.slots.values()] == [0, 1, 1]


def _value(size: Dim) -> Value:
    return Parameter("x", TensorType(F32, (size,))).value
