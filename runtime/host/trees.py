"""The meaning of tree ensembles: all rows walk down all trees at once."""

import numpy as np

from onnxc.runtime.host.attributes import integer, text
from onnxc.runtime.host.elements import narrow, widen
from onnxc.runtime.host.registry import Arrays, Attributes, meaning

LEAF, FEATURE_SHIFT = 16, 5
FOLDS = {"sum": (np.add, 0.0), "min": (np.minimum, np.inf), "max": (np.maximum, -np.inf)}
"""How votes meet, and what a target has before any."""


@meaning("tree_ensemble")
def tree_ensemble(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[N, F], thresholds: T[M], links: i32[M, 2], weights: T[L, E]  ->  T[N, E], the votes of the leaves met

    Sums run in f64, in the order of the trees.
    """
    dtype = operands[0].dtype
    x, thresholds, links, *weights = map(widen, operands)
    fold, first = FOLDS[text(attributes, "kind")]
    targets = integer(attributes, "targets")
    total = np.full((len(x), targets), first, np.float64 if fold is np.add else x.dtype)
    if not total.size:
        return (narrow(total, dtype),)
    rows = np.arange(len(x))
    for leaf in _leaves(x, thresholds, links, attributes).T:
        if weights:
            total = fold(total, weights[0][np.clip(links[leaf, 1], 0, len(weights[0]) - 1)])
        else:
            target = np.clip(links[leaf, 1], 0, targets - 1)
            total[rows, target] = fold(total[rows, target], thresholds[leaf])
    return (narrow(total, dtype),)


def _leaves(x: np.ndarray, thresholds: np.ndarray, links: np.ndarray, attributes: Attributes) -> np.ndarray:
    """i64[N, R], the record that each row has come to in each tree."""
    count = integer(attributes, "trees")
    current = np.broadcast_to(np.arange(count), (len(x), count))
    # Where there is no feature there is no branch, as long as the tables are sound.
    known = x if x.shape[1] else np.zeros((len(x), 1), x.dtype)
    for _ in range(integer(attributes, "depth")):
        word, child = links[current, 0], links[current, 1]
        feature = np.clip(word >> FEATURE_SHIFT, 0, known.shape[1] - 1)
        outcome = _outcome(np.take_along_axis(known, feature, 1), thresholds[current])
        following = np.clip(child + ((word & outcome) == 0), 0, len(links) - 1)
        current = np.where(word & LEAF, current, following)
    return current


def _outcome(x: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """The bit of what comes out: 1 less, 2 equal, 4 greater, 8 unordered."""
    conditions = (x < threshold, x == threshold, x > threshold)
    return np.asarray(np.select(conditions, (1, 2, 4), 8))
