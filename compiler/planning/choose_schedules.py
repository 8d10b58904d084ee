"""Choosing schedules: which of a target's candidates serves which calls, by its cost model.

Sizes that only a call decides are judged at typical numbers. Where a target says that calls differ much in a size, each
range of it is a case; a case whose best schedule is another than that of all calls becomes a variant with a guard. A
size that a target names samples of is divided further, so that in each range one schedule is close to the best.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import gcd

import numpy as np

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.planning.fusion.fusion_rules import FusionRules
from onnxc.compiler.planning.kernel_plan import Guard, Kernel, KernelKind, Residency, SizeRange
from onnxc.compiler.planning.schedules import Schedule, Tile, Warps
from onnxc.compiler.planning.size_ranges import NEAR_BEST, divide, regrets
from onnxc.runtime.records import record

__all__ = [
    "Case",
    "KernelProblem",
    "Measure",
    "PlanTarget",
    "Sweep",
    "Typical",
    "cases_of",
    "choose_schedules",
    "rank_schedules",
]

MOST_FALLBACKS = 3
"""From the largest tile, 128 numbers of the sums for each thread, to 16."""


@record
class KernelProblem:
    """A kernel that wants a schedule: its block, and which of its parameters are constants."""

    kind: KernelKind
    block: Block
    constants: tuple[int, ...] = ()

    def is_constant(self, parameter: int) -> bool:
        """Whether a parameter is a constant."""
        return parameter in self.constants


@record
class Typical:
    """A range of a size, from `least` up to `most` or without end, and the number that stands for it."""

    value: int
    least: int = 0
    most: int | None = None


@record
class Measure:
    """A size that decides between schedules: a number, or in one of some ranges, the last one the usual.

    samples: numbers at which schedules are compared to divide the last range further, into `most_ranges` in all; of one
    measure alone. Each range may have a kernel of its own, which is compiled and loaded.
    """

    size: Dim
    ranges: tuple[Typical, ...]
    samples: tuple[int, ...] = ()
    most_ranges: int = 1

    def cases(self) -> Sequence[tuple[SizeRange | None, Typical]]:
        """Each range that has numbers of the size, with its condition; none where the size is a number, or one is left.

        A size of 0 is no work, which any schedule does.
        """
        if isinstance(self.size, int):
            return [(None, Typical(self.size, 0, self.size))]
        step = gcd(*(factor for _, factor in self.size.terms))
        ranges = [each for each in self.ranges if each.most is None or step <= each.most]
        if len(ranges) == 1:
            return [(None, ranges[0])]
        return [(SizeRange(self.size, each.least, each.most), each) for each in ranges]

    def within(self, typical: Typical) -> tuple[int, ...]:
        """The samples in a range."""
        inside = (n for n in self.samples if typical.least <= n and (typical.most is None or n <= typical.most))
        return tuple(inside)


@record
class Sweep:
    """Numbers of a measure at which costs are asked for."""

    measure: str
    samples: tuple[int, ...]


@record
class Case:
    """The calls that one schedule is to serve: a typical number for each measure, and the most, None without end.

    sweep: further numbers of one of them, at all of which the schedule is to be good.
    """

    sizes: Mapping[str, int]
    most: Mapping[str, int | None]
    sweep: Sweep | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether no size can be larger than some number."""
        return None not in self.most.values()


@record
class PlanTarget:
    """What planning asks of a target: which ops it has kernels for, and how they may be computed, at what cost.

    fusion: which ops share a kernel. measures: the sizes of a problem that decide. candidates: the schedules that could
    serve a case, the preferred ones first. cost: the seconds that a launch should take; only compared. residency: where
    launches run. compiles_steps: whether loops, branches and sizes from data can be native code. writes_several: the
    kinds whose kernels write several values of one shape. shares_code: whether kernels that differ in numbers alone are
    one, which reads those that are operands, by their ordinals, of ops for which this says so; None where each keeps
    its own. sweep: the cost at each number of a case's sweep, infinite where a schedule must not be taken; asked for
    where a measure has samples. serves_less: whether a kernel that is launched for the most of the symbols that it
    loads does what is right for less; None where no kernel loads sizes. joins_sizes: whether calls in which sizes that
    are broadcast together are equal have kernels of their own.
    """

    name: str
    is_native: Callable[[Op], bool]
    fusion: FusionRules
    measures: Callable[[KernelProblem], Mapping[str, Measure]]
    candidates: Callable[[KernelProblem, Case], Sequence[Schedule]]
    cost: Callable[[KernelProblem, Schedule, Case], float]
    residency: Residency = "host"
    compiles_steps: bool = False
    sweep: Callable[[KernelProblem, Schedule, Case], np.ndarray] | None = None
    writes_several: Collection[KernelKind] = ()
    shares_code: Callable[[Op, int], bool] | None = None
    serves_less: Callable[[Kernel], bool] | None = None
    joins_sizes: bool = False


def choose_schedules(
    problem: KernelProblem, target: PlanTarget, like: Schedule | None = None
) -> tuple[tuple[Guard, Schedule], ...]:
    """The schedules of a kernel with their guards, in the kernel's symbols; the last one serves every call.

    All of them read constants in one layout: no weight is there twice. It is that of the best schedule of the usual
    case among the layouts that leave no case far from its best. like: a schedule whose layout they are to have; no
    schedules where the last one cannot have it.
    """
    *special, (_, usual) = cases_of(problem, target)
    usable = [each for each in target.candidates(problem, usual) if like is None or each.packing == like.packing]
    if not usable:
        return ()
    ranges = [(guard, case, target.candidates(problem, case)) for guard, case in special]
    general = _best(problem, target, usual, _near_everywhere(problem, target, usual, usable, ranges))
    chosen: list[tuple[Guard, Schedule]] = []
    for guard, case, candidates in ranges:
        fitting = [each for each in candidates if each.packing == general.packing]
        known = {general.brief, *(schedule.brief for _, schedule in chosen)}
        best = _best(problem, target, case, fitting, known) if fitting else general
        if best != general:
            chosen.append((guard, best))
    return (*chosen, ((), general))


def _near_everywhere(
    problem: KernelProblem,
    target: PlanTarget,
    usual: Case,
    usable: Sequence[Schedule],
    special: Sequence[tuple[Guard, Case, Sequence[Schedule]]],
) -> Sequence[Schedule]:
    """What is usable, without the layouts of constants that are far from the best one in a case.

    Where all are, those of the layout that is least far. Of f32[N, 3968] by a constant of 100 columns the best for many
    rows packs the rows and leaves the constant as it is, which costs a tenth less than panels of it; 8 and 16 rows then
    went by lines, in 100 and 188 us, and take 32 and 58.
    """
    layouts = list(dict.fromkeys(each.packing for each in usable))
    if not special or len(layouts) == 1:
        return usable
    costs = []
    for case, candidates in ((usual, usable), *((case, candidates) for _, case, candidates in special)):
        row = []
        for layout in layouts:
            fitting = [each for each in candidates if each.packing == layout]
            fitting = fitting or [each for each in usable if each.packing == layout]
            row.append(min(target.cost(problem, each, case) for each in fitting))
        costs.append(row)
    worst = regrets(np.array(costs).T).max(axis=1)
    limit = max(NEAR_BEST, worst.min())
    near = {layout for layout, regret in zip(layouts, worst, strict=True) if regret <= limit}
    return [each for each in usable if each.packing in near]


def cases_of(problem: KernelProblem, target: PlanTarget) -> list[tuple[Guard, Case]]:
    """The cases that a target tells apart, each with its guard, the usual one last."""
    measures = dict(target.measures(problem))
    for name, measure in measures.items():
        if measure.samples:
            measures[name] = _divided(problem, target, measures, name)
    return [_case(measures, chosen) for chosen in product(*(measure.cases() for measure in measures.values()))]


def _divided(problem: KernelProblem, target: PlanTarget, measures: Mapping[str, Measure], name: str) -> Measure:
    """A measure whose last range is several, in each of which one schedule is close to the best."""
    measure = measures[name]
    *few, usual = measure.ranges
    samples = measure.within(usual)
    _, endless = _case(measures, [each.cases()[-1] for each in measures.values()])
    ended = replace(endless, most={**endless.most, name: samples[-1]})
    candidates = target.candidates(problem, ended)
    if len(candidates) == 1:
        return replace(measure, samples=())
    costs = [_sweep(target, problem, schedule, ended) for schedule in candidates]
    costs += [_sweep(target, problem, schedule, endless) for schedule in target.candidates(problem, endless)]
    ratios, count = regrets(np.array(costs)), len(candidates)
    *bounded, last = divide(ratios[:count], ratios[count:], measure.most_ranges - len(few))
    ranges, least = list(few), usual.least
    for first, end in bounded:
        ranges.append(Typical(samples[(first + end) // 2], least, samples[end + 1] - 1))
        least = samples[end + 1]
    return replace(measure, ranges=(*ranges, Typical(samples[sum(last) // 2], least, usual.most)))


def _sweep(target: PlanTarget, problem: KernelProblem, schedule: Schedule, case: Case) -> np.ndarray:
    assert target.sweep is not None, f"{target.name} names samples and no costs of them"
    return target.sweep(problem, schedule, case)


def _case(measures: Mapping[str, Measure], chosen: Sequence[tuple[SizeRange | None, Typical]]) -> tuple[Guard, Case]:
    guard = tuple(condition for condition, _ in chosen if condition is not None)
    named = dict(zip(measures, (typical for _, typical in chosen), strict=True))
    sizes = {name: typical.value for name, typical in named.items()}
    sweeps = (Sweep(name, samples) for name, each in named.items() if (samples := measures[name].within(each)))
    return guard, Case(sizes, {name: typical.most for name, typical in named.items()}, next(sweeps, None))


def _best(
    problem: KernelProblem, target: PlanTarget, case: Case, candidates: Sequence[Schedule], known: Collection[str] = ()
) -> Schedule:
    """The cheapest, the first of equals; a lone candidate is not asked for its cost."""
    if len(candidates) == 1:
        return candidates[0]
    ranked = rank_schedules(problem, target, case, candidates, known)
    (seconds, best), (others, second), *_ = ranked
    decided = f"{seconds * 1e6:.1f} us by the cost model; of {len(candidates)} the next is {second.brief}"
    own = f"{best.why}; " if best.why else ""
    fallbacks = (*best.fallbacks, *_fallbacks(best, [schedule for _, schedule in ranked]))
    return replace(best, fallbacks=fallbacks, why=f"{own}{decided}: {others * 1e6:.1f} us")


def _fallbacks(best: Schedule, ranked: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """What to take where warps have too few registers: each within the tile before it, with less for each warp, and
    behind them the smallest in more steps.

    They need no more shared memory, so that whichever is taken fits the arena. Those that the best one brings along are
    before them.
    """
    wanted = (best.shared_bytes, best.joining, best.packing)
    alike = [each for each in ranked if (each.shared_bytes, each.joining, each.packing) == wanted]
    chosen = [best]
    for each in alike:
        if _is_lighter(each, chosen[-1]) and len(chosen) <= MOST_FALLBACKS:
            chosen.append(replace(each, fallbacks=()))
    shallower = next((each for each in alike if _is_shallower(each, chosen[-1])), None)
    if shallower is not None:
        chosen.append(replace(shallower, fallbacks=()))
    return tuple(chosen[1:])


def _is_lighter(schedule: Schedule, other: Schedule) -> bool:
    """Whether the tile of a schedule is within that of another, and warps hold less of it."""
    own, its = _tile_and_warps(schedule), _tile_and_warps(other)
    if own is None or its is None:
        return False
    (tile, warps), (outer, others) = own, its
    is_within = tile.rows <= outer.rows and tile.columns <= outer.columns
    return is_within and tile.rows * tile.columns * others < outer.rows * outer.columns * warps


def _is_shallower(schedule: Schedule, other: Schedule) -> bool:
    """Whether a schedule makes the same tile in more steps, so that less of its operands is in registers."""
    own, its = _tile_and_warps(schedule), _tile_and_warps(other)
    if own is None or its is None:
        return False
    (tile, warps), (outer, others) = own, its
    is_same = (tile.rows, tile.columns, warps) == (outer.rows, outer.columns, others)
    return is_same and tile.depth < outer.depth


def _tile_and_warps(schedule: Schedule) -> tuple[Tile, int] | None:
    """What programs of a GPU make, and with how many warps."""
    tile = getattr(schedule, "tile", None)
    if not isinstance(tile, Tile) or not isinstance(schedule.workers, Warps):
        return None
    return tile, schedule.workers.count


def rank_schedules(
    problem: KernelProblem, target: PlanTarget, case: Case, candidates: Sequence[Schedule], known: Collection[str] = ()
) -> list[tuple[float, Schedule]]:
    """The candidates with the seconds that they should take, the fastest first, equals in the order given.

    For a sweep the first is the one that is best on average among those that are nowhere far from the best; of these
    rather one that is `known`, in brief, from other cases, as it is compiled anyway.
    """
    priced = [(target.cost(problem, schedule, case), schedule) for schedule in candidates]
    if case.sweep is None:
        return sorted(priced, key=lambda each: each[0])
    ratios = regrets(np.array([_sweep(target, problem, schedule, case) for schedule in candidates]))
    rows = zip(priced, ratios, strict=True)
    keys = [(max(NEAR_BEST, row.max()), each.brief not in known, row.mean()) for (_, each), row in rows]
    return [priced[index] for index in sorted(range(len(priced)), key=lambda index: keys[index])]
