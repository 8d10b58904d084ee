"""Tree ensembles beside a walk down one tree for one row at a time, in plain Python."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F16, F32, F64, DType
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.ir.primitives.trees import EQUAL, FEATURE_SHIFT, GREATER, LEAF, LESS, UNORDERED
from onnxc.compiler.planning.schedules import TreeEnsembleSchedule
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, tensor

FEATURES = 5
TESTS = (LESS | EQUAL, LESS, GREATER | EQUAL, GREATER, EQUAL, LESS | GREATER)
FOLDS = {"sum": sum, "min": min, "max": max}
# Fewer rows than walk at once, nearly as many, as many, one more, nearly as many again, more than a block has.
ROWS = (0, 1, 3, 25, 32, 33, 61, 300)


@dataclass
class Trees:
    """Random trees as tables. A leaf votes for one target, or has a row of weights for all."""

    count: int
    depth: int
    outcomes: Sequence[int]
    targets: int
    has_rows: bool = False
    features: int = FEATURES
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    thresholds: list[float] = field(default_factory=list)
    links: list[list[int]] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        for _ in range(self.count):
            self._add()
        for root in range(self.count):
            self._grow(root, self.depth)

    def _add(self) -> int:
        self.thresholds.append(float(np.round(self.random.standard_normal(), 1)))
        self.links.append([0, 0])
        return len(self.links) - 1

    def _grow(self, record: int, depth: int) -> None:
        if depth == 0 or self.random.random() < 0.2:
            choice = len(self.weights) if self.has_rows else int(self.random.integers(self.targets))
            self.weights.append(self.random.standard_normal(self.targets))
            self.links[record] = [LEAF, choice]
            return
        outcomes = int(self.random.choice(list(self.outcomes)))
        children = (self._add(), self._add())
        self.links[record] = [int(self.random.integers(self.features)) << FEATURE_SHIFT | outcomes, children[0]]
        for child in children:
            self._grow(child, depth - 1)

    def tables(self, dtype: DType) -> list[np.ndarray]:
        tables = [np.array(self.thresholds, dtype.numpy), np.array(self.links, np.int32).reshape(-1, 2)]
        return [*tables, np.array(self.weights, dtype.numpy)] if self.has_rows else tables

    def module(self, dtype: DType, kind: str, columns: str = "") -> Module:
        used = {word & LEAF - 1 for word, _ in self.links if word != LEAF}
        attributes = {"kind": kind, "trees": self.count, "targets": self.targets, "depth": self.depth}

        def build(ir: Builder, x: Value) -> Value:
            seen = ir.slice_axis(x, 1, 0, self.features) if columns else x
            tables = [ir.constant(table) for table in self.tables(dtype)]
            return ir.tree_ensemble(seen, tables, {**attributes, "outcomes": tuple(sorted(used))})

        return make([tensor(f"{dtype}[N, {columns or self.features}]")], build)

    def walked(self, x: np.ndarray, dtype: DType, kind: str) -> np.ndarray:
        """The scores, tree by tree and row by row."""
        thresholds, links, *weights = self.tables(dtype)
        first = {"sum": 0.0, "min": np.inf, "max": -np.inf}[kind]
        scores = np.full((len(x), self.targets), first, np.float64)
        for row, features in enumerate(x):
            for root in range(self.count):
                leaf = self._leaf(features, root, thresholds, links)
                votes = enumerate(weights[0][links[leaf, 1]]) if weights else [(links[leaf, 1], thresholds[leaf])]
                for target, vote in votes:
                    scores[row, target] = FOLDS[kind]((scores[row, target], np.float64(vote)))
        return scores.astype(x.dtype)

    @staticmethod
    def _leaf(features: np.ndarray, record: int, thresholds: np.ndarray, links: np.ndarray) -> int:
        while links[record, 0] != LEAF:
            word, child = links[record]
            seen, threshold = features[word >> FEATURE_SHIFT], thresholds[record]
            outcome = LESS if seen < threshold else EQUAL if seen == threshold else GREATER
            outcome = UNORDERED if np.isnan(seen) else outcome
            record = child if word & outcome else child + 1
        return record


def rows(count: int, dtype: DType, columns: int = FEATURES) -> np.ndarray:
    """Features that meet thresholds exactly in places, with NaN, infinities and both zeros."""
    random = np.random.default_rng(count)
    x = np.round(random.standard_normal((count, columns)), 1)
    odd = random.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], x.shape)
    return np.where(random.random(x.shape) < 0.2, odd, x).astype(dtype.numpy)


def assert_walks(trees: Trees, dtype: DType = F32, kind: str = "sum", target: Target = EVERY_TARGET[0]) -> None:
    native = Native(trees.module(dtype, kind), target)
    assert native.kernels() == ["tree_ensemble"]
    for count in ROWS:
        x = rows(count, dtype)
        (scores,) = native(x)
        np.testing.assert_array_equal(scores, trees.walked(x, dtype, kind), strict=True)
        native.check(x)


MIXED = tuple(test | missing for test in TESTS for missing in (0, UNORDERED))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("outcomes", [TESTS[:1], (3, 11), MIXED], ids=str)
def test_the_leaf_is_that_of_a_walk_by_hand(outcomes: Sequence[int], dtype: DType, target: Target) -> None:
    assert_walks(Trees(37, 6, outcomes, 1), dtype, target=target)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize(("targets", "has_rows"), [(1, False), (3, False), (2, True)])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_few_rows_walk_down_few_trees_together(count: int, targets: int, has_rows: bool, target: Target) -> None:
    assert_walks(Trees(count, 4, MIXED, targets, has_rows), target=target)


@pytest.mark.parametrize("outcomes", [(outcome,) for outcome in range(16)], ids=str)
def test_every_set_of_outcomes_is_a_test(outcomes: Sequence[int]) -> None:
    assert_walks(Trees(9, 3, outcomes, 1))


@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize(("targets", "has_rows"), [(3, False), (3, True), (1, True), (1, False)])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_votes_meet_in_the_order_of_the_trees(targets: int, has_rows: bool, kind: str, dtype: DType) -> None:
    assert_walks(Trees(35, 5, MIXED, targets, has_rows), dtype, kind)


@pytest.mark.parametrize(("count", "depth"), [(0, 0), (1, 0), (2, 0), (1, 1), (64, 2), (1, 9)])
def test_trees_may_be_none_leaves_or_deep(count: int, depth: int) -> None:
    assert_walks(Trees(count, depth, TESTS[:1], 2))


@pytest.mark.parametrize("targets", [200, 4096])
def test_so_many_targets_that_few_rows_fit_a_block(targets: int) -> None:
    trees = Trees(3, 2, TESTS[:1], targets)
    native = Native(trees.module(F32, "sum"))
    x = rows(70, F32)
    np.testing.assert_array_equal(native(x)[0], trees.walked(x, F32, "sum"))
    (kernel,) = native.plan.kernels
    schedule = kernel.scheduled(TreeEnsembleSchedule)
    most = 4096 // targets
    # Whole groups of rows, where there is room for one.
    assert schedule.block == (most - most % schedule.walks if most > schedule.walks else most)


@pytest.mark.parametrize("targets", [17, 383, 4097])
@pytest.mark.parametrize(("count", "kind"), [(1, "sum"), (2, "max"), (3, "min")])
@pytest.mark.parametrize("has_rows", [False, True])
def test_scores_that_no_sum_rounds_are_added_up_in_the_result(
    targets: int, count: int, kind: str, has_rows: bool
) -> None:
    trees = Trees(count, 4, MIXED, targets, has_rows)
    native = Native(trees.module(F32, kind))
    for count in (1, 35, 130):
        x = rows(count, F32)
        np.testing.assert_array_equal(native(x)[0], trees.walked(x, F32, kind), strict=True)
    (kernel,) = native.plan.kernels
    assert kernel.scheduled(TreeEnsembleSchedule).block == 128


def test_features_that_lie_apart_and_others_between_rows() -> None:
    trees = Trees(20, 5, MIXED, 1)
    for columns, count in (("9", 9), ("M", 7)):
        native, x = Native(trees.module(F32, "sum", columns)), rows(70, F32, count)
        np.testing.assert_array_equal(native(x)[0], trees.walked(x[:, :FEATURES], F32, "sum"))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("columns", ["", "M"])
def test_one_missing_value_of_a_block_goes_where_its_test_says(columns: str, target: Target) -> None:
    trees = Trees(30, 6, (3, 11), 1, features=37)
    native = Native(trees.module(F32, "sum", columns), target)
    (kernel,) = native.plan.kernels
    assert kernel.scheduled(TreeEnsembleSchedule).looks_for_missing
    for count in (1, 9, 130):
        whole = np.nan_to_num(rows(count, F32, 37 if not columns else 40))
        np.testing.assert_array_equal(native(whole)[0], trees.walked(whole, F32, "sum"), strict=True)
        for row in {0, count - 1}:
            for column in (0, 15, 31, 36):
                x = whole.copy()
                x[row, column] = np.nan
                np.testing.assert_array_equal(native(x)[0], trees.walked(x, F32, "sum"), strict=True)


def test_features_of_which_each_has_a_row() -> None:
    trees = Trees(20, 5, MIXED, 1)
    used = tuple(sorted({word & LEAF - 1 for word, _ in trees.links if word != LEAF}))
    attributes = {"kind": "sum", "trees": 20, "targets": 1, "depth": 5, "outcomes": used}

    def build(ir: Builder, x: Value) -> Value:
        tables = [ir.constant(table) for table in trees.tables(F32)]
        return ir.tree_ensemble(ir.transpose(x, (1, 0)), tables, attributes)

    native, x = Native(make([tensor(f"f32[{FEATURES}, N]")], build)), rows(70, F32)
    np.testing.assert_array_equal(native(x.T.copy())[0], trees.walked(x, F32, "sum"), strict=True)


def test_scores_are_the_same_whatever_the_threads_and_however_many_rows() -> None:
    trees = Trees(100, 5, TESTS[:1], 3)
    native, x = Native(trees.module(F32, "sum")), rows(300, F32)
    (alone,) = native(x)
    native.threads = 4
    np.testing.assert_array_equal(native(x)[0], alone)
    np.testing.assert_array_equal(np.concatenate([native(row[None])[0] for row in x[:9]]), alone[:9])


# What has no kernel


def steps(module: Module) -> list[str]:
    return [type(step).__name__ for step in Native(module).plan.body.steps]


@pytest.mark.parametrize("record", [0, 1])
@pytest.mark.parametrize("wrong", [1 << 20, -1])
def test_links_that_lead_nowhere_are_walked_on_the_host(record: int, wrong: int) -> None:
    trees = Trees(2, 3, TESTS[:1], 1)
    assert steps(trees.module(F32, "sum")) == ["Segment"]
    root = next(index for index, (word, _) in enumerate(trees.links) if word != LEAF)
    trees.links[root][record] = wrong * (1 << FEATURE_SHIFT) if record == 0 else wrong
    module = trees.module(F32, "sum")
    assert steps(module) == ["HostStep"]
    Native(module).check(rows(3, F32))


def test_other_types_and_more_targets_are_walked_on_the_host() -> None:
    assert steps(Trees(2, 3, TESTS[:1], 4097).module(F32, "sum")) == ["HostStep"]
    assert steps(Trees(2, 3, TESTS[:1], 1).module(F16, "sum")) == ["HostStep"]
