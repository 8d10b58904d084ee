"""The fuzzer: its models are reproducible, its workers survive what models do, and a brief run finds no harm."""

import random
from collections import Counter

import pytest

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from tests.fuzz.__main__ import try_models
from tests.fuzz.mutate import MUTATIONS, mutated
from tests.fuzz.seeds import seeds
from tests.fuzz.trials import accept, devour, die, disagree, empty, fail, hang, loop, overrun, refuse, run, run_nothing
from tests.fuzz.worker import WRONG, Trial, Worker, attempt

BRIEF = 200

# Making the seeds takes some seconds.
pytestmark = pytest.mark.slow


def test_the_same_number_gives_the_same_model() -> None:
    assert [mutated(number, 5) for number in range(20)] == [mutated(number, 5) for number in range(20)]
    assert len({mutated(number, 5) for number in range(20)}) == 20
    assert mutated(0, 5) != mutated(0, 6)


def test_seeds_are_many_and_small() -> None:
    models = seeds()
    assert len(models) > 1500
    assert all(proto.ByteSize() < 50_000 for proto in models)
    assert len({node.op_type for proto in models for node in proto.graph.node}) > 200


def test_every_mutation_changes_some_model() -> None:
    models = seeds()[:30]
    for mutation in dict.fromkeys(MUTATIONS):
        draw = random.Random(7)
        changed = 0
        for proto in models:
            copied = ModelProto.FromString(proto.SerializeToString())
            mutation(copied, draw)
            changed += copied != proto
        assert changed > 0, mutation.__name__


def test_mutations_leave_the_seeds_alone() -> None:
    before = [proto.SerializeToString(deterministic=True) for proto in seeds()]
    for number in range(100):
        mutated(number, 1)
    assert [proto.SerializeToString(deterministic=True) for proto in seeds()] == before


def test_most_mutated_models_are_still_messages() -> None:
    parsed = [ModelProto.FromString(data) for number in range(50) if (data := _parseable(number)) is not None]
    assert len(parsed) > 35


def _parseable(number: int) -> bytes | None:
    data = mutated(number, 3)
    try:
        ModelProto.FromString(data)
    except Exception:
        return None
    return data


@pytest.mark.parametrize(
    ("trial", "status", "reason"),
    [
        (accept, "accepted", ""),
        (run, "ran", ""),
        (run_nothing, "accepted", ""),
        (disagree, "differs", "1 is not 2"),
        (refuse, "refused", "cycle"),
        (fail, "crash", "ValueError: boom"),
        (hang, "hang", "no answer"),
        (loop, "endless", "no answer"),
        (die, "crash", "exit code -11"),
        (overrun, "crash", "exit code -11"),
        (devour, "memory", ""),
    ],
)
def test_a_worker_tells_what_became_of_a_model_and_takes_the_next(trial: Trial, status: str, reason: str) -> None:
    # Those that sleep do not work: the limit is then six times as long.
    worker = Worker(0, trial, limit_s=0.5, models=empty)
    for number in range(2):
        outcome = worker.run(number)
        assert (outcome.number, outcome.status) == (number, status)
        assert outcome.reason.startswith(reason)
    worker.connection.send(None)
    assert worker.stop() is not None


def test_an_assertion_of_ours_is_a_crash() -> None:
    def doubt(_: bytes) -> None:
        assert not seeds(), "no seeds"

    outcome = attempt(0, 0, doubt)
    assert outcome.status == "crash"
    assert outcome.reason.startswith("AssertionError: no seeds")


def test_a_brief_run_finds_no_harm() -> None:
    workers = [Worker(20) for _ in range(2)]
    outcomes = try_models(0, BRIEF, workers)
    for worker in workers:
        worker.connection.send(None)
        worker.stop()
    assert [outcome for outcome in outcomes if outcome.status in WRONG] == []
    counts = Counter(outcome.status for outcome in outcomes)
    assert counts["ran"] > BRIEF / 10
    assert counts["refused"] > BRIEF / 10
