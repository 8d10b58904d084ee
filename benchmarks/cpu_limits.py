"""Measures the limits of one core that the CPU's cost model is made of, and writes them to its table.

    taskset -c 0 python -m benchmarks.cpu_limits [--target cpu:x86-64-v3] [--write]

One row of the table, that of the width of vectors of this machine or of another target that runs on it; other rows stay
as they are. The best of many rounds counts: a limit is what nothing disturbed. Run it on a quiet machine.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import MicroKernel, ProductTypes
from onnxc.compiler.codegen_cpu.schedules.products import panel_vectors, register_rows
from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.codegen_host.threads.pool import call_parallel_for
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.cpu import Image, load_image
from onnxc.runtime.thread_pool import pool_handle

TABLE = Path(__file__).parents[1] / "compiler" / "codegen_cpu" / "schedules" / "machines.json"
SECOND_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
ROUNDS = 60
DEPTH = 512
"""A panel of this depth stays in the second-level cache."""

MEMORY_BYTES = 256 << 20
"""Beyond what caches hold."""


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--target", default="cpu", help="what code is made for (default: this machine)")
    options.add_argument("--write", action="store_true", help="write the row into the table of the cost model")
    arguments = options.parse_args()
    target = parse_target(arguments.target)
    limits = _limits(target)
    print(json.dumps(limits, indent=2))
    if arguments.write:
        table = {**json.loads(TABLE.read_text()), str(target.vector_bits): limits}
        rows = (f'  "{bits}": {json.dumps(row)}' for bits, row in table.items())
        TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def _limits(target: Target) -> dict[str, float | str]:
    """The row of a target; `vector_products_per_second` are multiply-adds of whole vectors in a micro-kernel."""
    return {
        "measured_on": _processor(),
        "vector_products_per_second": _rounded(_vector_products(target)),
        "memory_bytes_per_second": _rounded(_memory_bandwidth()),
        "launch_seconds": _rounded(_launch_seconds(target)),
        "second_cache_bytes": 1024 * int(SECOND_CACHE.read_text().strip().removesuffix("K")),
    }


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _processor() -> str:
    """The processor's name, as Linux tells it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _best(run: Callable[[], object]) -> float:
    """The least seconds of many rounds."""
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def _vector_products(target: Target) -> float:
    """Multiply-adds of vectors in a second, by the micro-kernel that makes most of them."""
    repeats, lanes = 400, target.vector_bits // 32
    vectors = panel_vectors(Size.symbol("columns"), lanes, target)
    rows = register_rows(vectors, target)
    kernel = MicroKernel(ProductTypes(F32, F32, F32), rows, vectors)
    f = FunctionBuilder("repeat", [("ptr", "a"), ("ptr", "panel"), ("ptr", "tile")])
    a, panel, tile = f.parameters
    strides = (DEPTH, 1, panel, vectors * lanes)
    f.loop(0, repeats, 1, lambda _: f.call(kernel.name, "void", a, *strides, tile, DEPTH, 0, panel))
    f.ret()
    run = _image(target, [f, kernel.write(target)], "repeat").function("repeat", 3)
    arrays = [_aligned(count) for count in (rows * DEPTH, DEPTH * vectors * lanes, rows * vectors * lanes)]
    addresses = [array.ctypes.data for array in arrays]
    return rows * vectors * DEPTH * repeats / _best(lambda: run(*addresses))


def _memory_bandwidth() -> float:
    """Bytes in a second of a sum over what no cache holds."""
    array = np.ones(MEMORY_BYTES // 8)
    return MEMORY_BYTES / _best(array.sum)


def _launch_seconds(target: Target) -> float:
    """What a launch of one unit takes that does nothing."""
    repeats = 2000
    nothing = FunctionBuilder("nothing", [("ptr", "arguments"), ("i64", "begin"), ("i64", "end")])
    nothing.ret()
    f = FunctionBuilder("launch", [("ptr", "pool"), ("ptr", "arguments")])
    pool, arguments = f.parameters
    f.loop(0, repeats, 1, lambda _: call_parallel_for(f, pool, "nothing", arguments, 1, 1))
    f.ret()
    image = _image(target, [nothing, f], "launch")
    handle = pool_handle(image, 1)
    run, scratch = image.function("launch", 2), _aligned(16)
    return _best(lambda: run(handle.address, scratch.ctypes.data)) / repeats


def _aligned(count: int) -> np.ndarray:
    """Zeros that begin on a cache line."""
    block = np.zeros(count + 16, np.float32)
    return block[-(block.ctypes.data // 4) % 16 :][:count]


def _image(target: Target, functions: Sequence[FunctionBuilder], entry: str) -> Image:
    module = ModuleBuilder()
    for function in functions:
        module.add(function)
    return load_image(build_image([compile_object(module.text(), target)], [entry], target))


if __name__ == "__main__":
    main()
