"""The number of threads shows in no bit of any result."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I8, I64
from onnxc.compiler.ir.module import Value
from tests.codegen_cpu.support import Native, make, sample

Build = Callable[..., Value | Sequence[Value]]


def _convolved(ir: Builder, x: Value, filters: tuple[int, ...], groups: int) -> Value:
    w = ir.constant(sample(F32, *filters, seed=1))
    return ir.convolution(x, w, (1, 1), (1, 1), (1, 1), (1, 1), groups)


def _windows(ir: Builder, x: Value, kind: str) -> Value:
    return ir.reduce_window(x, kind, (1, 1, 3, 3), (1, 1, 1, 1), (0, 0, 1, 1), (0, 0, 1, 1), (1, 1, 1, 1))


def _few_bits(ir: Builder, x: Value) -> Value:
    codes = np.random.default_rng(0).integers(-8, 8, (900, 256)).astype(np.int8)
    return ir.block_product(x, ir.constant(codes), ir.constant(sample(F32, 900, 8, seed=1)), None, 4, 32)


def _bytes_by_few_bits(ir: Builder, x: Value) -> Value:
    codes = np.random.default_rng(0).integers(-8, 8, (900, 256)).astype(np.int8)
    steps = ir.reduce(ir.reshape(x, (70, 8, 32)), "max", (2,))
    rows = ir.cast(ir.round(ir.mul(x, 20.0)), I8)
    return ir.byte_block_product(rows, steps, ir.constant(codes), ir.constant(sample(F32, 900, 8, seed=1)), None, 4, 32)


def _scattered(ir: Builder, x: Value) -> list[Value]:
    rows = np.random.default_rng(0).integers(0, 3000, (50, 1))
    columns = np.random.default_rng(1).integers(0, 3000, (60, 40))
    slices = ir.constant(sample(F32, 50, 40, seed=1))
    elements = ir.constant(sample(F32, 60, 40, seed=2))
    return [
        ir.scatter_nd(x, ir.constant(rows), slices, "add"),
        ir.scatter_along(x, ir.constant(columns), elements, 0, "add"),
        ir.scatter_along(x, ir.constant(columns % 40), elements, 1, "mul"),
        ir.gather(x, ir.reshape(ir.constant(rows), (50,)), 0),
    ]


# Sizes at which every kernel has more chunks of work than there are threads.
CASES: dict[str, tuple[list[tuple[int, ...]], Build]] = {
    "pointwise": ([(300, 700), (700,)], lambda ir, x, y: ir.exp(ir.mul(x, ir.broadcast_to(y, x.shape)))),
    "one long row": ([(300_000,)], lambda ir, x: ir.tanh(x)),
    "concatenate": ([(200, 300), (200, 500)], lambda ir, x, y: ir.concatenate([ir.transpose(x, (0, 1)), y], 1)),
    "reduction": ([(200, 30, 70)], lambda ir, x: [ir.reduce(x, "sum", axes) for axes in ((2,), (0,), (1, 2), (0, 1))]),
    "softmax": ([(300, 400)], lambda ir, x: [ir.softmax(x, 1), ir.softmax(x, 0)]),
    "contraction": ([(300, 200), (200, 300)], lambda ir, x, y: ir.dot(x, y, "mk,kn->mn")),
    "batches": ([(40, 60, 50), (40, 50, 60)], lambda ir, x, y: ir.max(ir.dot(x, y, "bmk,bkn->bmn"), 0.0)),
    "simple contraction": ([(100, 30, 50), (50, 30)], lambda ir, x, y: ir.dot(x, y, "mlk,kl->m")),
    "panels": ([(4, 16, 40, 40)], lambda ir, x: _convolved(ir, x, (40, 16, 3, 3), 1)),
    "depthwise": ([(4, 32, 60, 60)], lambda ir, x: _convolved(ir, x, (32, 1, 3, 3), 32)),
    "window": ([(4, 32, 60, 60)], lambda ir, x: [_windows(ir, x, "sum"), _windows(ir, x, "max")]),
    "weights of few bits": ([(70, 256)], _few_bits),
    "bytes by weights of few bits": ([(70, 256)], _bytes_by_few_bits),
    "scan": ([(100, 40, 50)], lambda ir, x: [ir.scan_axis(x, "sum", axis) for axis in range(3)]),
    "compaction": ([(200_001,)], lambda ir, x: ir.true_positions(ir.less(x, 0.0), 100_500)),
    "sort": ([(400, 120)], lambda ir, x: [*ir.sort(x, 1), *ir.sort(x, 0), *ir.top_k(x, 9, 1)]),
    "scatter": ([(3000, 40)], _scattered),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_the_same_to_the_bit(name: str) -> None:
    shapes, build = CASES[name]
    native = Native(make([f"f32{list(shape)}" for shape in shapes], build))
    arrays = [sample(F32, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    single = native(*arrays)
    for native.threads in (2, 4):
        for found, wanted in zip(native(*arrays), single, strict=True):
            assert found.tobytes() == wanted.tobytes()
    native.check(*arrays, bound=1e-5)


def test_integer_indices_are_shared_too() -> None:
    native = Native(make(["i64[N]"], lambda ir, x: [ir.arg_reduce(ir.reshape(x, (100, 1000)), "max", 1), ir.add(x, 1)]))
    x = sample(I64, 100_000)
    single = native(x)
    native.threads = 4
    for found, wanted in zip(native(x), single, strict=True):
        assert found.tobytes() == wanted.tobytes()
