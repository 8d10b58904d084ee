"""One module or more for every kernel kind: what the golden sources and the compiled kernels are checked on.

`python -m tests.codegen_gpu.kinds` writes the golden sources anew.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onnxc.compiler.codegen_gpu.kernels import emit_kernel
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.target import Target, parse_target

# Not by tests/codegen_gpu/support.py: where a pack is measured there is no Triton.
from tests.codegen_cpu.support import make
from tests.codegen_gpu.callers_code import affine, centred, turned

__all__ = ["FOLDER", "KINDS", "Kind", "golden_text", "sources_of"]

SM_90 = parse_target("cuda:sm_90")
FOLDER = Path(__file__).with_name("golden")


@dataclass(frozen=True)
class Kind:
    """A module of one kernel in the element type T; `instructions` begin names that it must have."""

    types: tuple[str, ...]
    build: Callable[..., Value | Sequence[Value]]
    instructions: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("f32", "f16", "bf16")


def _chain(ir: Builder, x: Value, y: Value) -> Value:
    return ir.mul(ir.add(x, y), ir.sigmoid(x))


def _linear(ir: Builder, x: Value, w: Value, bias: Value) -> Value:
    return ir.max(ir.add(ir.dot(x, w, "mk,kn->mn"), bias), 0.0)


def _block_product(ir: Builder, x: Value) -> Value:
    """Weights of 4 bits in blocks of 32, with zero points."""
    codes = np.resize(np.arange(-8, 8, dtype=np.int8), (1000, 1024))
    scales, zeros = (np.resize(np.array(each, np.float32), (1000, 32)) for each in ((0.5, 0.25, 2), (0, 1)))
    weights = (ir.constant(each) for each in (codes, scales, zeros))
    return ir.cast(ir.block_product(ir.cast(x, F32), *weights, 4, 32), x.dtype)


def _convolution(ir: Builder, x: Value, w: Value) -> Value:
    return ir.convolution(x, w, strides=(1, 1), low=(1, 1), high=(1, 1), dilations=(1, 1), dimensions="n01c,oi01->n01c")


def _depthwise(ir: Builder, x: Value, w: Value) -> Value:
    return ir.convolution(
        x, w, strides=(1, 1), low=(1, 1), high=(1, 1), dilations=(1, 1), groups=64, dimensions="n01c,oi01->n01c"
    )


def _compaction(ir: Builder, x: Value) -> Value:
    return ir.true_positions(ir.less(0.0, x), 1000)


def _attention(ir: Builder, q: Value, k: Value, v: Value) -> Value:
    return ir.attention(q, k, v, None, 0.125, False, 0.0)


def _recurrence(ir: Builder, x: Value, first: Value, w: Value) -> Sequence[Value]:
    """Two loops of h = tanh(x[t] + h w), one of them from the last row of x to the first."""
    blocks = []
    for backwards in (False, True):
        nested = ir.nested()
        iteration = nested.parameter("iteration", TensorType(I64, ()))
        h, rows, weights = (nested.parameter(name, value.type) for name, value in (("h", first), ("x", x), ("w", w)))
        ordinal = nested.sub(nested.size(x.shape[0] - 1), iteration) if backwards else iteration
        after = nested.tanh(nested.add(nested.gather(rows, ordinal, 0), nested.dot(h, weights, "bk,ku->bu")))
        blocks.append(nested.block((iteration, h, rows, weights), (after, after)))
    stacked = TensorType(first.dtype, (x.shape[0], *first.shape))
    attributes = {"trips": x.shape[0], "carried": 1, "scans": 1}
    return ir.op("recurrence", (first, first, x, w), attributes, blocks, (first.type, stacked) * 2)


def _growing_attention(ir: Builder, q: Value, k: Value, v: Value, cos: Value, sin: Value) -> Value:
    """Attention of rotary queries to a cache in f32, as models store it: both are computed where they are read."""
    a, b = (ir.slice_axis(q, 3, start, 32) for start in (0, 32))
    c, s = (ir.broadcast(factor, (2, 3), a.shape) for factor in (cos, sin))
    turned = ir.concatenate([ir.sub(ir.mul(a, c), ir.mul(b, s)), ir.add(ir.mul(a, s), ir.mul(b, c))], 3)
    y = ir.attention(turned, ir.cast(k, q.dtype), ir.cast(v, q.dtype), None, 0.125, False, 0.0)
    return ir.reshape(ir.transpose(y, (0, 2, 1, 3)), (q.shape[0], q.shape[2], 768))


def _windows(ir: Builder, x: Value, w: Value, residual: Value) -> Value:
    """A product of windows of 7 x 7 pixels that is added to, and written as, an image of 56 x 56."""
    batch = residual.shape[0]
    pixels = ir.transpose(ir.reshape(residual, (batch, 8, 7, 8, 7, 96)), (0, 1, 3, 2, 4, 5))
    total = ir.add(ir.dot(x, w, "amk,kn->amn"), ir.reshape(pixels, (64 * batch, 49, 96)))
    image = ir.transpose(ir.reshape(total, (batch, 8, 8, 7, 7, 96)), (0, 1, 3, 2, 4, 5))
    return ir.reshape(image, (batch, 3136, 96))


def _growing_cache(ir: Builder, memory: Value, new: Value, length: Value) -> Value:
    """The rows in use of a cache, new ones behind them, and the rest of the memory."""
    used, capacity = length.shape[0], memory.shape[2]
    behind = used + new.shape[2]
    return ir.concatenate(
        [ir.slice_axis(memory, 2, 0, used), new, ir.slice_axis(memory, 2, behind, capacity - behind)], 2
    )


KINDS: Mapping[str, Kind] = {
    "pointwise": Kind(("T[4096, 256]", "T[4096, 256]"), _chain, ("LDG.E.128", "STG.E.128")),
    "pointwise_symbolic": Kind(("T[N]", "T[N]"), _chain, ("LDG.E.128", "STG.E.128")),
    "broadcast": Kind(("T[N, 256]", "T[256]"), lambda ir, x, y: ir.add(x, y), ("LDG.E.128",)),
    "transpose": Kind(
        ("T[512, 1024]",), lambda ir, x: ir.transpose(ir.neg(x), (1, 0)), ("LDS", "STS", "LDG.E.128", "STG.E.128")
    ),
    "gather": Kind(("T[1000, 256]", "i64[N]"), lambda ir, x, i: ir.gather(x, i, 0)),
    "concatenate": Kind(("T[64, 96]", "T[64, 160]"), lambda ir, x, y: ir.concatenate([x, y], 1)),
    "concatenate_cache": Kind(("T[B, 8, C, 64]", "T[B, 8, S, 64]", "u8[P, 0]"), _growing_cache, dtypes=("bf16",)),
    "softmax": Kind(("T[N, 1024]",), lambda ir, x: ir.softmax(x, 1), ("MUFU.EX2",)),
    "softmax_long": Kind(("T[N, M]",), lambda ir, x: ir.softmax(x, 1), ("MUFU.EX2",)),
    "layer_norm": Kind(("T[N, 768]", "T[768]", "T[768]"), lambda ir, x, s, b: ir.layer_norm(x, s, b, 1, 1e-5)),
    "reduce_columns": Kind(("T[300, 4096]",), lambda ir, x: ir.reduce(x, "sum", (0,))),
    "reduce_all": Kind(("T[1, 10000000]",), lambda ir, x: ir.reduce(x, "sum", (0, 1)), ("LDG.E.128",)),
    "reduce_few": Kind(("T[N, M]",), lambda ir, x: ir.sqrt(ir.reduce(x, "max", (0,)))),
    "arg_reduce": Kind(("T[N, 1000]",), lambda ir, x: ir.arg_reduce(x, "max", 1, False)),
    "arg_reduce_shared": Kind(("T[1, 128256]",), lambda ir, x: ir.arg_reduce(x, "max", 1, False), dtypes=("f32",)),
    "contraction": Kind(("T[1024, 768]", "T[768, 3072]", "T[3072]"), _linear, ("HGMMA", "LDGSTS|UTMALDG")),
    "contraction_symbolic": Kind(("T[M, 768]", "T[768, 768]", "T[768]"), _linear, ("LDGSTS|UTMALDG",)),
    "contraction_blocks": Kind(
        ("T[M, 512]", "T[2048, 512]"), lambda ir, x, y: ir.dot(x, y, "mk,nk->mn"), ("LDGSTS|UTMALDG",), ("bf16", "f16")
    ),
    "contraction_shared": Kind(("T[1, 4096]", "T[4096, 64]", "T[64]"), _linear),
    "contraction_simple": Kind(
        ("T[64, 64]", "T[64, 64]"), lambda ir, x, y: ir.dot(x, y, "mk,kn->mn"), dtypes=("f64", "i32")
    ),
    "block_product": Kind(("T[2048, 1024]",), _block_product, ("HGMMA", "LDGSTS")),
    "block_product_line": Kind(("T[1, 1024]",), _block_product, dtypes=("f32",)),
    "convolution": Kind(("T[8, 28, 28, 128]", "T[128, 128, 3, 3]"), _convolution),
    "depthwise": Kind(("T[8, 28, 28, 64]", "T[64, 1, 3, 3]"), _depthwise),
    "window": Kind(
        ("T[8, 56, 56, 64]",),
        lambda ir, x: ir.reduce_window(x, "max", (1, 3, 3, 1), (1, 2, 2, 1), (0, 1, 1, 0), (0, 1, 1, 0), (1, 1, 1, 1)),
    ),
    "attention": Kind(("T[2, 12, 256, 64]",) * 3, _attention, ("MUFU.EX2",)),
    "attention_causal": Kind(
        ("T[B, 8, S, 128]", "T[B, 2, T, 128]", "T[B, 2, T, 128]"),
        lambda ir, q, k, v: ir.attention(q, k, v, None, 0.1, True, 0.0),
    ),
    "attention_decode": Kind(
        ("T[B, 32, S, 128]", "T[B, 8, T, 128]", "T[B, 8, T, 128]", "T[B, 1, S, T]"),
        lambda ir, q, k, v, mask: ir.attention(q, k, v, mask, 0.1, False, 0.0),
        ("MUFU.EX2",),
    ),
    "attention_growing": Kind(
        ("T[B, 12, S, 64]", "f32[B, 4, P, 64]", "f32[B, 4, P, 64]", "T[S, 32]", "T[S, 32]"),
        _growing_attention,
        ("MUFU.EX2",),
        ("bf16",),
    ),
    "contraction_arranged": Kind(("T[64*B, 49, 96]", "T[96, 96]", "T[B, 3136, 96]"), _windows, dtypes=("bf16",)),
    "scan": Kind(("T[64, 3000]",), lambda ir, x: ir.scan_axis(x, "sum", 1, False, False)),
    "scan_shared": Kind(("T[1, 1000000]",), lambda ir, x: ir.scan_axis(x, "sum", 1, False, False), dtypes=("f32",)),
    "compaction": Kind(("T[N]",), _compaction, ("LDG.E.128",), ("f32",)),
    "scatter": Kind(("T[128, 64]", "i64[U, 1]", "T[U, 64]"), lambda ir, x, i, u: ir.scatter_nd(x, i, u, "add")),
    "scatter_last": Kind(
        ("T[1000, 64]", "i64[600, 1]", "T[600, 64]"),
        lambda ir, x, i, u: ir.scatter_nd(x, i, u, "set"),
        ("RED|ATOM",),
        ("f32",),
    ),
    "ordering": Kind(("T[16, 1000]",), lambda ir, x: ir.top_k(x, 5, 1, True)),
    "ordering_digits": Kind(("T[4, 5000]",), lambda ir, x: ir.sort(x, 1, False), dtypes=("f32", "i64")),
    "ordering_rounds": Kind(("T[4, 128256]",), lambda ir, x: ir.top_k(x, 50, 1, True), dtypes=("f32",)),
    "recurrence": Kind(("T[L, B, 64]", "T[B, 64]", "T[64, 64]"), _recurrence, ("ATOMG", "HMMA")),
    "recurrence_small": Kind(("T[L, B, 20]", "T[B, 20]", "T[20, 20]"), _recurrence, ("HMMA",), ("f32",)),
    "suppress_boxes": Kind(
        ("T[2, S, 4]", "T[2, 3, S]", "f32[]"), lambda ir, b, s, o: ir.suppress_boxes(b, s, [o], 100), dtypes=("f32",)
    ),
    "native_call_elements": Kind(("T[4096, 256]",), affine, ("LDG.E.128", "STG.E.128")),
    "native_call_rows": Kind(("T[N, 1000]",), centred),
    "native_call_whole": Kind(("T[N, 96]",), turned, dtypes=("f32",)),
    "random": Kind((), lambda ir: ir.random_bits((64, 64), 7), dtypes=("u32",)),
}


def sources_of(name: str, dtype: str, target: Target = SM_90) -> list[KernelSource]:
    """The sources of a kind in one element type, each once."""
    kind = KINDS[name]
    types = [text.replace("T[", f"{dtype}[", 1) if text.startswith("T[") else text for text in kind.types]
    plan = plan_kernels(make(types, kind.build), gpu_plan_target(target))
    check_plan(plan)
    assert len(plan.body.steps) == 1, plan
    codes = [emit_kernel(kernel, target) for kernel in plan.kernels]
    return list(dict.fromkeys(step.source for code in codes for step in code.steps))


def golden_text(name: str) -> str:
    """What the golden file of a kind holds: the sources in its first element type, with what they are compiled for."""
    parts = []
    for source in sources_of(name, KINDS[name].dtypes[0]):
        types = ", ".join(f"{parameter.name}: {parameter.type}" for parameter in source.parameters)
        divisible = f", divisible by 16: {', '.join(source.divisible)}" if source.divisible else ""
        parts.append(f"# {types}; {source.warps} warps, {source.stages} stages{divisible}\n{source.text}")
    return "\n".join(parts)


if __name__ == "__main__":
    for stale in set(FOLDER.glob("*.txt")) - {FOLDER / f"{name}.txt" for name in KINDS}:
        stale.unlink()
    for name in KINDS:
        (FOLDER / f"{name}.txt").write_text(golden_text(name))
