"""Rows of 16-bit floats that weights multiply, as rows of f32: each is widened once, where it is made.

Kernels of a CPU multiply f32, and widen what they read: weights once for many rows, but rows again for every panel of
columns. With an MLP of f16[197, 192] by f16[192, 768] and back that was a seventh of its time.
"""

from collections.abc import Collection

from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.makers import constant_of
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.pipeline import Pass

FEWEST_ROWS = 8
"""Beside fewer rows it is the weights that take the time, and a kernel of their own would not be worth it."""


def widen_products_but(multiplied: Collection[DType]) -> Pass:
    """The pass that widens rows of 16-bit floats, but those types that the target multiplies as they are."""
    narrow = {F16, BF16} - set(multiplied)

    @rule("dot")
    def widen(op: Op, build: Rewriter) -> Outcome:
        """dot(x, w) = dot(f32(x), w), for a constant w"""
        is_weight = [constant_of(operand) is not None for operand in op.operands]
        if is_weight.count(True) != 1 or not {operand.dtype for operand in op.operands} <= narrow:
            return None
        rows = _rows(op, is_weight.index(False))
        if isinstance(rows, int) and rows < FEWEST_ROWS:
            return None
        x, w = (x if known else build.cast(x, F32) for x, known in zip(op.operands, is_weight, strict=True))
        return build.op("dot", [x, w], op.attributes)[0]

    def widen_products(module: Module) -> Module:
        """Widens to f32 the rows of 16-bit floats that weights multiply."""
        return rewrite(module, [widen])

    return widen_products


def _rows(op: Op, ordinal: int) -> Dim:
    """How many rows an operand has for the other one."""
    letters = parse_equation(op.text("equation"))[:2]
    own, other = letters[ordinal], letters[1 - ordinal]
    return product(size for letter, size in zip(own, op.operands[ordinal].shape, strict=True) if letter not in other)
