"""The values of every kernel kind on the device, against what the primitives mean in f64.

Sums are added up in another order, and tensor cores cut partial sums off: how much may be lost follows from what the
meaning itself loses in the element type. The last row tells how the errors are distributed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import ml_dtypes
import numpy as np

from benchmarks.gpu.bench import Bench, Row, Size, rows_in_time
from benchmarks.gpu.plan_runner import PlanRunner
from benchmarks.gpu.planned_kernels import planned
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module
from onnxc.compiler.target import Target
from onnxc.runtime.host.values import as_array
from tests.codegen_cpu.support import make
from tests.codegen_gpu.kinds import KINDS

__all__ = [
    "FLOORS",
    "chosen_kinds",
    "distribution",
    "draw",
    "kernel_values",
    "launch_kind",
    "module_of",
    "needed_kernels",
    "value_row",
    "worst_error",
]

SIZES: Mapping[str, int] = {"N": 37, "M": 3000, "B": 2, "S": 65, "T": 129, "U": 50, "P": 70, "C": 150, "L": 3}
"""What symbols are: sizes that fill no tile. L is few steps: errors of a loop grow until any value would be right.

C, of a cache, has room for P and S rows.
"""

TINY_KINDS = ("pointwise_symbolic", "softmax", "arg_reduce", "contraction_simple")
TINY_SIZES = {**SIZES, "N": 3}

FLOORS: Mapping[str, float] = {"f64": 1e-12, "f32": 1e-4, "f16": 2e-3, "bf16": 1.6e-2}
"""An error that is never wrong, as a part of the largest magnitude: two roundings of a 16-bit type; for f32 what tensor
cores may lose in sums of some thousand products, ten times what was estimated."""

ALLOWED = 4.0
"""How often the error of the meaning in the element type may be made."""

INDEX_LIMIT = 100


def kernel_values(bench: Bench) -> Iterator[Row]:
    """One row for each kind and element type: the error, whether it is within the bound; then their distribution."""
    rows = []
    for row in rows_in_time(
        bench, [(f"{n}/{t}", partial(value_row, bench, n, t)) for n, t in chosen_kinds(bench.size)]
    ):
        rows.append(row)
        yield row
    yield {"name": "distribution", **distribution(rows)}


def needed_kernels(target: Target, size: Size) -> Iterator[KernelSource]:
    """The sources of all kernels that are launched."""
    for name, dtype in chosen_kinds(size):
        yield from planned(module_of(name, dtype), target).sources


def distribution(rows: Sequence[Row]) -> dict[str, str]:
    """The smallest, middle and largest error of each element type, as shares of their bounds."""
    shares: dict[str, list[float]] = {}
    for row in rows:
        if row.get("bound"):
            shares.setdefault(str(row["name"]).rpartition("/")[2], []).append(_share(row))
    return {
        dtype: f"{min(values):.2g}, {float(np.median(values)):.2g}, {max(values):.2g} of the bound ({len(values)})"
        for dtype, values in shares.items()
    }


def _share(row: Row) -> float:
    return float(str(row["error_ratio"])) / float(str(row["bound"]))


def chosen_kinds(size: Size) -> list[tuple[str, str]]:
    """The kinds and element types."""
    is_tiny = size == "tiny"
    names = TINY_KINDS if is_tiny else KINDS
    return [(name, dtype) for name in names for dtype in KINDS[name].dtypes[: 1 if is_tiny else None]]


def module_of(name: str, dtype: str, types: Sequence[str] | None = None) -> Module:
    """The module of a kind in an element type, at other shapes than its own where `types` are given."""
    chosen = KINDS[name].types if types is None else types
    return make([re.sub(r"^T\[", f"{dtype}[", text) for text in chosen], KINDS[name].build)


def draw(module: Module, sizes: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
    """Inputs of a module: normal numbers, or small indices."""
    rng = np.random.default_rng(seed)
    drawn = []
    for value in module.main.body.parameters:
        shape = [evaluate(dim, sizes) for dim in value.shape]
        if value.dtype.is_float:
            # A drawn block is repeated: large arrays would take longer to draw than to multiply.
            block = rng.standard_normal(min(int(np.prod(shape)), 1 << 20), np.float32).astype(value.dtype.numpy)
            drawn.append(np.resize(block, shape))
        else:
            drawn.append(rng.integers(0, INDEX_LIMIT, shape).astype(value.dtype.numpy))
    return drawn


def worst_error(actual: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference as a part of the largest magnitude; infinite where NaN or infinities differ."""
    assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype), (actual.shape, actual.dtype, wanted.dtype)
    if not wanted.size:
        return 0.0
    wide = np.float64 if wanted.dtype.kind != "b" else np.int64
    x, y = actual.astype(wide), wanted.astype(wide)
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True) or not np.isfinite(x[finite]).all():
        return float("inf")
    return float(np.abs(x[finite] - y[finite]).max(initial=0) / max(np.abs(y[finite]).max(initial=0), 1e-30))


def value_row(bench: Bench, name: str, dtype: str) -> Row:
    """The largest error of a kind in an element type on the device, and whether it is within the bound."""
    module, inputs, runner = _prepared(bench, name, dtype)
    actual, meant = runner.results(), _meaning(module, inputs)
    # Some kinds, of integers, take no other type.
    exact = _exact(name, inputs) if any(_ir_name(array.dtype) in FLOORS for array in meant) else meant
    errors, bounds = zip(*map(_error_and_bound, actual, meant, exact), strict=True)
    is_ok = all(error <= bound for error, bound in zip(errors, bounds, strict=True))
    return {"error_ratio": max(errors), "bound": max(bounds), "ok": is_ok, "launches": runner.launch_count}


def launch_kind(bench: Bench, name: str, dtype: str) -> None:
    """Launches the kernels of a kind in an element type, and waits for them."""
    _, _, runner = _prepared(bench, name, dtype)
    runner.results()


def _prepared(bench: Bench, name: str, dtype: str) -> tuple[Module, list[np.ndarray], PlanRunner]:
    module = module_of(name, dtype)
    inputs = draw(module, TINY_SIZES if bench.size == "tiny" else SIZES)
    return module, inputs, PlanRunner(bench, module, inputs)


def _error_and_bound(actual: np.ndarray, meant: np.ndarray, exact: np.ndarray) -> tuple[float, float]:
    """The error of a result, and what it may be; integers have to be those that the element type means."""
    dtype = _ir_name(meant.dtype)
    if dtype not in FLOORS:
        return worst_error(actual, meant), 0.0
    right = exact.astype(np.float64)
    lost = worst_error(meant.astype(np.float64), right)
    # Where the type overflows, what it means is right.
    if not np.isfinite(lost):
        return worst_error(actual, meant), FLOORS[dtype]
    return worst_error(actual.astype(np.float64), right), max(FLOORS[dtype], ALLOWED * lost)


def _exact(name: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a kind means for the same numbers in f64."""
    module = module_of(name, "f64")
    types = [value.dtype.numpy for value in module.main.body.parameters]
    return _meaning(module, [array.astype(dtype) for array, dtype in zip(inputs, types, strict=True)])


def _meaning(module: Module, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    names = [parameter.producer.name for parameter in module.main.body.parameters]
    with np.errstate(all="ignore"):
        return [as_array(value) for value in interpret(module, dict(zip(names, inputs, strict=True)))]


def _ir_name(dtype: np.dtype) -> str:
    return "bf16" if dtype == ml_dtypes.bfloat16 else f"{dtype.kind}{8 * dtype.itemsize}"
