"""A product of matrices that indices pick on both sides, from another axis and by other indices each."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Module, Value
from tests.codegen_cpu.support import make, sample

__all__ = ["arrays_of_two_picks", "product_of_two_picks"]


def product_of_two_picks() -> Module:
    """x: f32[6, 3, 20], y: f32[5, 20, 33], i: i64[6, 2], j: i64[4, 2]  ->  f32[4, 2, 5, 33], x[1:, i[2:]] by y[j]"""

    def build(ir: Builder, x: Value, y: Value, i: Value, j: Value) -> Value:
        picked = ir.gather(ir.slice(x, (1, 0, 0), (5, 3, 20)), i, 1)
        a = ir.transpose(ir.slice(picked, (0, 2, 0, 0), (5, 4, 2, 20)), (1, 2, 0, 3))
        return ir.dot(a, ir.gather(y, j, 0), "stmk,stkn->stmn")

    return make(["f32[6, 3, 20]", "f32[5, 20, 33]", "i64[6, 2]", "i64[4, 2]"], build)


def arrays_of_two_picks() -> tuple[np.ndarray, ...]:
    """Its inputs."""
    i, j = np.array([[0, 0], [1, 2], [0, 1], [2, 2], [1, 0], [0, 0]]), np.array([[4, 0], [1, 3], [2, 2], [0, 4]])
    return sample(F32, 6, 3, 20), sample(F32, 5, 20, 33, seed=1), i, j
