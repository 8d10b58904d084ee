"""What docs/coverage.md says of types holds for a sample of the operator versions, tried again."""

import pytest

from tests.differential.case import drawable
from tests.support.coverage import type_support
from tests.support.type_support import described

SAMPLE = 60

pytestmark = pytest.mark.slow


def test_a_sample_tried_again_runs_as_the_page_says() -> None:
    found = dict(map(described, drawable()[::SAMPLE]))
    assert found == {name: type_support()[name] for name in found}, "run python -m tests.support.type_support"
