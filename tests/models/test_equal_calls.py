"""Many calls of one model give equal bits, with more threads than cores and every symbol the same size."""

import onnxc
from tests.models.graphs.transformers import encoder
from tests.support.equal_calls import call_again, feed_of_size


def test_calls_with_more_threads_than_cores_are_equal() -> None:
    executable = onnxc.compile(encoder().model, threads=8)
    feed = feed_of_size(executable, 8)
    assert {name: array.shape for name, array in feed.items()} == {"ids": (8, 8), "mask": (8, 8)}
    assert call_again(executable, feed, 2000).different == 0
