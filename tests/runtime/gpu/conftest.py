"""A fake driver for each test; whatever was wrong in its eyes fails the test."""

from collections.abc import Iterator

import pytest

from tests.runtime.gpu.programs import fake_driver
from tests.support.fake_driver import FakeDriver


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    made = fake_driver()
    yield made
    made.check()
