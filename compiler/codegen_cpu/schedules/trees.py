"""Tree ensembles on a CPU: which have a kernel, and how many walks are under way at once."""

import numpy as np

from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.trees import FEATURE_SHIFT, LEAF

WALK_VECTORS = 2
"""Vectors of walks at once, so that one gathers while another waits. 1000 rows down 100 LightGBM trees of 31 leaves,
vectors of 16, one thread: with 1, 2 and 4 of them 2.33, 1.52, 1.27 ms; with 4 fewer than 64 rows would walk alone.
"""

WALK_ROWS = 128
"""Rows that walk down a tree one group after another: it comes from far memory once for all of them. With 64, 128 and
256 of them the same took 1.67, 1.52 and 1.48 ms, and fewer blocks are fewer threads at work.
"""

SCORES = 4096
"""The scores of a block of rows, which wait on the stack of a thread: 32 KiB."""


def is_summed(op: Op) -> bool:
    """Whether a score is a sum of several weights, which takes a wider type than that of the result."""
    return op.text("kind") == "sum" and op.int("trees") > 1


def is_native(op: Op) -> bool:
    """Whether x is f32 or f64, the tables are constants with indices in range, and the sums of a row have room."""
    x, _, links, *weights = op.operands
    if x.dtype not in (F32, F64):
        return False
    tables = [value.op.array() for value in (links, *weights) if value.op is not None and value.op.name == "constant"]
    if len(tables) != 1 + len(weights) or op.int("targets") < 1 or (is_summed(op) and op.int("targets") > SCORES):
        return False
    words, second = tables[0].T
    branches, width = words != LEAF, _known(x, 1)
    features, children = words[branches] >> FEATURE_SHIFT, second[branches]
    outcomes = np.unique(words[branches] & (1 << FEATURE_SHIFT) - 1).tolist()
    # Behind the child at which a test holds lies the other.
    children_are_there = bool(((children >= 0) & (children < len(words) - 1)).all())
    features_are_there = bool(((features >= 0) & (features < width)).all())
    return features_are_there and children_are_there and set(outcomes) <= set(op.ints("outcomes"))


def _known(x: Value, axis: int) -> int:
    size = x.shape[axis]
    assert isinstance(size, int), x
    return size
