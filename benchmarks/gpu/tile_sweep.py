"""Matrix products with the tiles that the cost model ranks first, timed: is its first the fastest?"""

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.gpu.bench import Bench, Row, attempt
from benchmarks.gpu.kernel_values import draw
from benchmarks.gpu.plan_runner import PlanRunner
from onnxc.compiler.codegen_gpu.kernels.contraction import emit_products_with
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.tiles.matrix_tiles import MatrixProducts, rank_tiles
from onnxc.compiler.codegen_gpu.tiles.product_tiles import TileChoice
from onnxc.compiler.ir.dtypes import DTYPES
from onnxc.compiler.planning.matrix_products import find_problem
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
    (kernel,) = plan_kernels(module, gpu_plan_target(bench.target)).kernels
    problem = find_problem(kernel.block)
    assert problem is not None, shape
    precision = str(kernel.schedule["input_precision"])
    products = MatrixProducts(1, problem.rows, problem.columns, problem.depth, DTYPES[dtype], precision)
    choices = _different(rank_tiles(products, bench.target))[: TRIED[bench.size]]
    codes = [emit_products_with(choice, kernel, problem, bench.target) for choice in choices]
    # All at once, so that the processes that compile have enough to do.
    bench.compile(list(dict.fromkeys(step.source for code in codes for step in code.steps)))
    inputs = draw(module, {})
    times = bench.interleaved({
        str(choice): PlanRunner(bench, module, inputs, codes=[code]).enqueue
        for choice, code in zip(choices, codes, strict=True)
    })  # fmt: skip
    best = min(times, key=lambda choice: times[choice])
    return {
        "tried": [
            {"tile": str(choice), "expected_seconds": choice.seconds, "seconds": times[str(choice)]}
            for choice in choices
        ],
        "best": best,
        "first_over_best": times[str(choices[0])] / times[best],
        "flops_per_second": 2.0 * m * n * k / times[best],
    }


def _different(choices: Sequence[TileChoice]) -> list[TileChoice]:
    return list({str(choice): choice for choice in reversed(choices)}.values())[::-1]
