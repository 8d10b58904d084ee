"""Tree ensembles on a CPU: which have a kernel, and how many walks are under way at once."""

import numpy as np

from onnxc.compiler.codegen_cpu.schedules.element_threads import element_threads
from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.trees import FEATURE_SHIFT, LEAF, UNORDERED, split_outcomes
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.loops.views import operand_view
from onnxc.compiler.planning.schedules import Schedule, TreeEnsembleSchedule
from onnxc.compiler.target import Target

WALKS = 8
"""Walks at once, so that one loads while another waits. In a vector of 16 that gathers, two of them at once, 1000 rows
down 300 LightGBM trees of 47 nodes took 5.4 ms on one thread; one by one 3.9, with 4, 6, 12 and 16 at once 5.9, 4.4,
4.1 and 4.1. A walk waits for the longest of its group: 8 rows took 70 us in vectors, 32 one by one.
"""

WALK_ROWS = 128
"""Rows that walk down a tree one group after another: it comes from far memory once for all of them. Fewer blocks would
be fewer threads at work.
"""

SCORES = 4096
"""The scores of a block of rows, which wait on the stack of a thread: 32 KiB."""


def is_summed(op: Op) -> bool:
    """Whether a score is a sum of several weights, which takes a wider type than that of the result."""
    return op.text("kind") == "sum" and op.int("trees") > 1


def tree_schedule(problem: KernelProblem, target: Target) -> Schedule:
    """As many rows in a block as have room for their scores; whole groups of walks, or few rows one after another.

    Scores that no sum rounds, those of one tree among them, need no other memory than the result.
    """
    (op,) = (op for op in problem.block.ops if op.name == "tree_ensemble")
    rows = min(SCORES // max(op.int("targets"), 1), WALK_ROWS) if is_summed(op) else WALK_ROWS
    return TreeEnsembleSchedule(
        algorithm="walks",
        block=rows - rows % WALKS if rows > WALKS else rows,
        walks=WALKS,
        scores="block" if is_summed(op) else "result",
        looks_for_missing=_looks_for_missing(op),
        workers=element_threads(target),
    )


def _looks_for_missing(op: Op) -> bool:
    """Whether tests differ in where missing values go, and a look at all features of a row takes less than its walks.

    8 rows down 300 LightGBM trees, whose nodes say which way, took 32 us with the tests, 23 us without.
    """
    view, x = operand_view(op.operands[0]), op.operands[0]
    if UNORDERED not in split_outcomes(op)[1] or view is None or view.strides[1] != 1:
        return False
    return known_width(x) <= op.int("trees") * op.int("depth")


def is_native(op: Op) -> bool:
    """Whether x is f32 or f64, the tables are constants with indices in range, and the sums of a row have room."""
    x, _, links, *weights = op.operands
    if x.dtype not in (F32, F64):
        return False
    tables = [value.op.array() for value in (links, *weights) if value.op is not None and value.op.name == "constant"]
    if len(tables) != 1 + len(weights) or op.int("targets") < 1 or (is_summed(op) and op.int("targets") > SCORES):
        return False
    words, second = tables[0].T
    branches, width = words != LEAF, known_width(x)
    features, children = words[branches] >> FEATURE_SHIFT, second[branches]
    outcomes = np.unique(words[branches] & (1 << FEATURE_SHIFT) - 1).tolist()
    # Behind the child at which a test holds lies the other.
    children_are_there = bool(((children >= 0) & (children < len(words) - 1)).all())
    features_are_there = bool(((features >= 0) & (features < width)).all())
    return features_are_there and children_are_there and set(outcomes) <= set(op.ints("outcomes"))


def known_width(x: Value) -> int:
    """How many features a row has."""
    width = x.shape[1]
    assert isinstance(width, int), x
    return width
