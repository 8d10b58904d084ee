"""Sizes that only data decides: what is selected, sorted, repeated, filled, resized and scattered by data."""

import numpy as np

from tests.whole_programs.forms import (
    bounded,
    cast,
    flat,
    inside_of,
    length_of,
    number,
    part,
    positive,
    short,
    squeeze,
    unsqueeze,
)
from tests.whole_programs.scope import Drawn, Piece, Scope


def non_zero(scope: Scope) -> None:
    x = scope.pick(ranks=(1, 2))
    found = scope.node("NonZero", positive(scope, x, scope.integer(-1, 2)))
    match scope.integer(0, 2 if scope.opset >= 11 else 1):
        case 0:
            scope.add(flat(scope, found), "int64", 1)
        case 1:
            rows = squeeze(scope, part(scope, found, 0, 1), [0])
            scope.like(scope.node("Gather", x, rows, axis=0), x)
        case _:
            scope.like(scope.node("GatherND", x, scope.node("Transpose", found)), x, rank=1)


def compress(scope: Scope) -> None:
    x = scope.pick(ranks=(1, 2))
    mask = positive(scope, x, scope.integer(-1, 2))
    scope.like(scope.node("Compress", x, flat(scope, mask)), x, rank=1)


def compress_rows(scope: Scope) -> None:
    x = scope.pick(ranks=(2,))
    sums = scope.like(part(scope, scope.node("Transpose", x), 0, 1), x)
    mask = flat(scope, positive(scope, sums))
    scope.like(scope.node("Compress", x, mask, axis=0), x)


def unique(scope: Scope) -> None:
    x = scope.pick(ranks=(1,))
    values, first, inverse, counts = scope.several("Unique", 4, x, sorted=int(scope.flag(0.7)))
    scope.like(values, x)
    scope.add(scope.choose([first, inverse, counts]), "int64", 1)


def top_k(scope: Scope) -> None:
    """As many of the largest as there are, or half of them."""
    x = scope.pick(ranks=(1,))
    length = length_of(scope, x)
    if scope.flag():
        length = scope.node("Div", length, scope.constant([2]))
    attributes = {} if scope.opset < 11 else {"largest": int(scope.flag()), "sorted": 1}
    kind = inside_of(x.kind)
    source = x.name if scope.opset >= 11 or kind == "float" else cast(scope, x, "float")
    values, indices = scope.several("TopK", 2, source, length, axis=0, **attributes)
    scope.add(values, kind if source == x.name else "float", 1)
    scope.add(indices, "int64", 1)


def expand(scope: Scope) -> None:
    x, y = scope.pick(ranks=(0,)), scope.pick(ranks=(1, 2))
    scope.like(scope.node("Expand", x, scope.node("Shape", y)), x, rank=y.rank)


def filled(scope: Scope) -> None:
    """A count from data as a shape."""
    y = scope.pick(("int64",))
    count = scope.node("ReduceSum", cast(scope, positive(scope, y), "int64"), keepdims=1)
    match scope.integer(0, 2 if scope.opset >= 11 else 1):
        case 0:
            scope.add(scope.node("ConstantOfShape", count), "float", 1)
        case 1:
            shape = scope.node("Concat", count, scope.constant([scope.integer(0, 3)]), axis=0)
            scope.add(scope.node("ConstantOfShape", shape), "float", 2)
        case _:
            last = squeeze(scope, count, [0])
            scope.add(scope.node("Range", scope.constant(0), last, scope.constant(1)), "int64", 1)


def repeated(scope: Scope) -> None:
    x = scope.pick(ranks=(1,))
    y = scope.pick(("int64",), (0,))
    times = scope.node("Mod", y, scope.constant(3)) if scope.opset >= 10 else scope.constant(2)
    scope.like(short(scope, scope.node("Tile", x, unsqueeze(scope, times, [0])), 17), x)


def sliced_by_data(scope: Scope) -> None:
    x, y = scope.pick(ranks=(1,)), scope.pick(("int64",), (0,))
    bound = unsqueeze(scope, y, [0])
    far = scope.constant([2**31 - 1])
    bounds = (bound, far) if scope.flag() else (scope.constant([0]), bound)
    scope.like(scope.node("Slice", x, *bounds, scope.constant([0])), x)


def padded(scope: Scope) -> None:
    x = scope.pick(ranks=(1,))
    y = scope.pick(("int64",), (1,))
    missing = scope.node("Mod", length_of(scope, y), scope.constant([4]))
    ends = [missing, scope.constant([1])] if scope.flag() else [scope.constant([0]), missing]
    pads = scope.node("Concat", *ends, axis=0)
    more = [number(scope, scope.integer(-2, 2), x)] if scope.flag() else []
    scope.like(scope.node("Pad", x, pads, *more), x)


def resized(scope: Scope) -> None:
    """A row stretched to a size from data; never an empty one."""
    x = scope.pick(("float",))
    y = scope.pick(ranks=(1,))
    some = scope.node("Concat", x, scope.floats([1]), axis=0)
    image = unsqueeze(scope, some, [0, 1])
    wanted = scope.node("Add", scope.node("Mod", length_of(scope, y), scope.constant([5])), scope.constant([1]))
    sizes = scope.node("Concat", scope.constant([1, 1]), wanted, axis=0)
    made = scope.node(
        "Resize",
        image,
        "" if scope.opset >= 13 else scope.floats([]),
        "" if scope.opset >= 13 else scope.floats([]),
        sizes,
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    scope.like(squeeze(scope, made, [0, 1]), x)


def scattered(scope: Scope) -> None:
    """Some elements of a vector replaced by what they are doubled."""
    x = scope.pick(ranks=(1,))
    found = scope.node("NonZero", positive(scope, x))
    rows = scope.node("Transpose", found)
    updates = scope.node("Mul", scope.node("GatherND", x, rows), number(scope, 2, x))
    if scope.flag():
        made = scope.node("ScatterND", x, rows, updates)
    else:
        made = scope.node("ScatterElements", x, squeeze(scope, found, [0]), updates, axis=0)
    scope.like(bounded(scope, made, x.kind), x)


def one_hot(scope: Scope) -> None:
    x = scope.pick(("int64",))
    depth = scope.constant(scope.integer(1, 4))
    made = scope.node("OneHot", x, depth, scope.constant(np.array([0, 1], np.float32)), axis=scope.choose([-1, 0]))
    scope.add(made, "float", 2)


def last_row(scope: Scope) -> None:
    """A gather by a negative index, of something that is never empty."""
    x = scope.pick(ranks=(1,))
    some: Drawn = scope.like(scope.node("Concat", number_vector(scope, x), x, axis=0), x)
    index = scope.constant(-1) if scope.opset >= 11 else scope.constant(0)
    scope.like(scope.node("Gather", some, index, axis=0), x, rank=0)


def number_vector(scope: Scope, like: Drawn) -> str:
    return unsqueeze(scope, number(scope, 1, like), [0])


PIECES = (
    Piece("non_zero", non_zero, 9),
    Piece("compress", compress, 9),
    Piece("compress_rows", compress_rows, 9),
    Piece("unique", unique, 11),
    Piece("top_k", top_k, 10),
    Piece("expand", expand, 8),
    Piece("filled", filled, 9),
    Piece("repeated", repeated),
    Piece("sliced_by_data", sliced_by_data, 10),
    Piece("padded", padded, 11),
    Piece("resized", resized, 11),
    Piece("scattered", scattered, 13),
    Piece("one_hot", one_hot, 11),
    Piece("last_row", last_row),
)
