"""Products of bytes with weights of few bits, where there is no kernel for them and where there is one."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.passes.lower.decompose_byte_blocks import decompose_byte_blocks_but
from onnxc.compiler.passes.pipeline import run_pipeline
from onnxc.compiler.passes.pipelines import target_pipeline
from tests.passes.golden import N, Pair, built, check_pair, f32, i8

CODES = np.random.default_rng(0).integers(-8, 8, (5, 64)).astype(np.int8)
SCALES = np.random.default_rng(1).standard_normal((2, 5, 2)).astype(np.float32)


def _weights(b: Builder, has_zeros: bool) -> tuple[Value, Value, Value | None]:
    scales, zeros = SCALES
    return b.constant(CODES), b.constant(scales), b.constant(zeros) if has_zeros else None


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("outer", [(), (N,), (2, N)], ids=str)
def test_bytes_become_the_floats_that_they_stand_for(outer: tuple[Dim, ...], has_zeros: bool) -> None:
    def after(b: Builder, x: Value, steps: Value) -> Value:
        repeated = b.broadcast(steps, range(steps.rank), (*outer, 2, 32))
        rows = b.mul(b.cast(x, F32), b.reshape(repeated, (*outer, 64)))
        return b.block_product(rows, *_weights(b, has_zeros), 4, 32)

    pair = Pair(
        (i8(*outer, 64), f32(*outer, 2)),
        lambda b, x, steps: b.byte_block_product(x, steps, *_weights(b, has_zeros), 4, 32),
        after,
        rounds=True,
    )
    check_pair(decompose_byte_blocks_but(lambda op: False), pair)


def test_what_is_kept_stays() -> None:
    def is_narrow(op: Op) -> bool:
        return op.int("bits") == 4

    pair = Pair((i8(N, 64), f32(N, 2)), lambda b, x, steps: b.byte_block_product(x, steps, *_weights(b, False), 4, 32))
    check_pair(decompose_byte_blocks_but(is_narrow), pair)


def test_a_gpu_multiplies_floats() -> None:
    module = built(
        (i8(N, 64), f32(N, 2)), lambda b, x, steps: b.byte_block_product(x, steps, *_weights(b, False), 4, 32)
    )
    names = [op.name for op in run_pipeline(module, target_pipeline("cuda")).main.body.ops]
    assert "block_product" in names
    assert "byte_block_product" not in names
