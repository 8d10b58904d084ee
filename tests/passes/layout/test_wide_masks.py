"""Masks of keys that an index picks, which become words, and those that stay bytes."""

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, F32, I32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.wide_masks import wide_masks
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.target import parse_target
from tests.passes.golden import M, N, Pair, boolean, built, check_pair, f32, i64

Q, K = f32(N, 2, 3, 4), f32(N, 2, M, 4)


def _added(b: Builder, seen: Value) -> Value:
    """0 where a key is seen, the least float where it is not."""
    return b.select(seen, b.constant(np.zeros((), np.float32)), np.finfo(np.float32).min)


def _attended(b: Builder, q: Value, k: Value, seen: Value) -> Value:
    """Attention to the keys that are seen, of a mask [N or 1, 1, 1 or 3, M]."""
    whole = b.broadcast(seen, (0, 1, 2, 3), (N, 1, 3, M))
    return b.attention(q, k, k, _added(b, whole), 0.5)


def _attended_by_words(b: Builder, q: Value, k: Value, words: Value) -> Value:
    whole = b.cast(b.broadcast(words, (0, 1, 2, 3), (N, 1, 3, M)), BOOL)
    return b.attention(q, k, k, _added(b, whole), 0.5)


def _rows(b: Builder, mask: Value, rows: Value) -> Value:
    """The rows of a mask [N, M] that an index [N] picks, as [N, 1, 1, M]."""
    return b.reshape(b.gather(mask, rows, 0), (N, 1, 1, M))


def _both(b: Builder, q: Value, k: Value, mask: Value) -> tuple[Value, Value]:
    """Attention, and the mask, which is picked by numbers that are in range for all sizes."""
    picked = b.gather(mask, _numbers(b), 0)
    return _attended(b, q, k, b.reshape(picked, (N, 1, 1, M))), b.not_(picked)


def _words_and_bools(b: Builder, q: Value, k: Value, mask: Value) -> tuple[Value, Value]:
    words = b.gather(b.cast(mask, I32), _numbers(b), 0)
    attended = _attended_by_words(b, q, k, b.reshape(words, (N, 1, 1, M)))
    return attended, b.not_(b.cast(words, BOOL))


def _numbers(b: Builder) -> Value:
    return b.iota((N,), 0, I64)


PAIRS = {
    "picked by rows": Pair(
        (Q, K, boolean(N, M)),
        lambda b, q, k, mask: _attended(b, q, k, _rows(b, mask, _numbers(b))),
        lambda b, q, k, mask: _attended_by_words(b, q, k, _rows(b, b.cast(mask, I32), _numbers(b))),
    ),
    "of one sequence": Pair(
        (Q, K, boolean(N, M)),
        lambda b, q, k, mask: _attended(b, q, k, b.reshape(b.gather(mask, b.constant(np.array([0])), 0), (1, 1, 1, M))),
        lambda b, q, k, mask: _attended_by_words(
            b, q, k, b.reshape(b.gather(b.cast(mask, I32), b.constant(np.array([0])), 0), (1, 1, 1, M))
        ),
        sizes=(1, 3),
    ),
    "that something else uses": Pair(
        (Q, K, boolean(N, M)),
        _both,
        _words_and_bools,
    ),
    "with queries": Pair(
        (Q, K, boolean(3, M)),
        lambda b, q, k, mask: _attended(
            b, q, k, b.reshape(b.gather(mask, b.constant(np.array([2, 0, 1])), 0), (1, 1, 3, M))
        ),
    ),
    "that nothing picks": Pair(
        (Q, K, boolean(N, M)), lambda b, q, k, mask: _attended(b, q, k, b.reshape(mask, (N, 1, 1, M)))
    ),
    "of floats": Pair(
        (Q, K, f32(N, M)),
        lambda b, q, k, mask: b.attention(
            q, k, k, b.broadcast(_rows(b, mask, _numbers(b)), (0, 1, 2, 3), (N, 1, 3, M)), 0.5
        ),
    ),
    "of no attention": Pair(
        (boolean(N, M),), lambda b, mask: b.not_(b.gather(mask, _numbers(b), 0))
    ),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_masks(pair: Pair) -> None:
    check_pair(wide_masks, pair)


def test_attention_reads_the_words_from_memory() -> None:
    """Of a mask of i64 that indices of both axes pick, as exporters write it, for two layers."""
    module = wide_masks(built((Q, K, i64(N, M)), _two_layers))
    plan = plan_kernels(module, gpu_plan_target(parse_target("cuda:sm_90")))
    blocks = [kernel.block for kernel in plan.kernels if kernel.kind == "attention"]
    assert blocks
    assert {parameter.dtype for block in blocks for parameter in block.parameters} == {F32, I32}


def _two_layers(b: Builder, q: Value, k: Value, mask: Value) -> Value:
    whole = (N, 1, 1, M, 1)
    at = [b.broadcast(b.iota((size,), 0, I64), (axis,), whole) for size, axis in ((N, 0), (M, 3))]
    picked = b.op("gather_nd", [b.cast(mask, BOOL), b.concatenate(at, 4)], {"batch_dims": 0})[0]
    return _attended(b, _attended(b, q, k, picked), k, picked)
