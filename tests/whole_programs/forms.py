"""Operators whose form changed: the one of the opset at hand."""

from collections.abc import Sequence

import numpy as np

from tests.differential.kinds import DTYPES, ELEMENTS, inside
from tests.whole_programs.scope import Drawn, Scope

Named = str | Drawn


def cast(scope: Scope, x: Named, kind: str) -> str:
    return scope.node("Cast", x, to=ELEMENTS[kind])


def squeeze(scope: Scope, x: Named, axes: Sequence[int]) -> str:
    if scope.opset >= 13:
        return scope.node("Squeeze", x, scope.constant(axes))
    return scope.node("Squeeze", x, axes=list(axes))


def unsqueeze(scope: Scope, x: Named, axes: Sequence[int]) -> str:
    if scope.opset >= 13:
        return scope.node("Unsqueeze", x, scope.constant(axes))
    return scope.node("Unsqueeze", x, axes=list(axes))


def reduced(scope: Scope, operator: str, x: Named, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> str:
    """The reduction over `axes`, or all."""
    as_input = scope.opset >= (13 if operator == "ReduceSum" else 18)
    if axes is None:
        return scope.node(operator, x, keepdims=int(keepdims))
    if as_input:
        return scope.node(operator, x, scope.constant(axes), keepdims=int(keepdims))
    return scope.node(operator, x, axes=list(axes), keepdims=int(keepdims))


def part(scope: Scope, x: Named, starts: int, ends: int, axis: int = 0, step: int = 1) -> str:
    """A slice by constants; the step counts from opset 10 on."""
    if scope.opset < 10:
        return scope.node("Slice", x, starts=[starts], ends=[ends], axes=[axis])
    return scope.node("Slice", x, *(scope.constant([value]) for value in (starts, ends, axis, step)))


def size_of(scope: Scope, x: Named) -> str:
    """How many elements, an i64 scalar."""
    return scope.node("Size", x)


def length_of(scope: Scope, x: Named, axis: int = 0) -> str:
    """A size, i64[1]."""
    return part(scope, scope.node("Shape", x), axis, axis + 1)


def flat(scope: Scope, x: Named) -> str:
    return scope.node("Reshape", x, scope.constant([-1]))


def short(scope: Scope, x: Named, most: int = 9) -> str:
    """A vector without what is behind its first elements, so that nothing grows without end."""
    return part(scope, x, 0, most)


def bounded(scope: Scope, x: Named, kind: str) -> str:
    """The elements kept small: floats stay exact."""
    if "float" in kind:
        if scope.opset >= 11:
            return scope.node("Clip", x, scope.floats(-40, inside_of(kind)), scope.floats(40, inside_of(kind)))
        return scope.node("Clip", x, min=-40.0, max=40.0)
    divisor = scope.constant(np.array(37, DTYPES[inside_of(kind)]))
    return scope.node("Sub", x, scope.node("Mul", scope.node("Div", x, divisor), divisor))


def inside_of(kind: str) -> str:
    return inside(kind) if "(" in kind else kind


def number(scope: Scope, value: float, like: Drawn | str) -> str:
    """A scalar constant of the element type of a kind."""
    kind = inside_of(like.kind if isinstance(like, Drawn) else like)
    return scope.constant(np.array(value, DTYPES[kind]))


def positive(scope: Scope, x: Drawn, above: float = 0) -> str:
    """Which elements are above a number; opsets before 9 compare floats alone."""
    if scope.opset < 9 and inside_of(x.kind) != "float":
        return scope.node("Greater", cast(scope, x, "float"), scope.floats(above))
    return scope.node("Greater", x, number(scope, above, x))


def decision(scope: Scope) -> str:
    """A condition, bool[]: of data, of sizes, or a constant."""
    match scope.integer(0, 4):
        case 0:
            x = scope.pick(ranks=(1, 2))
            total = cast(scope, reduced(scope, "ReduceSum", x), "float")
            return scope.node("Greater", total, scope.floats(scope.integer(-3, 5)))
        case 1:
            x = scope.pick(ranks=(1, 2))
            return scope.node("Less", cast(scope, size_of(scope, x), "float"), scope.floats(scope.integer(1, 4)))
        case 2:
            x = scope.pick(ranks=(1, 2))
            length = squeeze(scope, length_of(scope, x), [0])
            return scope.node("Equal", length, scope.constant(scope.integer(0, 2)))
        case 3:
            flags = [value for value in scope.visible() if value.kind == "tensor(bool)" and value.rank == 0]
            if flags:
                return scope.choose(flags).name
            return scope.constant(np.array(scope.flag()))
    return scope.constant(np.array(scope.flag()))
