"""Attention is taken apart where a target has no kernel for all of it, and stays whole where it has."""

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.lower.decompose_attention import decompose_attention_but
from tests.passes.golden import N, Pair, check_pair

WIDEST = 8
FLOATS = (F32, F16, BF16)


def _heads(dtype: DType, width: Dim, value_width: Dim) -> tuple[TensorType, ...]:
    """Queries, keys and values: two heads of queries to one of the rest."""
    return tuple(
        TensorType(dtype, (2, heads, positions, size))
        for heads, positions, size in ((2, N, width), (1, 3, width), (1, 3, value_width))
    )


def _whole(b: Builder, q: Value, k: Value, v: Value) -> Value:
    return b.attention(q, k, v, None, 0.5)


def _apart(b: Builder, q: Value, k: Value, v: Value) -> Value:
    whole = _whole(b, q, k, v).op
    assert isinstance(whole, Op)
    return decompose(whole, b)[0]


@pytest.mark.parametrize(
    ("dtype", "width", "value_width"),
    [
        pytest.param(F32, 9, 8, id="wide queries"),
        pytest.param(BF16, 8, 9, id="wide values"),
        pytest.param(F32, 0, 8, id="no elements"),
        pytest.param(F16, N, 8, id="a width that a call tells"),
        pytest.param(F64, 4, 4, id="a type without kernels"),
    ],
)
def test_what_has_no_kernel_is_taken_apart(dtype: DType, width: Dim, value_width: Dim) -> None:
    pair = Pair(_heads(dtype, width, value_width), _whole, _apart, rounds=True)
    check_pair(decompose_attention_but(WIDEST, FLOATS), pair)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("width", [1, 8])
def test_what_has_a_kernel_stays(dtype: DType, width: int) -> None:
    check_pair(decompose_attention_but(WIDEST, FLOATS), Pair(_heads(dtype, width, width), _whole))


def test_a_target_may_have_kernels_for_all_types() -> None:
    check_pair(decompose_attention_but(WIDEST), Pair(_heads(F64, 8, 8), _whole))
