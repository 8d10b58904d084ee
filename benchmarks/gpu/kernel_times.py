"""The time of each kernel kind: as a share of the copy bandwidth, of the peak, and beside torch's own kernels."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType

import numpy as np

from benchmarks.gpu.bench import Bench, Row, Size, attempt, rows_in_time
from benchmarks.gpu.calibration import copy_bandwidth, copy_kernel
from benchmarks.gpu.kernel_values import draw, module_of
from benchmarks.gpu.others import torch_or_none, torch_work
from benchmarks.gpu.plan_runner import PlanRunner
from benchmarks.gpu.planned_kernels import planned
from onnxc.compiler.codegen_gpu.kernel_work import work_of
from onnxc.compiler.codegen_gpu.schedules.cards import Unit
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.ir.dim_symbols import evaluate, substitute
from onnxc.compiler.ir.module import Module
from onnxc.compiler.planning.kernel_plan import Segment
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import make
from tests.codegen_gpu.kinds import KINDS

Sizes = Mapping[str, tuple[str, ...]]

TIMED: Sizes = {
    "pointwise": ("T[8192, 4096]", "T[8192, 4096]"),
    "broadcast": ("T[65536, 1024]", "T[1024]"),
    "transpose": ("T[8192, 8192]",),
    "gather": ("T[100000, 1024]", "i64[65536]"),
    "concatenate": ("T[65536, 384]", "T[65536, 640]"),
    "softmax": ("T[65536, 1024]",),
    "softmax_long": ("T[1024, 65536]",),
    "layer_norm": ("T[65536, 1024]", "T[1024]", "T[1024]"),
    "reduce_columns": ("T[65536, 1024]",),
    "scan": ("T[4096, 8192]",),
    "window": ("T[64, 112, 112, 64]",),
    "contraction": ("T[4096, 4096]", "T[4096, 4096]", "T[4096]"),
    "contraction_shared": ("T[1, 4096]", "T[4096, 16384]", "T[16384]"),
    "convolution": ("T[64, 56, 56, 128]", "T[128, 3, 3, 128]"),
    "depthwise": ("T[64, 112, 112, 64]", "T[3, 3, 1, 64]"),
    "attention": ("T[8, 16, 2048, 128]",) * 3,
    "attention_causal": ("T[8, 16, 2048, 128]", "T[8, 4, 2048, 128]", "T[8, 4, 2048, 128]"),
}
"""Shapes that fill a large card; the builders are those of the kinds."""

_PACKED: Mapping[str, tuple[int, ...]] = {"convolution": (0, 3, 1, 2), "depthwise": (3, 2, 0, 1)}
"""How filters are turned that lie as kernels read them."""

TINY: Sizes = {"softmax": ("T[4, 8]",), "contraction": ("T[16, 16]", "T[16, 16]", "T[16]")}


def kernel_times(bench: Bench) -> Iterator[Row]:
    """One row for each kind and element type, after one with the bandwidth that shares are of."""
    copy = attempt("copy", lambda: {"bytes_per_second": copy_bandwidth(bench)})
    yield copy
    bandwidth = float(str(copy.get("bytes_per_second", bench.card.bandwidth)))
    chosen = _chosen(bench.size)
    yield from rows_in_time(
        bench, [(f"{n}/{t}", partial(_row, bench, n, types, t, bandwidth)) for n, types, t in chosen]
    )


def needed_kernels(target: Target, size: Size) -> Iterator[KernelSource]:
    """The sources of all kernels that are launched."""
    yield copy_kernel(size)
    for name, types, dtype in _chosen(size):
        yield from planned(timed_module(name, dtype, types), target).sources


def _chosen(size: Size) -> list[tuple[str, tuple[str, ...], str]]:
    """Names, shapes and element types of what is timed."""
    dtypes = ("bf16", "f32") if size == "full" else ("bf16",) if size == "quick" else ("f32",)
    timed = TINY if size == "tiny" else TIMED
    return [(name, types, dtype) for dtype in dtypes for name, types in timed.items()]


def _row(bench: Bench, name: str, types: Sequence[str], dtype: str, bandwidth: float) -> Row:
    module = timed_module(name, dtype, types)
    inputs = draw(module, {})
    runner = PlanRunner(bench, module, inputs)
    works = {"ours": runner.enqueue}
    torch = torch_or_none()
    if torch is not None and name in TORCH:
        tensors = [torch.from_numpy(x.astype(np.float32) if x.dtype.kind in "fV" else x).to("cuda") for x in inputs]
        kind = {"bf16": torch.bfloat16, "f32": torch.float32}[dtype]
        tensors = [x.to(kind) if x.is_floating_point() else x for x in tensors]
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        works["torch"] = torch_work(torch, TORCH[name](torch, *tensors))
    times = bench.interleaved(works)
    nbytes, flops, repeats, unit = _work(runner)
    row: Row = {
        "seconds": times["ours"],
        "bytes": nbytes,
        "flops": flops,
        "share_of_copy": nbytes / times["ours"] / bandwidth,
        "share_of_peak": flops * repeats / times["ours"] / bench.card.peak[unit],
    }
    if "torch" in times:
        row |= {"torch_seconds": times["torch"], "ratio_to_torch": times["ours"] / times["torch"]}
    return row


def timed_module(name: str, dtype: str, types: Sequence[str]) -> Module:
    """The module of a kind; filters lie as they are packed in a model."""
    if name not in _PACKED:
        return module_of(name, dtype, types)
    written = [text.replace("T[", f"{dtype}[") for text in types]
    return make(written, lambda ir, x, w: KINDS[name].build(ir, x, ir.transpose(w, _PACKED[name])))


def _work(runner: PlanRunner) -> tuple[int, int, int, Unit]:
    """Bytes and operations of all kernels, and what most operations are of."""
    (segment,) = runner.plan.body.steps
    assert isinstance(segment, Segment)
    nbytes = flops = 0
    works = []
    for launch in segment.launches:
        variant = launch.variant_for(runner.symbols)
        kernel = runner.plan.kernels[variant.kernel]
        work = work_of(kernel)
        own = dict(zip(kernel.symbols, variant.sizes, strict=True))
        nbytes += evaluate(substitute(work.read_bytes + work.written_bytes, own), runner.symbols)
        flops += evaluate(substitute(work.flops, own), runner.symbols)
        works.append(work)
    heaviest = next((work for work in works if work.unit != "fp32"), works[0])
    return nbytes, flops, heaviest.repeats, heaviest.unit


Call = Callable[[], object]


def _convolution(torch: ModuleType, x: object, w: object, groups: int) -> Call:
    """cuDNN's convolution, channels last as ours."""
    pixels = x.permute(0, 3, 1, 2)  # type: ignore[attr-defined]
    order = _PACKED["convolution" if groups == 1 else "depthwise"]
    weights = w.permute(order).contiguous(memory_format=torch.channels_last)  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = True
    return lambda: torch.nn.functional.conv2d(pixels, weights, padding=1, groups=groups)


TORCH: Mapping[str, Callable[..., Call]] = {
    "pointwise": lambda torch, x, y: lambda: (x + y) * torch.sigmoid(x),
    "broadcast": lambda torch, x, y: lambda: x + y,
    "transpose": lambda torch, x: lambda: (-x).t().contiguous(),
    "gather": lambda torch, x, i: lambda: x.index_select(0, i),
    "concatenate": lambda torch, x, y: lambda: torch.cat((x, y), 1),
    "softmax": lambda torch, x: lambda: torch.softmax(x, 1),
    "softmax_long": lambda torch, x: lambda: torch.softmax(x, 1),
    "layer_norm": lambda torch, x, s, b: lambda: torch.nn.functional.layer_norm(x, x.shape[1:], s, b, 1e-5),
    "reduce_columns": lambda torch, x: lambda: x.sum(0),
    "scan": lambda torch, x: lambda: x.cumsum(1),
    "window": lambda torch, x: lambda: torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1),
    "contraction": lambda torch, x, w, b: lambda: torch.relu(torch.addmm(b, x, w)),
    "contraction_shared": lambda torch, x, w, b: lambda: torch.relu(torch.addmm(b, x, w)),
    "convolution": lambda torch, x, w: _convolution(torch, x, w, 1),
    "depthwise": lambda torch, x, w: _convolution(torch, x, w, 64),
    "attention": lambda torch, q, k, v: lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.125),
    "attention_causal": lambda torch, q, k, v: (
        lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.1, enable_gqa=True)
    ),
}
"""What torch does for the same kind, prepared with the tensors."""
