"""Integers of few bits and small floats: quantised, moved, chosen by data, and widened."""

import numpy as np
from onnx import helper

from tests.differential.kinds import ELEMENTS, type_proto
from tests.whole_programs.forms import bounded, cast, decision, part, unsqueeze
from tests.whole_programs.pieces.control import parameter, trips
from tests.whole_programs.scope import Drawn, Piece, Scope


def narrow_kind(scope: Scope) -> str:
    kinds = ["float8e4m3fn", "float8e5m2", "float16"]
    if scope.opset >= 21:
        kinds += ["int4", "uint4"]
    if scope.opset >= 23:
        kinds += ["float4e2m1"]
    if scope.opset >= 25:
        kinds += ["int2", "uint2"]
    return scope.choose(kinds)


def narrowed(scope: Scope) -> tuple[Drawn, str]:
    """A vector of a narrow type, of values that all of them hold."""
    kind = narrow_kind(scope)
    x = scope.pick(("float",))
    low, high = (-2, 1) if kind == "int2" else (0, 3) if kind.startswith("u") else (-2, 2)
    inside = scope.node("Clip", x, scope.floats(low), scope.floats(high))
    return Drawn(cast(scope, scope.node("Floor", inside), kind), f"tensor({kind})", 1), kind


def through(scope: Scope) -> None:
    """Cast down, moved, and cast up."""
    x, _ = narrowed(scope)
    made = unsqueeze(scope, x, [scope.integer(0, 1)])
    if scope.flag():
        made = scope.node("Transpose", made)
    made = scope.node("Reshape", made, scope.constant([-1]))
    scope.add(cast(scope, made, "float"), "float", 1)


def quantized(scope: Scope) -> None:
    """By a scale of a half, in 8 or 4 bits, and back."""
    x = scope.pick(("float",), (1, 2))
    kinds = ["int8", "uint8", *(["int4", "uint4"] if scope.opset >= 21 else [])]
    zero = np.array(1, np.int8)
    operands = [scope.floats(0.5), cast(scope, scope.constant(zero), scope.choose(kinds))]
    codes = scope.node("QuantizeLinear", x, *operands)
    scope.like(bounded(scope, scope.node("DequantizeLinear", codes, *operands), x.kind), x)


def chosen(scope: Scope) -> None:
    """A branch, and a loop, over a narrow type."""
    x, kind = narrowed(scope)
    graphs = []
    for ordinal in range(2):
        inner = scope.nested()
        value = inner.node("Identity", x)
        if ordinal:
            shorter = part(inner, cast(inner, x, "float"), 1, 2**31 - 1)
            value = cast(inner, shorter, kind)
        graphs.append(inner.graph((), [Drawn(value, x.kind, 1)]))
    made = scope.node("If", decision(scope), then_branch=graphs[0], else_branch=graphs[1])
    inner = scope.nested()
    _, index_info = parameter(inner, "int64", 0, [])
    go_on, go_on_info = parameter(inner, "bool", 0, [])
    taken = inner.fresh()
    info = helper.make_value_info(taken, type_proto(x.kind))
    wide = [cast(inner, name, "float") for name in (taken, x)]
    joined = part(inner, inner.node("Concat", *wide, axis=0), 0, 9)
    longer = Drawn(cast(inner, joined, kind), x.kind, 1)
    condition = Drawn(inner.node("Identity", go_on), "tensor(bool)", 0)
    body = inner.graph([index_info, go_on_info, info], [condition, longer])
    made = scope.node("Loop", trips(scope), scope.constant(np.array(True)), made, body=body)
    scope.add(cast(scope, made, "float"), "float", 1)


PIECES = (
    Piece("through", through, 19),
    Piece("quantized", quantized, 13),
    Piece("narrow_branch", chosen, 19, is_nested=True),
)
assert set(ELEMENTS) >= {"float4e2m1", "int2"}
