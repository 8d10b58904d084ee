"""Which convolutions are computed by columns: transposed ones to few filters."""

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.layout.spread_columns import adds_columns

H = Size.symbol("H")


def _op(x: tuple[Dim, ...], w: tuple[Dim, ...], spread: int, groups: int = 1, step: int = 1) -> Op:
    ir, ones = Builder(), (1,) * (len(x) - 2)
    image, filters = ir.parameter("x", TensorType(F32, x)), ir.parameter("w", TensorType(F32, w))
    dimensions = channels_innermost(len(x) - 2)
    steps, spreads = (step,) * len(ones), (spread,) * len(ones)
    result = ir.convolution(image, filters, steps, ones, ones, ones, groups, spreads, dimensions=dimensions)
    assert result.op is not None
    return result.op


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (_op((1, 20, 20, 16), (1, 16, 3, 3), 2), True),
        (_op((1, 8, 8, 8, 32), (2, 16, 5, 3, 4), 2, 2), True),
        (_op((1, 50, 16), (4, 16, 4), 3), True),
        # Lanes are full of filters, or there is a kernel whose lanes are channels.
        (_op((1, 20, 20, 16), (64, 16, 3, 3), 2), False),
        (_op((1, 20, 20, 16), (16, 1, 3, 3), 2, 16), False),
        (_op((1, 20, 20, 16), (16, 2, 3, 3), 2, 8), False),
        (_op((2, 14, 40, 2), (6, 1, 1, 7), 4, 2), True),
        # There is no kernel, or one of windows.
        (_op((1, 20, 20, 16), (1, 16, 3, 3), 1), False),
        (_op((1, 20, 20, 16), (1, 16, 3, 3), 1, 1, 2), False),
        (_op((1, 20, 20, 16), (1, 16, 3, 3), 9), False),
        (_op((1, H, 20, 16), (1, 16, 3, 3), 2), False),
        (_op((1, 0, 20, 16), (1, 16, 1, 3), 2), False),
        (_op((1, 400, 400, 16), (1, 16, 3, 3), 2), False),
    ],
)
def test_columns_where_they_take_less(op: Op, expected: bool) -> None:
    assert adds_columns(op) == expected
