"""What movements and gathers do to an index, with positions that are numbers and elements read from arrays."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.block_evaluator import BlockEvaluator
from tests.planning.plans import make

N = Size.symbol("N")
SIZES = {"N": 3}


class Numbers(BlockEvaluator[int, int, float]):
    """Elements of f32 arrays, one after another; `add` is the pointwise op that there is."""

    def __init__(self, arrays: Mapping[Value, np.ndarray]) -> None:
        self.arrays, self.pointers = arrays, dict.fromkeys(arrays, 0.0)
        self.bound, self.memo = {}, {}

    def size(self, dim: Dim) -> int:
        return evaluate(dim, SIZES)

    def fixed(self, position: int) -> int:
        return position

    def linear(self, index: Sequence[int], strides: Sequence[int], offset: int) -> int:
        return offset + sum(position * stride for position, stride in zip(index, strides, strict=True))

    def unlinear(self, offset: int, shape: Sequence[Dim]) -> Sequence[int]:
        return [int(part) for part in np.unravel_index(offset, [self.size(size) for size in shape])]

    def repeated(self, position: int, size: Dim, result: Dim) -> int:
        return position if self.size(size) == self.size(result) else 0

    def read(self, value: Value, offset: int) -> float:
        return float(self.arrays[value].reshape(-1)[offset])

    def literal(self, number: float, dtype: DType) -> float:
        return number

    def pointwise(self, op: Op, operands: Sequence[float]) -> float:
        assert op.name == "add", op
        return operands[0] + operands[1]

    def position(self, indices: Value, index: Sequence[int], size: Dim) -> int:
        return int(self.value(indices, index))

    def picked(self, data: Value, index: Sequence[int], sizes: Sequence[Dim]) -> float:
        return self.value(data, index)


CASES: Mapping[str, Callable[[Builder, Value, Value], Value]] = {
    "transpose": lambda ir, x, i: ir.transpose(x, (2, 0, 1)),
    "slice": lambda ir, x, i: ir.slice(x, (2, 0, 3), (3, 2, 2), (-1, 1, -2)),
    "broadcast": lambda ir, x, i: ir.broadcast(x, (1, 2, 4), (2, N, 2, 5, 4)),
    "reshape": lambda ir, x, i: ir.reshape(x, (4, 2 * N)),
    "reshape of computed": lambda ir, x, i: ir.reshape(ir.add(x, 1.0), (4, 2 * N)),
    "reshape of moved": lambda ir, x, i: ir.reshape(ir.transpose(ir.add(x, x), (1, 0, 2)), (2, N, 2, 2)),
    "unsqueeze": lambda ir, x, i: ir.reshape(ir.add(x, x), (N, 1, 2, 4, 1)),
    "gather": lambda ir, x, i: ir.gather(x, i, 2),
    "gather_along": lambda ir, x, i: ir.gather_along(x, ir.broadcast(i, (1, 2), (N, 2, 2)), 2),
    "gather_nd": lambda ir, x, i: ir.gather_nd(ir.transpose(x, (2, 1, 0)), i, 0),
    "number": lambda ir, x, i: ir.broadcast(ir.scalar(2.5, x.dtype), (), (2, N)),
}


@pytest.mark.parametrize("name", CASES)
def test_an_element_is_that_of_the_whole(name: str) -> None:
    module = make(["f32[N, 2, 4]", "i64[2, 2]"], CASES[name])
    arrays = np.arange(24, dtype=np.float32).reshape(3, 2, 4), np.array([[1, 0], [3, 1]])
    (whole,) = interpret(module, {"x0": arrays[0], "x1": arrays[1]})
    assert isinstance(whole, np.ndarray)
    body = module.main.body
    found = np.empty_like(whole)
    for index in np.ndindex(*whole.shape):
        found[index] = Numbers(dict(zip(body.parameters, arrays, strict=True))).value(body.results[0], index)
    np.testing.assert_array_equal(found, whole)


def test_an_element_is_computed_once_at_an_index() -> None:
    module = make(["f32[2]"], lambda ir, x: ir.add(x, x))
    (x,), (y,) = module.main.body.parameters, module.main.body.results
    numbers = Numbers({x: np.array([3.0, 4.0], np.float32)})
    assert numbers.value(y, (1,)) == 8.0
    numbers.arrays = {}
    assert numbers.value(y, (1,)) == 8.0
    numbers.bound[y] = 5.0
    assert numbers.value(y, (0,)) == 5.0
