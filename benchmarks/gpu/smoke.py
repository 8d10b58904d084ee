"""Whether the driver, the compiler of kernels and we agree at all: the first thing that runs on a device.

Two products of different shapes follow each other a thousand times in one arena: programs describe block copies in
memory that the next launch describes others in, which only a device can show to be safe.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.gpu.bench import Bench, Row, Size, rows_in_time
from benchmarks.gpu.kernel_values import FLOORS, draw, worst_error
from benchmarks.gpu.plan_runner import PlanRunner
from benchmarks.gpu.planned_kernels import planned
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import make

__all__ = ["needed_kernels", "smoke"]

# Rows, columns and depth of both products; large enough for block copies where the size is not tiny.
SHAPES = {"full": ((512, 512, 512), (256, 1024, 384)), "tiny": ((16, 16, 16), (32, 16, 16))}
# How often, and after how many the results are looked at.
REPEATS = {"full": (1000, 50), "tiny": (4, 2)}

DTYPES = ("bf16", "f32")


def smoke(bench: Bench) -> Iterator[Row]:
    """A row for each element type: whether the products are right, and the same bits each time, also out of a graph."""
    yield from rows_in_time(bench, [(f"two products {dtype}", partial(_row, bench, dtype)) for dtype in DTYPES])


def needed_kernels(target: Target, size: Size) -> Iterator[KernelSource]:
    """The sources of all kernels that are launched."""
    for dtype in DTYPES:
        yield from planned(_module(dtype, size), target).sources


def _module(dtype: str, size: Size) -> Module:
    def products(ir: Builder, x: Value, y: Value, z: Value, w: Value) -> list[Value]:
        return [ir.dot(x, y, "mk,kn->mn"), ir.dot(z, w, "mk,kn->mn")]

    shapes = SHAPES["tiny" if size == "tiny" else "full"]
    return make([f"{dtype}[{a}, {b}]" for m, n, k in shapes for a, b in ((m, k), (k, n))], products)


def _row(bench: Bench, dtype: str) -> Row:
    module = _module(dtype, bench.size)
    inputs = draw(module, {})
    runner = PlanRunner(bench, module, inputs)
    first = runner.results()
    x, y, z, w = (array.astype(np.float64) for array in inputs)
    error = max(worst_error(a.astype(np.float64), b) for a, b in zip(first, (x @ y, z @ w), strict=True))
    repeats, together = REPEATS["tiny" if bench.size == "tiny" else "full"]
    differing = sum(not _same_again(runner, first, together) for _ in range(repeats // together))
    graph = bench.captured(runner.enqueue, together)
    bench.driver.call("to run a benchmark", "cuGraphLaunch", graph, bench.stream)
    in_graph = _equal(runner.results(), first)
    bench.driver.call("to end a benchmark", "cuGraphExecDestroy", graph)
    is_ok = error <= FLOORS[dtype] and not differing and in_graph
    return {"error_ratio": error, "repeats": repeats, "differing": differing, "same_in_a_graph": in_graph, "ok": is_ok}


def _same_again(runner: PlanRunner, first: list[np.ndarray], together: int) -> bool:
    """Whether the last of so many runs, nothing between them, gives the first results."""
    for _ in range(together - 1):
        runner.enqueue(runner.bench.stream)
    return _equal(runner.results(), first)


def _equal(actual: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(actual, wanted, strict=True))
