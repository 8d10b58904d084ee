"""Candidates that the cost model ranks first, timed: products, convolutions and attention. Is its first the fastest?

Rows say of each candidate what its cost was computed from, so that it can be fitted to them (fit_costs.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.gpu.bench import Bench, Row, Size, rows_in_time
from benchmarks.gpu.kernel_values import draw
from benchmarks.gpu.plan_runner import PlanRunner
from benchmarks.gpu.planned_kernels import planned
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.planning.choose_schedules import KernelProblem, cases_of, rank_schedules
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import AttentionSchedule, ContractionSchedule, Schedule, Tile, Warps
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import make

__all__ = ["Sweep", "needed_kernels", "sweeps"]


@dataclass(frozen=True)
class Sweep:
    """A kernel at one size. Sizes are rows, columns, depth of products; images, side, channels, filters of
    convolutions of 3 x 3; batch and heads, queries, keys, width of attention."""

    kind: str
    dtype: str
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.kind} {self.dtype} {' x '.join(map(str, self.sizes))}"


_PRODUCTS = (
    (4096, 4096, 4096), (128, 768, 3072), (16, 4096, 4096), (512, 3072, 768), (1024, 1024, 1024), (1, 4096, 16384),
    (2048, 2304, 768), (64, 3072, 768),
)  # fmt: skip
_CONVOLUTIONS = ((32, 56, 64, 64), (32, 14, 256, 256), (1, 28, 128, 128), (32, 28, 128, 128))
_ATTENTIONS = ((96, 512, 512, 64), (12, 128, 128, 64), (32, 2048, 2048, 128))

# Queries, keys and warps.
_ATTENTION_TILES = ((128, 128, 8), (64, 64, 4), (128, 32, 4), (128, 64, 8), (64, 128, 4), (64, 32, 4))

SWEEPS = {
    "full": (
        *(Sweep("product", "bf16", sizes) for sizes in _PRODUCTS),
        *(Sweep("convolution", "bf16", sizes) for sizes in _CONVOLUTIONS),
        *(Sweep("attention", "bf16", sizes) for sizes in _ATTENTIONS),
        *(Sweep("product", "f32", sizes) for sizes in _PRODUCTS[:3]),
    ),
    "quick": (Sweep("product", "bf16", _PRODUCTS[1]), Sweep("convolution", "bf16", _CONVOLUTIONS[2])),
    "tiny": (Sweep("product", "f32", (32, 32, 32)),),
}
TRIED = {"full": 12, "quick": 6, "tiny": 2}


def sweeps(bench: Bench) -> Iterator[Row]:
    """One row for each sweep, with the times in the order of the cost model."""
    yield from rows_in_time(bench, [(sweep.name, partial(_row, bench, sweep)) for sweep in SWEEPS[bench.size]])


def needed_kernels(target: Target, size: Size) -> Iterator[KernelSource]:
    """The sources of all candidates that are tried."""
    for sweep in SWEEPS[size]:
        module = _module(sweep)
        for _, schedule in _ranked(module, target, TRIED[size]):
            yield from planned(module, target, schedule=schedule).sources


def _module(sweep: Sweep) -> Module:
    dtype, sizes = sweep.dtype, sweep.sizes
    if sweep.kind == "product":
        m, n, k = sizes
        return make([f"{dtype}[{m}, {k}]", f"{dtype}[{k}, {n}]"], lambda ir, x, y: ir.dot(x, y, "mk,kn->mn"))
    if sweep.kind == "convolution":
        images, side, channels, filters = sizes
        return make(
            [f"{dtype}[{images}, {side}, {side}, {channels}]", f"{dtype}[{filters}, 3, 3, {channels}]"], _convolved
        )
    heads, queries, keys, width = sizes
    types = [f"{dtype}[1, {heads}, {queries}, {width}]", *[f"{dtype}[1, {heads}, {keys}, {width}]"] * 2]
    return make(types, lambda ir, q, k, v: ir.attention(q, k, v, None, width**-0.5, False, 0.0))


def _convolved(ir: Builder, x: Value, w: Value) -> Value:
    """A convolution channels last, with filters that lie as packed ones do: their channels innermost."""
    ones, filters = (1, 1), ir.transpose(w, (0, 3, 1, 2))
    return ir.convolution(x, filters, strides=ones, low=ones, high=ones, dilations=ones, dimensions="n01c,oi01->n01c")


def _ranked(module: Module, target: Target, count: int) -> list[tuple[float, Schedule]]:
    """The candidates for the kernel of a module that should be fastest, with the seconds that are expected."""
    plan_target = gpu_plan_target(target)
    kernel = plan_kernels(module, plan_target).kernels[0]
    problem = KernelProblem(kernel.kind, kernel.block)
    *_, (_, case) = cases_of(problem, plan_target)
    candidates = plan_target.candidates(problem, case)
    # A candidate that is alone has no cost: what else could be chosen is not expected to take anything.
    ranked = (
        rank_schedules(problem, plan_target, case, candidates)
        if len(candidates) > 1
        else [(0.0, schedule) for schedule in _attention_tiles(candidates[0])]
    )
    by_text: dict[str, tuple[float, Schedule]] = {}
    for seconds, schedule in ranked:
        by_text.setdefault(schedule.brief, (seconds, schedule))
    return list(by_text.values())[:count]


def _attention_tiles(schedule: Schedule) -> list[Schedule]:
    """The schedule, then the same with other tiles."""
    if not isinstance(schedule, AttentionSchedule) or not isinstance(schedule.workers, Warps):
        return [schedule]
    stages = schedule.workers.stages
    others = [replace(schedule, tile=Tile(q, k), workers=Warps(w, stages)) for q, k, w in _ATTENTION_TILES]
    return [schedule, *others]


def _row(bench: Bench, sweep: Sweep) -> Row:
    module = _module(sweep)
    ranked = _ranked(module, bench.target, TRIED[bench.size])
    inputs = draw(module, {})
    runners, failures = {}, {}
    for _, schedule in ranked:
        try:
            runners[schedule.brief] = PlanRunner(bench, module, inputs, schedule=schedule)
        except LookupError as problem:
            failures[schedule.brief] = str(problem)
    times = bench.interleaved({name: runner.enqueue for name, runner in runners.items()})
    best = min(times, key=lambda choice: times[choice])
    tried = [
        {"schedule": schedule.brief, "expected_seconds": seconds, "seconds": times[schedule.brief], **_costed(schedule)}
        for seconds, schedule in ranked
        if schedule.brief in times
    ]
    row: Row = {"kind": sweep.kind, "dtype": sweep.dtype, "sizes": sweep.sizes, "tried": tried, "best": best}
    row["first_over_best"] = float(str(tried[0]["seconds"])) / times[best]
    return row | ({"failures": failures} if failures else {})


def _costed(schedule: Schedule) -> Row:
    """What the cost of a product depends on; nothing where that is the one of another tile, times a factor."""
    if not isinstance(schedule, ContractionSchedule) or not isinstance(schedule.workers, Warps) or schedule.hands_over:
        return {}
    tile, workers = schedule.tile, schedule.workers
    return {
        "tile": [tile.rows, tile.columns, tile.depth], "warps": workers.count, "stages": workers.stages,
        "split": schedule.split, "operands": schedule.arithmetic.operands,
    }  # fmt: skip
