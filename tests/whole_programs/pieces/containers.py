"""Sequences and optionals: built in loops, split, joined, and absent."""

import numpy as np
from onnx import TensorProto, helper

from tests.differential.kinds import type_proto
from tests.whole_programs.forms import cast, decision, inside_of, short, unsqueeze
from tests.whole_programs.pieces.control import next_condition, parameter, trips
from tests.whole_programs.scope import Drawn, Piece, Scope


def sequence(scope: Scope, kind: str) -> Drawn:
    """A sequence of vectors, never empty, so that it can be joined."""
    some = [short(scope, scope.pick((kind,)), 4) for _ in range(scope.integer(1, 3))]
    return Drawn(scope.node("SequenceConstruct", *some), f"seq(tensor({kind}))", 1)


def joined(scope: Scope) -> None:
    kind = scope.choose(["float", "int64"])
    given = sequence(scope, kind)
    scope.add(short(scope, scope.node("ConcatFromSequence", given, axis=0), 17), kind, 1)
    scope.add(scope.node("SequenceLength", given), "int64", 0)


def element(scope: Scope) -> None:
    kind = scope.choose(["float", "int64"])
    given = sequence(scope, kind).name
    if scope.flag():
        given = scope.node("SequenceInsert", given, scope.pick((kind,)), *([scope.constant(0)] if scope.flag() else []))
    if scope.flag(0.3):
        given = scope.node("SequenceInsert", scope.node("SequenceErase", given), scope.pick((kind,)))
    scope.add(scope.node("SequenceAt", given, scope.constant(scope.choose([0, -1]))), kind, 1)


def built_in_loop(scope: Scope) -> None:
    """A sequence that a loop appends to, joined behind it."""
    kind = scope.choose(["float", "int64"])
    first = (
        scope.node("SequenceEmpty", dtype=TensorProto.FLOAT if kind == "float" else TensorProto.INT64)
        if scope.flag()
        else sequence(scope, kind).name
    )
    inner = scope.nested()
    index, index_info = parameter(inner, "int64", 0, [])
    go_on, go_on_info = parameter(inner, "bool", 0, [])
    taken = inner.fresh()
    inner.fill(1)
    value = short(inner, inner.pick((kind,)), 3)
    if inner.flag():
        value = inner.node("Concat", value, unsqueeze(inner, cast(inner, index, kind), [0]), axis=0)
    longer = Drawn(inner.node("SequenceInsert", taken, value), f"seq(tensor({kind}))", -1)
    condition = Drawn(next_condition(inner, index, go_on), "tensor(bool)", 0)
    info = helper.make_value_info(taken, type_proto(longer.kind))
    body = inner.graph([index_info, go_on_info, info], [condition, longer])
    made = scope.node("Loop", trips(scope), scope.constant(np.array(True)), first, body=body)
    # What is joined is never empty.
    more = scope.node("SequenceInsert", made, scope.pick((kind,)))
    scope.add(short(scope, scope.node("ConcatFromSequence", more, axis=0), 17), kind, 1)
    scope.add(scope.node("SequenceLength", made), "int64", 0)


def split(scope: Scope) -> None:
    x = scope.pick(ranks=(1,))
    kind = inside_of(x.kind)
    some = scope.node("Concat", x, scope.constant(np.ones(2, np.float32 if kind == "float" else np.int64)), axis=0)
    pieces = scope.node("SplitToSequence", some, scope.constant(2), axis=0)
    scope.add(scope.node("SequenceAt", pieces, scope.constant(scope.choose([0, -1]))), kind, 1)
    scope.add(scope.node("SequenceLength", pieces), "int64", 0)


def branch_of_sequences(scope: Scope) -> None:
    kind = scope.choose(["float", "int64"])
    graphs = []
    for _ in range(2):
        inner = scope.nested()
        inner.fill(1)
        graphs.append(inner.graph((), [sequence(inner, kind)]))
    made = scope.node("If", decision(scope), then_branch=graphs[0], else_branch=graphs[1])
    scope.add(scope.node("ConcatFromSequence", made, axis=0), kind, 1)


def mapped(scope: Scope) -> None:
    """SequenceMap over vectors, beside a value of outside."""
    kind = scope.choose(["float", "int64"])
    inner = scope.nested()
    x = inner.add(inner.fresh(), kind, 1)
    info = helper.make_value_info(x.name, type_proto(x.kind, [None]))
    inner.fill(1)
    body = inner.graph([info], [inner.pick((kind,))])
    made = scope.node("SequenceMap", sequence(scope, kind), body=body)
    scope.add(short(scope, scope.node("ConcatFromSequence", made, axis=0), 17), kind, 1)


def optional(scope: Scope) -> None:
    """An optional that is there, or not; its element where it is."""
    kind = scope.choose(["float", "int64"])
    x = scope.pick((kind,))
    is_there = scope.flag()
    box = scope.node("Optional", x) if is_there else scope.node("Optional", type=type_proto(x.kind))
    has = scope.node("OptionalHasElement", box)
    scope.add(has, "bool", 0)
    graphs = []
    for is_first in (True, False):
        inner = scope.nested()
        taken = inner.node("OptionalGetElement", box) if is_first else inner.pick((kind,)).name
        graphs.append(inner.graph((), [Drawn(taken, f"tensor({kind})", 1)]))
    scope.add(scope.node("If", has, then_branch=graphs[0], else_branch=graphs[1]), kind, 1)


PIECES = (
    Piece("joined", joined, 11),
    Piece("element", element, 11),
    *[Piece("built_in_loop", built_in_loop, 13, is_nested=True)] * 2,
    Piece("split", split, 11),
    Piece("branch_of_sequences", branch_of_sequences, 13, is_nested=True),
    Piece("mapped", mapped, 17, is_nested=True),
    Piece("optional", optional, 18, is_nested=True),
)
