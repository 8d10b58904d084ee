"""Elementwise pieces, reductions and movements."""

import numpy as np

from tests.differential.kinds import DTYPES
from tests.whole_programs.forms import (
    bounded,
    cast,
    flat,
    inside_of,
    number,
    part,
    positive,
    reduced,
    short,
    squeeze,
    unsqueeze,
)
from tests.whole_programs.scope import Piece, Scope


def unary(scope: Scope) -> None:
    x = scope.pick(ranks=(0, 1, 2))
    operators = ["Neg", "Abs", "Identity"]
    if scope.opset >= 9 or inside_of(x.kind) == "float":
        operators += ["Sign"] if scope.opset >= 9 else ["Relu", "Floor"]
    scope.like(scope.node(scope.choose(operators), x), x)


def with_constant(scope: Scope) -> None:
    x = scope.pick(ranks=(0, 1, 2))
    operands = [x.name, number(scope, scope.integer(-3, 4), x)]
    if scope.flag():
        operands.reverse()
    made = scope.node(scope.choose(["Add", "Sub", "Mul"]), *operands)
    scope.like(bounded(scope, made, x.kind), x)


def with_total(scope: Scope) -> None:
    """A tensor and what is reduced of another one, which broadcasts."""
    x = scope.pick(ranks=(1, 2))
    y = scope.pick((inside_of(x.kind),), (1, 2))
    total = reduced(scope, "ReduceSum", y, keepdims=False)
    scope.like(bounded(scope, scope.node(scope.choose(["Add", "Mul", "Sub"]), x, total), x.kind), x, y)


def where(scope: Scope) -> None:
    x = scope.pick(ranks=(1, 2))
    other = scope.node("Neg", x) if scope.flag() else number(scope, 7, x)
    scope.like(scope.node("Where", positive(scope, x, scope.integer(-1, 2)), x, other), x)


def outer_product(scope: Scope) -> None:
    kind = scope.choose(["float", "int64"])
    x, y = (scope.pick((kind,)) for _ in range(2))
    rows, columns = unsqueeze(scope, short(scope, x, 5), [1]), unsqueeze(scope, short(scope, y, 5), [0])
    scope.like(bounded(scope, scope.node(scope.choose(["Mul", "Add"]), rows, columns), kind), x, y, rank=2)


def matrix_reduction(scope: Scope) -> None:
    x = scope.pick(ranks=(2,))
    axis = scope.choose([0, 1, -1]) if scope.opset >= 11 else scope.integer(0, 1)
    operators = ["ReduceSum", "ReduceSum", "ReduceL1"]
    scope.like(bounded(scope, reduced(scope, scope.choose(operators), x, [axis]), x.kind), x, rank=1)


def extreme(scope: Scope) -> None:
    """The largest element, of something that is never empty."""
    x = scope.pick(ranks=(1,))
    joined = scope.node("Concat", x, scope.constant(np.ones(1, DTYPES[inside_of(x.kind)])), axis=0)
    kind = inside_of(x.kind)
    source = joined if kind == "float" or scope.opset >= 12 else cast(scope, joined, "float")
    made = reduced(scope, scope.choose(["ReduceMax", "ReduceMin"]), source)
    scope.add(made, "float" if source != joined else kind, 0)


def join(scope: Scope) -> None:
    x = scope.pick(ranks=(1,))
    y = scope.pick((inside_of(x.kind),))
    scope.like(short(scope, scope.node("Concat", x, y, axis=0), 17), x, y)


def slice_of(scope: Scope) -> None:
    x = scope.pick(ranks=(1, 2))
    start, end = scope.choose([(0, 3), (1, 2**31 - 1), (-2, 2**31 - 1), (1, -1), (0, -2)])
    axis = scope.integer(0, x.rank - 1)
    scope.like(part(scope, x, start, end, axis, scope.choose([1, 1, 2])), x)


def backwards(scope: Scope) -> None:
    x = scope.pick()
    scope.like(part(scope, x, -1, -(2**31), 0, -1), x)


def reshaped(scope: Scope) -> None:
    match scope.integer(0, 3):
        case 0:
            x = scope.pick(ranks=(2,))
            scope.like(flat(scope, x), x, rank=1)
        case 1:
            x = scope.pick(ranks=(2,))
            scope.like(scope.node("Transpose", x), x)
        case 2:
            x = scope.pick(ranks=(1,))
            scope.like(unsqueeze(scope, x, [scope.integer(0, 1)]), x, rank=2)
        case _:
            x = scope.pick(ranks=(1,))
            row = unsqueeze(scope, x, [0])
            scope.like(squeeze(scope, scope.node("Concat", row, axis=1), [0]), x)


def scalar_vector(scope: Scope) -> None:
    x = scope.pick(ranks=(0,))
    scope.like(unsqueeze(scope, x, [0]), x, rank=1)


def cast_through(scope: Scope) -> None:
    """To another type and on as floats or integers."""
    x = scope.pick(ranks=(1, 2))
    middle = scope.choose(["int32", "double", "float16", "int8"])
    kind = scope.choose(["float", "int64"])
    scope.add(cast(scope, cast(scope, x, middle), kind), kind, x.rank)


def cumulative(scope: Scope) -> None:
    x = scope.pick(ranks=(1, 2))
    axis = scope.constant(scope.integer(-x.rank, x.rank - 1))
    flags = {name: 1 for name in ("exclusive", "reverse") if scope.flag(0.3)}
    scope.like(bounded(scope, scope.node("CumSum", x, axis, **flags), x.kind), x)


def product(scope: Scope) -> None:
    x = scope.pick(("float",), (2,))
    made = scope.node("MatMul", x, scope.node("Transpose", x))
    scope.like(bounded(scope, made, x.kind), x)


def smooth(scope: Scope) -> None:
    """Floats that engines round differently: they decide nothing behind here."""
    x = scope.pick(("float",), (1, 2), exact=False)
    operator = scope.choose(["Sigmoid", "Tanh", "Softmax", "Exp"])
    attributes = {"axis": x.rank - 1} if operator == "Softmax" else {}
    name = scope.node(operator, bounded(scope, x, x.kind), **attributes)
    scope.add(name, "float", x.rank, exact=False)


PIECES = (
    Piece("unary", unary),
    Piece("with_constant", with_constant),
    Piece("with_total", with_total),
    Piece("where", where, 9),
    Piece("outer_product", outer_product),
    Piece("matrix_reduction", matrix_reduction),
    Piece("extreme", extreme),
    Piece("join", join),
    Piece("slice_of", slice_of),
    Piece("backwards", backwards, 10),
    Piece("reshaped", reshaped),
    Piece("scalar_vector", scalar_vector),
    Piece("cast_through", cast_through),
    Piece("cumulative", cumulative, 11),
    Piece("product", product),
    Piece("smooth", smooth),
)
