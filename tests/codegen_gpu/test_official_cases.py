"""Official node cases through plan, artifact and runtime on a fake device, whose kernels Triton's interpreter runs.

`python -m tests.conformance --backend tests.support.fake_gpu` runs all of them, which takes many minutes.
"""

import re
from collections.abc import Iterator, Sequence

import pytest

from tests.conformance.gaps import complaints
from tests.conformance.worker import Worker

SHARDS = 8
LIMIT_S = 60.0
LEAST_CASES = 600

# Large tensors, or as many programs as elements: the interpreter takes seconds for each.
LONG = re.compile(
    "^test_(resize|linear|attention|flexattention|reduce|gridsample|sce|nllloss|layer|averagepool"
    "|reflect|edge|wrap|maxpool|lppool|deform|det|col2im|onehot|reshape)_"
)


def sample(kinds: Sequence[tuple[str, str]]) -> list[str]:
    """Two of three node cases that are not long, in order."""
    names = [name for name, kind in kinds if kind == "node" and not LONG.match(name)]
    return [name for number, name in enumerate(names) if number % 3]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker("tests.support.fake_gpu", LIMIT_S)
    yield worker
    worker.connection.send(None)
    worker.stop()


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_cases_give_the_expected_values(worker: Worker, shard: int) -> None:
    names = sample(list(worker.kinds.items()))
    assert len(names) >= LEAST_CASES
    assert not complaints(worker.run_all(names[shard::SHARDS]), {})
