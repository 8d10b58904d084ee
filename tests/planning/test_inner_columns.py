"""Which columns of a kernel lie between the paddings along its rows."""

from collections.abc import Callable

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.loops.inner_columns import inner_columns

N = Size.symbol("N")


def columns(build: Callable[[Builder, Value], Value]) -> tuple[tuple[Dim, ...], tuple[Dim, ...]] | None:
    """The starts and stops of what is built from x: f32[4, N]."""
    ir = Builder()
    inner = inner_columns(build(ir, ir.parameter("x", TensorType(F32, (4, N)))))
    return None if inner is None else (inner.starts, inner.stops)


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda ir, x: ir.pad(x, (1, 2), (0, 3), 0.0), ((2,), (N + 2,))),
        (lambda ir, x: ir.pad(ir.pad(x, (0, 1), (0, 1), 0.0), (0, 2), (0, 0), 0.0), ((2, 3), (N + 4, N + 3))),
        (lambda ir, x: ir.slice(ir.pad(x, (0, 4), (0, 4), 0.0), (0, 3), (4, 5), (1, 1)), ((1,), (N + 1,))),
        (lambda ir, x: ir.reshape(ir.pad(x, (0, 1), (0, 0), 0.0), (4, 1, N + 1)), ((1,), (N + 1,))),
        (lambda ir, x: ir.transpose(ir.pad(x, (1, 0), (2, 0), 0.0), (1, 0)), ((1,), (5,))),
    ],
)
def test_inner_columns(
    build: Callable[[Builder, Value], Value], wanted: tuple[tuple[Dim, ...], tuple[Dim, ...]]
) -> None:
    assert columns(build) == wanted


@pytest.mark.parametrize(
    "build",
    [
        lambda ir, x: ir.neg(x),
        lambda ir, x: ir.pad(x, (1, 0), (2, 0), 0.0),
        lambda ir, x: ir.reverse(ir.pad(x, (0, 1), (0, 2), 0.0), 1),
        lambda ir, x: ir.reshape(ir.pad(x, (0, 1), (0, 0), 0.0), (2, 2 * (N + 1))),
    ],
)
def test_nothing_is_said_of_paddings_that_the_columns_do_not_follow(build: Callable[[Builder, Value], Value]) -> None:
    assert columns(build) is None


def test_a_padding_that_is_also_read_in_another_order_is_none_of_the_inner_ones() -> None:
    def build(ir: Builder, x: Value) -> Value:
        padded = ir.pad(x, (0, 1), (0, 2), 0.0)
        return ir.add(padded, ir.reverse(padded, 1))

    assert columns(build) is None
