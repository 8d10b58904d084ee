"""Measures what schedules/calibration.json of the GPU back end says of a card: bandwidth, peaks, what launches cost."""

import ctypes
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.gpu.bench import Bench, Row, Size, attempt
from benchmarks.gpu.kernel_values import draw
from benchmarks.gpu.others import cublas_of_cupy, torch_or_none, torch_work
from benchmarks.gpu.plan_runner import PlanRunner
from benchmarks.gpu.planned_kernels import planned
from onnxc.compiler.codegen_gpu.emit import emit
from onnxc.compiler.codegen_gpu.schedules.cards import Unit
from onnxc.compiler.codegen_gpu.schedules.cost_model import cost_model
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelParameter, KernelSource
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.cpu import load_image
from onnxc.runtime.program import DEVICE_FUNCTIONS, DEVICE_LAUNCH, DEVICE_STREAM, FRAME_SYMBOLS, Launch
from tests.codegen_cpu.support import make

__all__ = [
    "CALIBRATION",
    "calibration",
    "copy_bandwidth",
    "copy_kernel",
    "entry_of",
    "needed_kernels",
    "write_calibration",
]

CALIBRATION = Path(__file__).parents[2] / "compiler" / "codegen_gpu" / "schedules" / "calibration.json"

COPY_BYTES = {"full": 1 << 30, "quick": 1 << 28, "tiny": 1 << 12}
_COPY_BLOCK = {"full": 4096, "quick": 4096, "tiny": 256}
PRODUCT_SIZES = {"full": 8192, "quick": 4096, "tiny": 16}
LAUNCHES = {"full": 64, "quick": 64, "tiny": 3}
HOST_ROUNDS = {"full": 50, "quick": 20, "tiny": 1}

# 16 MiB that are read and 16 that are written stay in the L2 cache of every card; what is read lasts long enough for
# the launch not to count.
_CACHE_BLOCK = 4096
CACHE_PROGRAMS, CACHE_ROUNDS = {"full": 1024, "quick": 1024, "tiny": 1}, {"full": 64, "quick": 64, "tiny": 2}

# Beyond what the L2 cache of any card holds; a stride that is odd, and longer than a page of 2 MiB.
CHAIN_BYTES = {"full": 1 << 30, "quick": 1 << 30, "tiny": 1 << 12}
CHAIN_STRIDE, CHAIN_LOADS = (3 << 20) + 33, 64

PRODUCTS: Sequence[tuple[str, str, Unit]] = (
    ("bf16", "fp32", "bf16"), ("f16", "fp32", "fp16"), ("f32", "tf32", "tf32"), ("f32", "fp32", "tf32"),
)  # fmt: skip
"""Element type, precision, unit; f32 in three products counts each multiply-add once."""

_EMPTY = KernelSource("@triton.jit\ndef kernel(a0):\n    pass\n", (KernelParameter("a0", "*fp32"),), warps=4)
_ONE_LOAD = KernelSource(
    "@triton.jit\ndef kernel(a0):\n    tl.store(a0, tl.load(a0) + 1.0)\n", (KernelParameter("a0", "*fp32"),), warps=4
)


def _cache_reads(size: Size) -> KernelSource:
    """Programs that read a buffer block by block, past the cache of a multiprocessor, each beginning with its own."""
    text = (
        "@triton.jit\ndef kernel(a0, a1):\n"
        f"    lanes = tl.arange(0, {_CACHE_BLOCK})\n    first = tl.program_id(0)\n"
        f"    total = tl.zeros(({_CACHE_BLOCK},), tl.float32)\n"
        f"    for step in range({CACHE_ROUNDS[size]}):\n"
        f"        block = (first + 7 * step) % {CACHE_PROGRAMS[size]}\n"
        f"        total += tl.load(a0 + block * {_CACHE_BLOCK} + lanes, cache_modifier='.cg')\n"
        f"    tl.store(a1 + first * {_CACHE_BLOCK} + lanes, total)\n"
    )
    return KernelSource(text, (KernelParameter("a0", "*fp32"), KernelParameter("a1", "*fp32")), warps=8)


def copy_kernel(size: Size) -> KernelSource:
    """Programs of which each copies a block."""
    block = _COPY_BLOCK[size]
    text = (
        "@triton.jit\ndef kernel(a0, a1):\n"
        f"    lanes = tl.program_id(0).to(tl.int64) * {block} + tl.arange(0, {block})\n"
        "    tl.store(a1 + lanes, tl.load(a0 + lanes))\n"
    )
    return KernelSource(text, (KernelParameter("a0", "*fp32"), KernelParameter("a1", "*fp32")), warps=4)


_CHAIN = KernelSource(
    "@triton.jit\ndef kernel(a0, a1):\n    index = tl.load(a0)\n"
    f"    for _ in range({CHAIN_LOADS}):\n        index = tl.load(a1 + index)\n    tl.store(a0, index)\n",
    (KernelParameter("a0", "*i32"), KernelParameter("a1", "*i32")),
    warps=1,
)


def calibration(bench: Bench) -> Iterator[Row]:
    """Rows of what was measured, then one that says in "entry" what they make of the table."""
    rows = [attempt("copy", lambda: {"bytes_per_second": copy_bandwidth(bench)})]
    rows.append(attempt("reads out of the cache", lambda: {"bytes_per_second": _cache_bandwidth(bench)}))
    rows.append(attempt("chain of loads", lambda: {"step_seconds": _step_seconds(bench)}))
    rows.append(attempt("launches", lambda: _launch_costs(bench)))
    rows.append(attempt("bare launches", lambda: _bare_launches(bench)))
    for dtype, precision, unit in PRODUCTS:
        rows.append(attempt(f"product {dtype} {precision}", partial(_product, bench, dtype, precision, unit)))
    yield from rows
    yield attempt("calibration", lambda: {"architecture": bench.target.name, "entry": entry_of(bench, rows)})


def needed_kernels(target: Target, size: Size) -> Iterator[KernelSource]:
    """The sources of all kernels that are launched."""
    yield from (_EMPTY, _ONE_LOAD, _CHAIN, _cache_reads(size), copy_kernel(size))
    yield from planned(_exponentials(size), target).sources
    for dtype, precision, _ in PRODUCTS:
        yield from planned(_square_product(dtype, size), target, precision).sources


def copy_bandwidth(bench: Bench) -> float:
    """Bytes read and written in a second by a kernel that copies, which is faster than the driver's own copies."""
    nbytes = COPY_BYTES[bench.size]
    (kernel,) = bench.compile([copy_kernel(bench.size)])
    loaded, origin, to = bench.load([kernel]), bench.buffer(nbytes), bench.buffer(nbytes)
    bench.kept += [loaded]
    programs = nbytes // (4 * _COPY_BLOCK[bench.size])
    launch = PlanRunner.bare_launch(bench, kernel, loaded.functions[0], origin.address, to.address, programs=programs)
    return 2 * nbytes / bench.seconds(launch)


def _cache_bandwidth(bench: Bench) -> float:
    """Bytes read in a second out of the L2 cache, by programs that read blocks of a small buffer in other orders."""
    programs, rounds = CACHE_PROGRAMS[bench.size], CACHE_ROUNDS[bench.size]
    source = _cache_reads(bench.size)
    (kernel,) = bench.compile([source])
    loaded = bench.load([kernel])
    read, written = (bench.uploaded(np.zeros(programs * _CACHE_BLOCK, np.float32)) for _ in range(2))
    bench.kept += [loaded, read, written]
    launch = PlanRunner.bare_launch(
        bench, kernel, loaded.functions[0], read.address, written.address, programs=programs
    )
    return read.nbytes * rounds / bench.seconds(launch)


def _step_seconds(bench: Bench) -> float:
    """The seconds of one of many loads, each of which says where the next one is, no two of them in a page."""
    words = CHAIN_BYTES[bench.size] // 4
    ring = ((np.arange(words, dtype=np.int64) + CHAIN_STRIDE) % words).astype(np.int32)
    (kernel,), memory, start = bench.compile([_CHAIN]), bench.uploaded(ring), bench.uploaded(np.zeros(64, np.int32))
    loaded = bench.load([kernel])
    bench.kept += [loaded, memory, start]
    launch = PlanRunner.bare_launch(bench, kernel, loaded.functions[0], start.address, memory.address)
    return bench.seconds(launch) / CHAIN_LOADS


def entry_of(bench: Bench, rows: Sequence[Row]) -> dict[str, object]:
    """The entry of the table for the architecture. Raises LookupError where something was not measured."""
    by_name = {str(row["name"]): row for row in rows if "error" not in row}
    products = [row for name, row in by_name.items() if name.startswith("product")]
    shares = [float(str(row["share_of_peak"])) for row in products]
    if not shares:
        raise LookupError("no product was measured")
    bare, kept = by_name["bare launches"], cost_model(bench.target).calibration
    copied = float(str(by_name["copy"]["bytes_per_second"]))
    return {
        "measured_on": bench.device.properties.name,
        "bandwidth": round(copied / bench.card.bandwidth, 3),
        "peak": round(max(shares), 3),
        "launch_seconds": _rounded(by_name["launches"]["native_seconds"]),
        "graph_launch_seconds": _rounded(bare["empty_seconds"]),
        "start_seconds": _rounded(max(0.0, float(str(bare["one_load_seconds"])) - float(str(bare["empty_seconds"])))),
        "step_seconds": _rounded(by_name["chain of loads"]["step_seconds"]),
        "l2_ratio": round(float(str(by_name["reads out of the cache"]["bytes_per_second"])) / copied, 2),
        # These two follow from the times of tiles (fit_costs.py); until then they stay.
        "iteration_bytes": kept.iteration_bytes,
        "narrow_share": kept.narrow_share,
        "split_share": kept.split_share,
    }


def write_calibration(architecture: str, entry: Mapping[str, object], path: Path = CALIBRATION) -> None:
    """Puts an entry into the table, a line for each architecture."""
    table = json.loads(path.read_text()) | {architecture: dict(entry)}
    lines = [f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in table.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _rounded(seconds: object) -> float:
    return float(f"{float(str(seconds)):.2g}")


def _launch_costs(bench: Bench) -> Row:
    """The time of the host for a launch from Python and from a native function, and of the device within a graph."""
    module = _exponentials(bench.size)
    runner = PlanRunner(bench, module, draw(module, {}))
    native = _native(bench, runner)
    rounds = HOST_ROUNDS[bench.size]
    return {
        "launches": runner.launch_count,
        "ctypes_seconds": _host_seconds(bench, lambda: runner.enqueue(bench.stream), rounds) / runner.launch_count,
        "native_seconds": _host_seconds(bench, native, rounds) / runner.launch_count,
        "graph_seconds": bench.seconds(runner.enqueue) / runner.launch_count,
    }


def _exponentials(size: Size) -> Module:
    """Small launches that do not wait for each other; of unlike sizes, or they would be one."""

    def build(ir: Builder, *values: Value) -> list[Value]:
        return [ir.exp(value) for value in values]

    return make([f"f32[{256 + 16 * ordinal}]" for ordinal in range(LAUNCHES[size])], build)


def _square_product(dtype: str, size: Size) -> Module:
    side = PRODUCT_SIZES[size]
    return make([f"{dtype}[{side}, {side}]"] * 2, lambda ir, x, y: ir.dot(x, y, "mk,kn->mn"))


def _native(bench: Bench, runner: PlanRunner) -> Callable[[], None]:
    """A call of the native function that launches what a runner does."""
    artifact = emit(runner.plan, bench.target, parse_target("cpu"), bench.compile)
    assert artifact.device is not None
    loaded = bench.load(artifact.device.kernels)
    image = load_image(next(iter(artifact.images.values())))
    (step,) = (step for step in artifact.program.body.steps if isinstance(step, Launch))
    entry = image.function(step.entry, 1)
    table = (ctypes.c_int64 * (DEVICE_FUNCTIONS + len(loaded.functions)))()
    table[DEVICE_LAUNCH], table[DEVICE_STREAM] = bench.driver.addresses["cuLaunchKernelEx"], bench.stream
    table[DEVICE_FUNCTIONS:] = loaded.functions
    words = [ctypes.addressof(table), *runner.base_addresses()]
    assert len(words) == FRAME_SYMBOLS, words
    frame = (ctypes.c_int64 * (len(words) + len(runner.addresses())))(*words, *runner.addresses())
    bench.kept += [loaded, image, table, frame]

    def call() -> None:
        result = entry(ctypes.addressof(frame))
        if result:
            bench.driver.fail(result, "to launch kernels", "cuLaunchKernelEx")

    return call


def _host_seconds(bench: Bench, call: Callable[[], None], rounds: int) -> float:
    """The median time of the host for a call, the device being idle before."""
    call()
    times = []
    for _ in range(rounds):
        bench.synchronize()
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    bench.synchronize()
    return float(np.median(times))


def _bare_launches(bench: Bench) -> Row:
    """Launches in a graph, each waiting for the one before: of nothing, and of one load."""
    kernels = bench.compile([_EMPTY, _ONE_LOAD])
    loaded, memory = bench.load(kernels), bench.buffer(256)
    bench.kept += [loaded, memory]
    count = LAUNCHES[bench.size]
    seconds = []
    for kernel, function in zip(kernels, loaded.functions, strict=True):
        launch = PlanRunner.bare_launch(bench, kernel, function, memory.address)

        def several(stream: int, launch: Callable[[int], None] = launch) -> None:
            for _ in range(count):
                launch(stream)

        seconds.append(bench.seconds(several) / count)
    return {"empty_seconds": seconds[0], "one_load_seconds": seconds[1]}


def _product(bench: Bench, dtype: str, precision: str, unit: Unit) -> Row:
    """A large square product, beside cuBLAS where torch is there."""
    side, module = PRODUCT_SIZES[bench.size], _square_product(dtype, bench.size)
    inputs = draw(module, {})
    runner = PlanRunner(bench, module, inputs, precision)
    works = {"ours": runner.enqueue}
    torch = torch_or_none()
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
        x, y = (torch.from_numpy(array.astype(np.float32)).to("cuda", kind) for array in inputs)
        works["cublas"] = torch_work(torch, lambda: torch.mm(x, y))
    elif precision == "fp32" and (cublas := cublas_of_cupy(inputs)) is not None:
        works["cublas"] = cublas
    times = bench.interleaved(works)
    flops = 2.0 * side**3
    row: Row = {"flops_per_second": flops / times["ours"], "side": side}
    row["share_of_peak"] = flops / min(times.values()) / bench.card.peak[unit]
    if "cublas" in times:
        row |= {"cublas_flops_per_second": flops / times["cublas"], "share_of_cublas": times["cublas"] / times["ours"]}
    return row
