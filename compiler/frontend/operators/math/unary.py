"""Operators of one tensor that are one primitive, and their near kin: a table of rows.

X: T[...]  ->  Y: T[...]

Source: https://onnx.ai/onnx/operators/
"""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import ElementLowering, at_common_rank
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, F64
from onnxc.compiler.ir.module import Value

# operator: primitive, versions
ROWS: dict[str, tuple[str, Sequence[int]]] = {
    "Abs": ("abs", (1, 6, 13)),
    "Acos": ("acos", (7, 22)),
    "Acosh": ("acosh", (9, 22)),
    "Asin": ("asin", (7, 22)),
    "Asinh": ("asinh", (9, 22)),
    "Atan": ("atan", (7, 22)),
    "Atanh": ("atanh", (9, 22)),
    "BitwiseNot": ("not", (18,)),
    "Ceil": ("ceil", (1, 6, 13)),
    "Cos": ("cos", (7, 22)),
    "Cosh": ("cosh", (9, 22)),
    "Exp": ("exp", (1, 6, 13)),
    "Floor": ("floor", (1, 6, 13)),
    "Log": ("log", (1, 6, 13)),
    "Neg": ("neg", (1, 6, 13)),
    "Not": ("not", (1,)),
    "Round": ("round", (11, 22)),
    "Sign": ("sign", (9, 13)),
    "Sin": ("sin", (7, 22)),
    "Sinh": ("sinh", (9, 22)),
    "Sqrt": ("sqrt", (1, 6, 13)),
    "Tan": ("tan", (7, 22)),
    "Tanh": ("tanh", (1, 6, 13)),
}


def _lowering(primitive: str) -> ElementLowering:
    def lower(node: Node, ir: Builder) -> Value:
        (x,) = node.variadic()
        return ir.unary(primitive, x)

    return lower


for _name, (_primitive, _since) in ROWS.items():
    operator(_name, since=_since)(at_common_rank(_lowering(_primitive)))


@operator("Erf", since=(9, 13))
@at_common_rank
def erf(node: Node, ir: Builder) -> Value:
    """input: T[...]  ->  T[...]; of integers in f64, cut off.

    Source: https://onnx.ai/onnx/operators/onnx__Erf.html
    """
    x = node.input("input")
    return ir.unary("erf", x) if x.dtype.is_float else ir.cast(ir.unary("erf", ir.cast(x, F64)), x.dtype)


@operator("Reciprocal", since=(1, 6, 13))
@at_common_rank
def reciprocal(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  1 / X: T[...]"""
    return ir.reciprocal(node.input("X"))


@operator("IsNaN", since=(9, 13, 20))
@at_common_rank
def is_nan(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  bool[...]"""
    return ir.is_nan(node.input("X"))


@operator("IsInf", since=(10, 20))
@at_common_rank
def is_inf(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  bool[...]; a type without infinities has none.

    Source: https://onnx.ai/onnx/operators/onnx__IsInf.html
    """
    x = node.input("X")
    # The value that stands for infinity is NaN in a type without one, and NaN equals nothing.
    signs = [sign for name, sign in (("detect_positive", 1), ("detect_negative", -1)) if node.flag(name)]
    if not signs:
        return ir.full(x.shape, False, BOOL)
    if len(signs) == 2:
        return ir.equal(ir.abs(x), float("inf"))
    return ir.equal(x, signs[0] * float("inf"))
