"""What is computed before the result of a normalisation is turned, and what stays behind."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.compute_before_turning import compute_before_turning
from tests.passes.golden import M, N, Pair, check_pair, f32

PIXELS, OTHER = f32(N, M, 2, 3), f32(N, M, 6)
TURN = (0, 2, 1, 3)


def _normal(b: Builder, x: Value) -> Value:
    """[N, M, 2, 3] read as [N, 2, M, 3]"""
    rows = b.transpose(x, TURN)
    return b.layer_norm(rows, b.full((M, 3), 1.0, F32), b.full((M, 3), 0.0, F32), 2, 1e-5)


def _joined(b: Builder, x: Value) -> Value:
    return b.reshape(b.transpose(x, TURN), (N, M, 6))


def _scale(b: Builder) -> Value:
    return b.constant(np.arange(6, dtype=np.float32))


def _silu(b: Builder, x: Value) -> Value:
    return b.mul(x, b.sigmoid(x))


def _scaled(b: Builder, x: Value) -> Value:
    return b.mul(x, b.broadcast(_scale(b), (2,), (N, M, 6)))


def _scaled_inside(b: Builder, x: Value) -> Value:
    return b.mul(x, b.broadcast(b.reshape(_scale(b), (2, 3)), (1, 3), (N, 2, M, 3)))


def _turned_residual(b: Builder, r: Value) -> Value:
    return b.transpose(b.reshape(r, (N, M, 2, 3)), TURN)


PAIRS = {
    "a scale and an activation": Pair(
        (PIXELS,),
        lambda b, x: _silu(b, _scaled(b, _joined(b, _normal(b, x)))),
        lambda b, x: _joined(b, _silu(b, _scaled_inside(b, _normal(b, x)))),
    ),
    "casts on the way": Pair(
        (PIXELS,),
        lambda b, x: b.cast(b.reshape(b.cast(b.transpose(_normal(b, x), TURN), BF16), (N, M, 6)), F32),
        lambda b, x: b.reshape(b.transpose(b.cast(b.cast(_normal(b, x), BF16), F32), TURN), (N, M, 6)),
    ),
    "a sum with what is in memory": Pair(
        (PIXELS, OTHER),
        lambda b, x, r: b.add(_joined(b, _normal(b, x)), r),
        lambda b, x, r: _joined(b, b.add(_normal(b, x), _turned_residual(b, r))),
    ),
    "what comes before a sum with what is computed elsewhere": Pair(
        (PIXELS, OTHER),
        lambda b, x, r: b.add(b.exp(_joined(b, _normal(b, x))), b.tanh(r)),
        lambda b, x, r: b.add(_joined(b, b.exp(_normal(b, x))), b.tanh(r)),
    ),
    "two results of one": Pair(
        (PIXELS,),
        lambda b, x: _twice(b, _scaled(b, _joined(b, _normal(b, x)))),
        lambda b, x: _twice(b, _joined(b, _scaled_inside(b, _normal(b, x)))),
    ),
    "a result of the graph": Pair((PIXELS,), lambda b, x: _kept(b, _joined(b, _normal(b, x)))),
    "another turn than that of what is read": Pair(
        (f32(N, 2, 2, 3),),
        lambda b, x: b.exp(b.transpose(_read_in_order(b, x), TURN)),
    ),
}


def _twice(b: Builder, x: Value) -> tuple[Value, Value]:
    return b.reduce(x, "sum", (1,)), b.exp(x)


def _kept(b: Builder, x: Value) -> tuple[Value, Value]:
    return x, b.exp(x)


def _read_in_order(b: Builder, x: Value) -> Value:
    return b.layer_norm(x, b.full((2, 3), 1.0, F32), b.full((2, 3), 0.0, F32), 2, 1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_what_follows_is_computed_before_the_turn(name: str) -> None:
    check_pair(compute_before_turning, PAIRS[name])
