"""If, Loop and Scan, nested, with values of the graphs outside of them."""

import numpy as np
from onnx import ValueInfoProto, helper

from tests.differential.kinds import type_proto
from tests.whole_programs.forms import (
    bounded,
    cast,
    decision,
    flat,
    inside_of,
    length_of,
    number,
    part,
    reduced,
    short,
    squeeze,
    unsqueeze,
)
from tests.whole_programs.scope import Drawn, Piece, Scope


def parameter(scope: Scope, kind: str, rank: int, shape: list[int | str] | None = None) -> tuple[Drawn, ValueInfoProto]:
    """A parameter of a nested graph, declared or not, as value and as declaration."""
    value = scope.add(scope.fresh(), kind, rank)
    if shape is None:
        return value, scope.declared(value)
    return value, helper.make_value_info(value.name, type_proto(value.kind, shape))


def branch(scope: Scope) -> None:
    """One of two graphs: of the same type, and of whatever sizes these come to."""
    condition = decision(scope)
    kinds = [(scope.choose(["float", "int64"]), scope.choose([0, 1, 1, 2])) for _ in range(scope.integer(1, 2))]
    graphs = []
    for _ in range(2):
        inner = scope.nested()
        inner.fill()
        graphs.append(inner.graph((), [inner.pick((kind,), (rank,)) for kind, rank in kinds]))
    names = scope.several("If", len(kinds), condition, then_branch=graphs[0], else_branch=graphs[1])
    for name, (kind, rank) in zip(names, kinds, strict=True):
        scope.add(name, kind, rank)


def branch_of_ranks(scope: Scope) -> None:
    """Branches of different ranks, flattened behind."""
    kind = scope.choose(["float", "int64"])
    graphs = []
    for rank in (scope.integer(0, 2), scope.integer(1, 2)):
        inner = scope.nested()
        inner.fill(1)
        value = inner.pick((kind,), (rank,))
        graph = inner.graph((), [value])
        graph.output[0].type.tensor_type.ClearField("shape")
        graphs.append(graph)
    chosen = scope.node("If", decision(scope), then_branch=graphs[0], else_branch=graphs[1])
    scope.add(flat(scope, chosen), kind, 1)


def trips(scope: Scope) -> str:
    """A count of rounds, i64[]: a constant, or from a size."""
    if scope.flag(0.4):
        return scope.constant(scope.choose([0, 1, 2, 3, 4]))
    length = squeeze(scope, length_of(scope, scope.pick(ranks=(1, 2))), [0])
    three = scope.constant(4)
    return scope.node("Sub", length, scope.node("Mul", scope.node("Div", length, three), three))


def loop(scope: Scope) -> None:
    """Carried values that keep, change or grow their sizes, an end that data decides, and stacked results."""
    inner = scope.nested()
    index, index_info = parameter(inner, "int64", 0, [])
    go_on, go_on_info = parameter(inner, "bool", 0, [])
    # Before opset 11 a loop carries something.
    initial = [scope.pick(ranks=(0, 1, 1, 2)) for _ in range(scope.integer(int(scope.opset < 11), 3))]
    carried, infos = [], [index_info, go_on_info]
    for value in initial:
        inside = inner.add(inner.fresh(), value.kind, value.rank)
        carried.append(inside)
        infos.append(helper.make_value_info(inside.name, type_proto(inside.kind)))
    inner.fill()
    after = [next_state(inner, value, index) for value in carried]
    stacked = [row(inner, index) for _ in range(scope.integer(0 if carried else 1, 2))]
    has_condition = scope.opset < 11 or scope.flag(0.7)
    # Without a condition the standard ignores what the body says of it, which ONNX Runtime does not.
    end = next_condition(inner, index, go_on) if has_condition else inner.constant(np.array(True))
    condition = Drawn(end, "tensor(bool)", 0)
    body = inner.graph(infos, [condition, *after, *stacked])
    body.output[0].type.CopyFrom(type_proto("tensor(bool)", []))
    for output in body.output[1 : 1 + len(after)]:
        output.type.tensor_type.ClearField("shape")
    # What a loop without a round stacks has the sizes that ONNX Runtime is told, and 0 for others.
    for output, value in zip(body.output[1 + len(after) :], stacked, strict=True):
        output.type.CopyFrom(type_proto(value.kind, [PAIR] * value.rank))
    count = trips(scope)
    first = scope.constant(np.array(scope.flag(0.9))) if has_condition else ""
    names = scope.several("Loop", len(after) + len(stacked), count, first, *initial, body=body)
    for ordinal, (name, value) in enumerate(zip(names, [*after, *stacked], strict=True)):
        scope.like(name, value, rank=value.rank + (ordinal >= len(after)))


def next_state(inner: Scope, value: Drawn, index: Drawn) -> Drawn:
    """What a round makes of a carried value."""
    kind = inside_of(value.kind)
    if value.rank == 1 and inner.flag(0.3):
        new = unsqueeze(inner, cast(inner, index, kind), [0])
        return inner.like(short(inner, inner.node("Concat", value, new, axis=0), 17), value)
    if value.rank == 1 and inner.flag(0.2):
        return inner.like(part(inner, value, 1, 2**31 - 1), value)
    if value.rank == 1 and inner.flag(0.3):
        other = inner.pick((kind,))
        return inner.like(short(inner, other, 17), other)
    if value.rank == 2 and inner.flag(0.3):
        first = part(inner, value, 0, 1)
        return inner.like(part(inner, inner.node("Concat", value, first, axis=0), 0, 7), value)
    added = inner.node("Add", value, cast(inner, index, kind))
    return inner.like(bounded(inner, added, value.kind), value)


PAIR = 2
"""The elements of a stacked row that is no scalar."""


def row(inner: Scope, index: Drawn) -> Drawn:
    """A stacked result: of one shape in all rounds, a scalar or a pair."""
    kind = inner.choose(["float", "int64"])
    if inner.flag():
        return inner.pick((kind,), (0,))
    x = inner.pick((kind,))
    total = unsqueeze(inner, reduced(inner, "ReduceSum", x), [0])
    pair = inner.node("Concat", total, unsqueeze(inner, cast(inner, index, kind), [0]), axis=0)
    return inner.like(pair, x, rank=1)


def next_condition(inner: Scope, index: Drawn, go_on: Drawn) -> str:
    match inner.integer(0, 3):
        case 0:
            return inner.node("Less", cast(inner, index, "float"), inner.floats(inner.integer(0, 2)))
        case 1:
            return decision(inner)
        case 2:
            return inner.constant(np.array(True))
    return inner.node("Identity", go_on)


def scan(scope: Scope) -> None:
    """Several states and rows, either way; a state keeps its shape."""
    kind = scope.choose(["float", "int64"])
    # One row more, for ONNX Runtime does not scan none.
    some = scope.pick((kind,), (2,))
    total = reduced(scope, "ReduceSum", some, [0], keepdims=True)
    rows = [scope.like(bounded(scope, scope.node("Concat", some, total, axis=0), kind), some)]
    if scope.flag(0.4):
        rows.append(scope.like(bounded(scope, scope.node("Mul", rows[0], number(scope, 2, kind)), kind), some))
    vector = reduced(scope, "ReduceSum", rows[0], [0])
    states = [Drawn(vector, f"tensor({kind})", 1), scope.pick((kind,), (0,))][: scope.integer(1, 2)]
    inner = scope.nested()
    inside = [parameter(inner, kind, value.rank, None) for value in states]
    given = [parameter(inner, kind, 1) for _ in rows]
    inner.fill(1)
    summed = inner.node("Add", inside[0][0], given[0][0])
    after = [inner.like(bounded(inner, summed, kind), inside[0][0])]
    if len(states) == 2:
        total = inner.node("Add", inside[1][0], reduced(inner, "ReduceSum", given[-1][0]))
        after.append(inner.like(bounded(inner, total, kind), inside[1][0]))
    outputs = [inner.pick((kind,), (0,)), inner.like(inner.node("Sub", given[0][0], after[0]), given[0][0])]
    outputs = outputs[: scope.integer(1, 2)]
    body = inner.graph([info for _, info in (*inside, *given)], [*after, *outputs])
    for output, value in zip(body.output, [*after, *outputs], strict=True):
        # ONNX Runtime wants to know the ranks of what a Scan stacks.
        output.type.CopyFrom(type_proto(value.kind, [None] * value.rank))
    attributes: dict[str, object] = {"num_scan_inputs": len(rows)}
    if scope.flag(0.4):
        attributes["scan_input_directions"] = [scope.integer(0, 1)] * len(rows)
    if scope.flag(0.4):
        attributes["scan_output_directions"] = [scope.integer(0, 1) for _ in outputs]
    if scope.flag(0.3) and scope.opset >= 11 and len(outputs) == 2:
        attributes["scan_output_axes"] = [0, scope.choose([1, -1])]
    names = scope.several("Scan", len(after) + len(outputs), *states, *rows, body=body, **attributes)
    for name, value in zip(names, after, strict=False):
        scope.like(name, value)
    for name, value in zip(names[len(after) :], outputs, strict=True):
        scope.like(name, value, rank=value.rank + 1)


PIECES = (
    *[Piece("branch", branch, is_nested=True)] * 4,
    *[Piece("branch_of_ranks", branch_of_ranks, is_nested=True)] * 2,
    *[Piece("loop", loop, 8, is_nested=True)] * 5,
    *[Piece("scan", scan, 9, is_nested=True)] * 3,
)
