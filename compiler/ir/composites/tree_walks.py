"""Tree ensembles as other primitives: a loop over the depth, in which all rows step down all trees, and a fold."""

from collections.abc import Mapping

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.capture import close_blocks
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.indexed import SCATTERED_FOLDS
from onnxc.compiler.ir.primitives.trees import (
    EQUAL,
    FEATURE_SHIFT,
    FOLDS,
    GREATER,
    LEAF,
    LESS,
    UNORDERED,
    split_outcomes,
)
from onnxc.compiler.ir.types import TensorType


def walked_trees(op: Op, build: Builder) -> tuple[Value, ...]:
    """The fold of what the leaves vote, to which a step per level leads"""
    x, thresholds, links, *weights = op.operands
    kind, targets = op.text("kind"), op.int("targets")
    words, children = (_column(links, ordinal, build) for ordinal in (0, 1))
    leaves = _reached(op, words, children, build)
    votes = build.gather(children, leaves, 0)
    if weights:
        return (build.reduce(build.gather(weights[0], votes, 0), kind, (1,)),)
    weight = build.gather(thresholds, leaves, 0)
    if targets == 1:
        return (build.reduce(weight, kind, (1,), keepdims=True),)
    start = build.full((x.shape[0], targets), FOLDS[kind][1], x.dtype)
    return (build.scatter_along(start, votes, weight, 1, SCATTERED_FOLDS[kind]),)


def _column(links: Value, ordinal: int, build: Builder) -> Value:
    """i64[M]: one word of each record, a constant where the links are."""
    known = build.known_array(links)
    if known is not None:
        return build.constant(known[:, ordinal].astype(np.int64))
    return build.cast(build.reshape(build.slice_axis(links, 1, ordinal, 1), links.shape[:1]), I64)


def _reached(op: Op, words: Value, children: Value, build: Builder) -> Value:
    """i64[N, R]: the leaf of each tree."""
    x, thresholds = op.operands[:2]
    start = build.iota((x.shape[0], op.int("trees")), 1, I64)
    if not op.int("depth"):
        return start
    nested = build.nested()
    iteration = nested.parameter("iteration", TensorType(I64, ()))
    current = nested.parameter("node", start.type)
    word = nested.gather(words, current, 0)
    seen = nested.gather_along(x, nested.shift_right(word, FEATURE_SHIFT), 1)
    fails = nested.not_(_holds(op, seen, nested.gather(thresholds, current, 0), word, nested))
    below = nested.add(nested.gather(children, current, 0), nested.cast(fails, I64))
    following = nested.select(nested.equal(word, LEAF), current, below)
    block = nested.block((iteration, current), (nested.constant(np.array(True)), following))
    captures, (closed,) = close_blocks([block])
    limit, condition = build.scalar(op.int("depth"), I64), build.scalar(True, BOOL)
    symbol = build.symbols.fresh("trips")
    return build.while_(limit, condition, (start,), captures, closed, (start.type,), symbol)[0]


def _holds(op: Op, x: Value, threshold: Value, word: Value, build: Builder) -> Value:
    """bool[N, R]: whether what comes out of the comparison is among the outcomes of the node."""
    always, by_node = split_outcomes(op)
    tests: Mapping[int, Value] = {
        LESS: build.less(x, threshold),
        EQUAL: build.equal(x, threshold),
        GREATER: build.less(threshold, x),
        UNORDERED: build.or_(build.is_nan(x), build.is_nan(threshold)),
    }
    holds = build.full(x.shape, False, BOOL)
    for bit, test in tests.items():
        if bit & always:
            holds = build.or_(holds, test)
        elif bit in by_node:
            holds = build.or_(holds, build.and_(test, build.not_equal(build.and_(word, bit), 0)))
    return holds
