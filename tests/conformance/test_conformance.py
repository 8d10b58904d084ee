"""The official cases pass, except those of the list of known gaps, which fail."""

from collections.abc import Iterator

import pytest

from tests.conformance.gaps import complaints, read_gaps
from tests.conformance.worker import Worker

SHARDS = 16
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker("onnxc.backend", LIMIT_S)
    yield worker
    worker.connection.send(None)
    worker.stop()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_cases_pass_unless_listed_as_gaps(worker: Worker, shard: int) -> None:
    names = list(worker.kinds)[shard::SHARDS]
    assert not complaints(worker.run_all(names), read_gaps())


def test_listed_gaps_are_cases(worker: Worker) -> None:
    assert not set(read_gaps()) - set(worker.kinds)


def test_all_cases_are_there(worker: Worker) -> None:
    assert len(worker.kinds) == 2033
