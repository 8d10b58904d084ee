"""Matrix products with the tiles that the cost model ranks first, timed: is its first the fastest?"""

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.gpu.bench import Bench, Row, attempt
from benchmarks.gpu.kernel_values import draw
from benchmarks.gpu.plan_runner import PlanRunner
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.planning.choose_schedules import KernelProblem, cases_of, rank_schedules
from onnxc.compiler.planning.plan import plan_kernels
from tests.codegen_gpu.support import make

SHAPES: Sequence[tuple[int, int, int]] = (
    (4096, 4096, 4096), (1024, 1024, 1024), (512, 3072, 768), (128, 768, 3072), (16, 4096, 4096), (1, 4096, 16384),
)  # fmt: skip
TINY: Sequence[tuple[int, int, int]] = ((32, 32, 32),)
TRIED = {"full": 16, "quick": 6, "tiny": 2}


def tile_sweep(bench: Bench) -> Iterator[Row]:
    """One row for each shape and element type, with the times in the order of the cost model."""
    dtypes = ("bf16", "f32") if bench.size == "full" else ("bf16",) if bench.size == "quick" else ("f32",)
    for dtype in dtypes:
        for shape in TINY if bench.size == "tiny" else SHAPES:
            name = f"{dtype} {' x '.join(map(str, shape))}"
            if bench.is_late:
                yield {"name": name, "error": "no time was left"}
                return
            yield attempt(name, partial(_row, bench, dtype, shape))


def _row(bench: Bench, dtype: str, shape: tuple[int, int, int]) -> Row:
    m, n, k = shape
    module = make([f"{dtype}[{m}, {k}]", f"{dtype}[{k}, {n}]"], lambda ir, x, y: ir.dot(x, y, "mk,kn->mn"))
    target = gpu_plan_target(bench.target)
    problem = KernelProblem("contraction", plan_kernels(module, target).kernels[0].block)
    ((_, case),) = cases_of(problem, target)
    ranked = rank_schedules(problem, target, case, target.candidates(problem, case))[: TRIED[bench.size]]
    inputs = draw(module, {})
    runners = {schedule.brief: PlanRunner(bench, module, inputs, schedule=schedule) for _, schedule in ranked}
    times = bench.interleaved({name: runner.enqueue for name, runner in runners.items()})
    best = min(times, key=lambda choice: times[choice])
    return {
        "tried": [
            {"tile": schedule.brief, "expected_seconds": seconds, "seconds": times[schedule.brief]}
            for seconds, schedule in ranked
        ],
        "best": best,
        "first_over_best": times[ranked[0][1].brief] / times[best],
        "flops_per_second": 2.0 * m * n * k / times[best],
    }
