"""A case that crashes or hangs is an outcome, and the next case runs all the same."""

from collections.abc import Iterator

import pytest

from tests.conformance.worker import Worker


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker("tests.conformance.broken_backend", limit_s=1.0)
    yield worker
    worker.connection.send(None)
    worker.stop()


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("test_identity", "passed", ""),
        ("test_abs", "crash", "exit code -6"),
        ("test_neg", "mismatch", "outputs[0]: 60 of 60 differ"),
        ("test_acos", "hang", "no answer within 1 s"),
        ("test_acosh", "unsupported", "NotUnsupportedAtAllError: Acosh"),
        ("test_asin", "error", "ValueError: numpy"),
        ("test_identity_sequence", "passed", ""),
    ],
)
def test_outcome(worker: Worker, name: str, status: str, reason: str) -> None:
    outcome = worker.run(name)
    assert (outcome.name, outcome.kind, outcome.status) == (name, "node", status)
    assert outcome.reason.startswith(reason)
    assert bool(outcome.reason) == bool(reason)
