"""Texts: chosen, joined, split, matched and made numbers of, in branches too."""

import numpy as np

from tests.whole_programs.forms import cast, decision, part
from tests.whole_programs.scope import Drawn, Piece, Scope

ML = "ai.onnx.ml"


def text(scope: Scope) -> Drawn:
    return scope.pick(("string",))


def concatenated(scope: Scope) -> None:
    x = text(scope)
    other = scope.constant(np.array(["-"], object))
    operands = [x.name, other] if scope.flag() else [other, x.name]
    scope.like(scope.node("StringConcat", *operands), x)


def equal(scope: Scope) -> None:
    x = text(scope)
    mask = scope.node("Equal", x, scope.constant(np.array("b", object)))
    scope.add(cast(scope, mask, "int64"), "int64", 1)
    scope.like(scope.node("Compress", x, mask), x)


def matched(scope: Scope) -> None:
    mask = scope.node("RegexFullMatch", text(scope), pattern="[ab]+")
    scope.add(cast(scope, mask, "float"), "float", 1)


def parts_of(scope: Scope) -> None:
    """By white space: of an empty text ONNX Runtime makes no part where another delimiter makes one."""
    _, counts = scope.several("StringSplit", 2, text(scope))
    scope.add(counts, "int64", 1)


def labelled(scope: Scope) -> None:
    x = text(scope)
    name = scope.node("LabelEncoder", x, domain=ML, keys_strings=["a", "b"], values_int64s=[1, 5], default_int64=-1)
    scope.add(name, "int64", 1)


def unlabelled(scope: Scope) -> None:
    x = scope.pick(("int64",))
    name = scope.node(
        "LabelEncoder", x, domain=ML, keys_int64s=[0, 1, 5], values_strings=["zero", "a", "b"], default_string="?"
    )
    scope.add(name, "string", 1)


def chosen(scope: Scope) -> None:
    graphs = []
    for _ in range(2):
        inner = scope.nested()
        inner.fill(1)
        graphs.append(inner.graph((), [text(inner)]))
    scope.add(scope.node("If", decision(scope), then_branch=graphs[0], else_branch=graphs[1]), "string", 1)


def moved(scope: Scope) -> None:
    x = text(scope)
    if scope.flag():
        scope.like(part(scope, x, 1, 2**31 - 1), x)
    else:
        scope.like(part(scope, scope.node("Concat", x, text(scope), axis=0), 0, 9), x)


def repeated_words(scope: Scope) -> None:
    x = text(scope)
    values, _, inverse, _ = scope.several("Unique", 4, x, sorted=1)
    scope.like(values, x)
    scope.add(inverse, "int64", 1)


PIECES = (
    Piece("concatenated", concatenated, 20),
    Piece("equal", equal, 19),
    Piece("matched", matched, 20),
    Piece("parts_of", parts_of, 20),
    Piece("labelled", labelled, 15),
    Piece("unlabelled", unlabelled, 15),
    Piece("chosen", chosen, 11, is_nested=True),
    Piece("moved", moved, 11),
    Piece("repeated_words", repeated_words, 11),
)
