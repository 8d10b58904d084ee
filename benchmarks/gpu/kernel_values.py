"""The values of every kernel kind on the device, against what the primitives mean."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import ml_dtypes
import numpy as np

from benchmarks.gpu.bench import Bench, Row, attempt
from benchmarks.gpu.plan_runner import PlanRunner, compile_ahead
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module
from onnxc.runtime.host.values import as_array
from tests.codegen_gpu.kinds import KINDS
from tests.codegen_gpu.support import make

__all__ = ["draw", "kernel_values", "module_of", "value_row", "worst_error"]

SIZES: Mapping[str, int] = {"N": 37, "M": 3000, "B": 2, "S": 65, "T": 129, "U": 50}
"""What symbols are: sizes that fill no tile."""

TINY_KINDS = ("pointwise_symbolic", "softmax", "arg_reduce", "contraction_simple")
TINY_SIZES = {**SIZES, "N": 3}

BOUNDS: Mapping[str, float] = {"f64": 1e-12, "f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}
"""The largest error, as a part of the largest magnitude: sums are added up in other orders."""

INDEX_LIMIT = 100


def kernel_values(bench: Bench) -> Iterator[Row]:
    """One row for each kind and element type: the error, whether it is within the bound."""
    is_tiny = bench.size == "tiny"
    chosen = [
        (name, dtype)
        for name in (TINY_KINDS if is_tiny else KINDS)
        for dtype in KINDS[name].dtypes[: 1 if is_tiny else None]
    ]
    compile_ahead(bench, (module_of(name, dtype) for name, dtype in chosen))
    for name, dtype in chosen:
        if bench.is_late:
            yield {"name": f"{name}/{dtype}", "error": "no time was left"}
            return
        yield attempt(f"{name}/{dtype}", partial(value_row, bench, name, dtype))


def module_of(name: str, dtype: str, types: Sequence[str] | None = None) -> Module:
    """The module of a kind in an element type, at other shapes than its own where `types` are given."""
    chosen = KINDS[name].types if types is None else types
    return make([re.sub(r"^T\[", f"{dtype}[", text) for text in chosen], KINDS[name].build)


def draw(module: Module, sizes: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
    """Inputs of a module: normal numbers, or small indices."""
    rng = np.random.default_rng(seed)
    found = []
    for value in module.main.body.parameters:
        shape = [dim if isinstance(dim, int) else sizes[str(dim)] for dim in value.shape]
        if value.dtype.is_float:
            # A drawn block is repeated: large arrays would take longer to draw than to multiply.
            block = rng.standard_normal(min(int(np.prod(shape)), 1 << 20), np.float32).astype(value.dtype.numpy)
            found.append(np.resize(block, shape))
        else:
            found.append(rng.integers(0, INDEX_LIMIT, shape).astype(value.dtype.numpy))
    return found


def worst_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference as a part of the largest magnitude; infinite where NaN or infinities differ."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), (found.shape, found.dtype, wanted.dtype)
    if not wanted.size:
        return 0.0
    wide = np.float64 if wanted.dtype.kind != "b" else np.int64
    x, y = found.astype(wide), wanted.astype(wide)
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True) or not np.isfinite(x[finite]).all():
        return float("inf")
    return float(np.abs(x[finite] - y[finite]).max(initial=0) / max(np.abs(y[finite]).max(initial=0), 1e-30))


def value_row(bench: Bench, name: str, dtype: str) -> Row:
    """The largest error of a kind in an element type on the device, and whether it is within the bound."""
    module = module_of(name, dtype)
    inputs = draw(module, TINY_SIZES if bench.size == "tiny" else SIZES)
    runner = PlanRunner(bench, module, inputs)
    found = runner.results()
    names = [parameter.producer.name for parameter in module.main.body.parameters]
    with np.errstate(all="ignore"):
        wanted = [as_array(value) for value in interpret(module, dict(zip(names, inputs, strict=True)))]
    pairs = list(zip(found, wanted, strict=True))
    error = max(worst_error(x, y) for x, y in pairs)
    bound = max(BOUNDS.get(_ir_name(y.dtype), 0.0) for _, y in pairs)
    return {"error_ratio": error, "bound": bound, "ok": error <= bound, "launches": runner.launch_count}


def _ir_name(dtype: np.dtype) -> str:
    return "bf16" if dtype == ml_dtypes.bfloat16 else f"{dtype.kind}{8 * dtype.itemsize}"
