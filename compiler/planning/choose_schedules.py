"""Choosing schedules: which of a target's candidates serves which calls, by its cost model.

Sizes that only a call decides are judged at typical numbers. Where a target says that calls differ much in a size, each
range of it is a case; a case whose best schedule is another than that of all calls becomes a variant with a guard.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.planning.fuse_kernels import ReadsPadding, reads_no_padding
from onnxc.compiler.planning.fusion.groups import Computes, Reads
from onnxc.compiler.planning.kernel_plan import Guard, KernelKind, Residency, SizeRange
from onnxc.compiler.planning.schedules import Schedule

__all__ = [
    "Case",
    "KernelProblem",
    "Measure",
    "PlanTarget",
    "Typical",
    "cases_of",
    "choose_schedules",
    "rank_schedules",
]


@dataclass(frozen=True)
class KernelProblem:
    """A kernel that wants a schedule: its block, and which of its parameters are constants."""

    kind: KernelKind
    block: Block
    constants: tuple[int, ...] = ()

    def is_constant(self, parameter: int) -> bool:
        """Whether a parameter is a constant."""
        return parameter in self.constants


@dataclass(frozen=True)
class Typical:
    """A range of a size, from `least` up to `most` or without end, and the number that stands for it."""

    number: int
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Measure:
    """A size that decides between schedules: a number, or in one of some ranges, the last one the usual."""

    size: Dim
    ranges: tuple[Typical, ...]

    def cases(self) -> Sequence[tuple[SizeRange | None, Typical]]:
        """Each range with its condition; none where the size is a number, or there is one range for all."""
        if isinstance(self.size, int):
            return [(None, Typical(self.size, 0, self.size))]
        if len(self.ranges) == 1:
            return [(None, self.ranges[0])]
        return [(SizeRange(self.size, each.least, each.most), each) for each in self.ranges]


@dataclass(frozen=True)
class Case:
    """The calls that one schedule is to serve: a typical number for each measure, and the most, None without end."""

    sizes: Mapping[str, int]
    most: Mapping[str, int | None]

    @property
    def is_bounded(self) -> bool:
        """Whether no size can be larger than some number."""
        return None not in self.most.values()


@dataclass(frozen=True)
class PlanTarget:
    """What planning asks of a target: which ops it has kernels for, and how they may be computed, at what cost.

    reads: whether the kernels of an anchor read an operand, by its ordinal, as a view; where they do not, it is written
    first. measures: the sizes of a problem that decide. candidates: the schedules that could serve a case, the
    preferred ones first. cost: the seconds that a launch should take; only compared. residency: where launches run.
    compiles_steps: whether loops, branches and sizes from data can be native code. arranges: the kinds whose kernels
    write their result with its axes in any order and shape. computes: the kinds whose kernels compute some of their
    operands as they read them, up to how much work for an element. inlines_movements: whether kernels compute
    concatenations, and reshapes that join axes, where they read them. writes_several: the kinds whose kernels write
    several values of one shape. shares_code: whether kernels that differ in numbers alone are one, which reads these.
    reads_padding: whether the kernel of an anchor pads an operand as it reads it.
    """

    name: str
    is_native: Callable[[Op], bool]
    reads: Reads
    measures: Callable[[KernelProblem], Mapping[str, Measure]]
    candidates: Callable[[KernelProblem, Case], Sequence[Schedule]]
    cost: Callable[[KernelProblem, Schedule, Case], float]
    residency: Residency = "host"
    compiles_steps: bool = False
    arranges: Collection[KernelKind] = ()
    computes: Computes = field(default_factory=dict)
    inlines_movements: bool = False
    writes_several: Collection[KernelKind] = ()
    shares_code: bool = False
    reads_padding: ReadsPadding = reads_no_padding


def choose_schedules(
    problem: KernelProblem, target: PlanTarget, like: Schedule | None = None
) -> tuple[tuple[Guard, Schedule], ...]:
    """The schedules of a kernel with their guards, in the kernel's symbols; the last one serves every call.

    All of them read constants in the layout that the last one wants: no weight is there twice. like: a schedule whose
    layout they are to have; no schedules where the last one cannot have it.
    """
    *special, (_, usual) = cases_of(problem, target)
    usable = [each for each in target.candidates(problem, usual) if like is None or each.packing == like.packing]
    if not usable:
        return ()
    general = _best(problem, target, usual, usable)
    chosen: list[tuple[Guard, Schedule]] = []
    for guard, case in special:
        fitting = [each for each in target.candidates(problem, case) if each.packing == general.packing]
        best = _best(problem, target, case, fitting) if fitting else general
        if best != general:
            chosen.append((guard, best))
    return (*chosen, ((), general))


def cases_of(problem: KernelProblem, target: PlanTarget) -> list[tuple[Guard, Case]]:
    """The cases that a target tells apart, each with its guard, the usual one last."""
    measures = target.measures(problem)
    return [_case(measures, chosen) for chosen in product(*(measure.cases() for measure in measures.values()))]


def _case(measures: Mapping[str, Measure], chosen: Sequence[tuple[SizeRange | None, Typical]]) -> tuple[Guard, Case]:
    guard = tuple(condition for condition, _ in chosen if condition is not None)
    named = dict(zip(measures, (typical for _, typical in chosen), strict=True))
    sizes = {name: typical.number for name, typical in named.items()}
    return guard, Case(sizes, {name: typical.most for name, typical in named.items()})


def _best(problem: KernelProblem, target: PlanTarget, case: Case, candidates: Sequence[Schedule]) -> Schedule:
    """The cheapest, the first of equals; a lone candidate is not asked for its cost."""
    if len(candidates) == 1:
        return candidates[0]
    (seconds, best), (others, second), *_ = rank_schedules(problem, target, case, candidates)
    decided = f"{seconds * 1e6:.1f} us by the cost model; of {len(candidates)} the next is {second.brief}"
    own = f"{best.why}; " if best.why else ""
    return replace(best, why=f"{own}{decided}: {others * 1e6:.1f} us")


def rank_schedules(
    problem: KernelProblem, target: PlanTarget, case: Case, candidates: Sequence[Schedule]
) -> list[tuple[float, Schedule]]:
    """The candidates with the seconds that they should take, the fastest first, equals in the order given."""
    priced = [(target.cost(problem, schedule, case), schedule) for schedule in candidates]
    return sorted(priced, key=lambda each: each[0])
