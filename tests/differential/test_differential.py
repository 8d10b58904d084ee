"""Drawn models of single operators: onnxc's engines agree with each other and, but for what is settled, with others."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from tests.differential.adjudications import ROWS, disproof, given_of
from tests.differential.case import Pair, case_name, drawable, make_case, schemas
from tests.differential.compare import difference
from tests.differential.engines import answer
from tests.differential.independent import COMPUTED
from tests.differential.judge import least_tolerance
from tests.differential.worker import Key, Worker

CASES_PER_PAIR = 8
SEED = 1
SHARDS = 16


def keys_of_shard(shard: int) -> list[Key]:
    return [(pair, number, SEED) for pair in drawable()[shard::SHARDS] for number in range(CASES_PER_PAIR)]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.stop()


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_disagreement_is_left(worker: Worker, shard: int) -> None:
    outcomes = [worker.judge(key) for key in keys_of_shard(shard)]
    left = [f"{o.description}: {engine}: {text}" for o in outcomes for engine, text in o.differences.items()]
    assert not left, "\n".join(left)


def test_enough_cases_over_enough_pairs() -> None:
    assert len(drawable()) >= 0.99 * len(schemas())
    assert len(drawable()) * CASES_PER_PAIR >= 5000


def test_a_case_is_the_same_each_time() -> None:
    pair: Pair = ("", "Conv", 11)
    first, second = (make_case(pair, 3, 5) for _ in range(2))
    assert first.model.SerializeToString(deterministic=True) == second.model.SerializeToString(deterministic=True)
    assert first.name == case_name(pair, 3, 5) == "ai.onnx.Conv-11#3@5"
    assert difference(list(first.feeds.values()), list(second.feeds.values()), accumulates=False) is None


def test_consecutive_cases_take_every_type() -> None:
    pair: Pair = ("", "Identity", 13)
    allowed = set(schemas()[pair].type_constraints[0].allowed_type_strs)
    assert {make_case(pair, number, 0).types["T"] for number in range(len(allowed))} == allowed


def test_every_independent_computation_takes_what_is_drawn() -> None:
    """Of every version of its operator, scalars and all types of the first constraint among it."""
    for pair in (pair for pair in drawable() if pair[:2] in COMPUTED):
        for number in range(CASES_PER_PAIR):
            case = make_case(pair, number, seed=11)
            with np.errstate(all="ignore"):
                assert COMPUTED[pair[:2]](given_of(case)), case.describe()


@pytest.mark.parametrize("operator", ["GridSample", "Pad", "ReduceL1", "Slice", "Unique"])
def test_independent_computations_of_every_type_give_what_the_interpreter_gives(operator: str) -> None:
    for pair in (pair for pair in drawable() if pair[1] == operator):
        for number in range(CASES_PER_PAIR):
            case = make_case(pair, number, seed=11)
            outputs = answer(case, "interpreter").outputs
            assert outputs is not None
            assert disproof(case, outputs, least_tolerance(case)) is None, case.describe()


def test_cases_are_of_every_kind() -> None:
    """Scalars, empty tensors, sizes that are symbols, initializers, and optional inputs that are left out."""
    seen: Counter[str] = Counter()
    for pair in drawable()[::5]:
        for number in range(4):
            case = make_case(pair, number, 0)
            graph = case.model.graph
            arrays = [value for value in case.feeds.values() if isinstance(value, np.ndarray)]
            seen["scalar"] += any(array.ndim == 0 for array in arrays)
            seen["empty"] += any(array.size == 0 for array in arrays)
            seen["symbolic"] += any(d.dim_param for i in graph.input for d in i.type.tensor_type.shape.dim)
            seen["initializer"] += bool(graph.initializer)
            seen["omitted"] += "" in graph.node[0].input
    assert min(seen.values()) >= 5, seen


def test_each_adjudication_has_an_independent_computation() -> None:
    domains = ("", "ai.onnx.ml")
    absent = [name for row in ROWS for name in row.operators if not any((d, name) in COMPUTED for d in domains)]
    assert not absent


@pytest.mark.parametrize(
    ("expected", "actual", "is_same"),
    [
        (np.float32([1, np.nan, -np.inf]), np.float32([1, np.nan, -np.inf]), True),
        (np.float32([1]), np.float32([1.0001]), False),
        (np.float64([1]), np.float32([1]), False),
        (np.int8([[1]]), np.int8([1]), False),
        (np.array(["a"]), np.array(["a"], object), True),
        ([np.int64(1), np.int64(2)], [np.int64(1)], False),
        ({1: 2.0, 3: 4.0}, {3: 4.0, 1: 2.0}, True),
        (None, np.int64(1), False),
    ],
)
def test_types_shapes_and_elements_are_compared(expected: object, actual: object, is_same: bool) -> None:
    assert (difference(expected, actual, accumulates=False) is None) == is_same
