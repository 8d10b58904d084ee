"""The list of known gaps may only shrink."""

from pathlib import Path

from tests.conformance.gaps import complaints, read_gaps, write_gaps
from tests.conformance.worker import Outcome

PASSED = Outcome("test_a", "node", "passed", "", 0.1)
FAILED = Outcome("test_b", "node", "mismatch", "outputs[0]: 1 of 1 differ", 0.1)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gaps.txt"
    write_gaps([FAILED, PASSED], path)
    assert read_gaps(path) == {"test_b": "mismatch"}


def test_a_failure_that_is_not_listed_is_a_complaint() -> None:
    assert complaints([FAILED], {}) == ("test_b: mismatch: outputs[0]: 1 of 1 differ",)


def test_a_listed_failure_is_none() -> None:
    assert complaints([FAILED], {"test_b": "unsupported"}) == ()


def test_a_listed_case_that_passes_is_a_complaint() -> None:
    assert complaints([PASSED], {"test_a": "mismatch"}) == ("test_a: passes, so its line in known_gaps.txt must go",)
