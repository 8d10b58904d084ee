"""ONNX's own runner takes the module and runs every official case, but for those that it cannot compare.

The score is counted by our harness, which is stricter: test_conformance.py.
"""

import unittest
import warnings

import pytest
from onnx.backend.test import BackendTest

from onnxc import backend
from tests.conformance.cases import all_cases

pytestmark = pytest.mark.slow

SHARDS = 8
DRAWN = r"^test_bernoulli_"
"""What is drawn at random cannot equal the one draw that is expected; the harness checks its type and its values."""

INCOMPARABLE = r"^test_loop16_seq_none_"
"""The runner makes one array of a sequence whose elements have different shapes, which NumPy refuses."""


@pytest.fixture(scope="module")
def suite() -> list[unittest.TestCase]:
    with warnings.catch_warnings():
        # The generators of the package overflow on purpose.
        warnings.simplefilter("ignore")
        tests = BackendTest(backend, __name__)
    tests.include(r"_cpu$").exclude(DRAWN).exclude(INCOMPARABLE)
    found = (test for test in tests.test_suite if isinstance(test, unittest.TestCase))
    return [test for test in found if not is_skipped(test)]


def is_skipped(test: unittest.TestCase) -> bool:
    """Whether the runner leaves the test out: it makes one for each device, and skips those that are not included."""
    return getattr(getattr(test, test.id().rpartition(".")[2]), "__unittest_skip__", False)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_case_passes(suite: list[unittest.TestCase], shard: int) -> None:
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for test in suite[shard::SHARDS]:
            test.run(result)
    assert not result.skipped
    failed = [(str(test), text.strip().splitlines()[-1]) for test, text in (*result.failures, *result.errors)]
    assert not failed


def test_no_case_is_left_out(suite: list[unittest.TestCase]) -> None:
    names = {test.id().rpartition(".")[2].removesuffix("_cpu") for test in suite}
    left_out = {case.name for case in all_cases()} - names
    assert left_out == {
        *(f"test_bernoulli{kind}{form}" for kind in ("", "_double", "_seed") for form in ("", "_expanded")),
        "test_loop16_seq_none",
    }
