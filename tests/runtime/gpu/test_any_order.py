"""Calls of every kind in any order: on streams and without, arrays here and there, kept and dropped, in threads."""

import threading

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.program import Host
from tests.runtime.gpu.foreign import WithDLPack, WithInterface
from tests.runtime.gpu.programs import AFFINE, PICK, affine, executable, step
from tests.runtime.programs import body, program, vector
from tests.support.fake_driver import FakeDriver

LONG = program(
    body(5, [0], [4], [step("affine", [0], [1]), Host("neg", (1,), (2,), {}), step("affine", [2], [3]),
                       step("affine", [3], [4])])
)  # fmt: skip
TWO = program(
    body(4, [0], [2, 3], [step("affine", [0], [1]), step("both", [1], [2, 3])]), outputs=[vector("y"), vector("z")]
)
CASES = {
    "one launch": (AFFINE, affine),
    "steps": (LONG, lambda x: affine(affine(-affine(x)))),
    "two outputs": (TWO, lambda x: 2 * affine(x)),
    "status": (PICK, lambda x: x),
}


def call_anyhow(fake: FakeDriver, exe: Executable, expected: object, seed: int, count: int) -> None:
    """Calls, each checked at once or much later."""
    random = np.random.default_rng(seed)
    streams = [None, 0, *(fake.streams.create() for _ in range(2))]
    open_results: list[tuple[np.ndarray, object]] = []
    for _ in range(count):
        x = random.integers(0, 90, random.choice([1, 3, 3, 3, 200, 2000])).astype(np.float32)
        source, wanted = expected(x), random.integers(0, 3)
        value = [x, WithInterface(fake, x), WithDLPack(fake, x)][random.integers(0, 3)]
        if open_results and random.random() < 0.3:
            source, value = open_results[random.integers(0, len(open_results))]
            if source.size == 0 or np.abs(source).max() > 90:
                continue
            source = expected(source)
        out = None
        if wanted == 1:
            out = {"y": np.empty(source.shape, np.float32)}
        elif wanted == 2:
            out = {"y": WithInterface(fake, np.zeros(source.shape, np.float32))}
        y = exe.run({"x": value}, out=out, stream=streams[random.integers(0, 4)])["y"]
        open_results.append((source, y))
        while len(open_results) > random.integers(1, 12):
            source, y = open_results.pop(random.integers(0, len(open_results)))
            found = y if isinstance(y, np.ndarray) else y.numpy()
            assert np.array_equal(found, source), (seed, source.shape)


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(4))
def test_every_call_gives_its_own_values(fake: FakeDriver, name: str, seed: int, graphs: bool) -> None:
    content, expected = CASES[name]
    call_anyhow(fake, executable(fake, content, graphs=graphs), expected, seed, 60)


@pytest.mark.parametrize("name", ["one launch", "steps"])
def test_every_call_in_threads_gives_its_own_values(fake: FakeDriver, name: str) -> None:
    content, expected = CASES[name]
    exe = executable(fake, content)
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            call_anyhow(fake, exe, expected, seed, 30)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_illegal_data_among_calls_on_streams_is_told_once(fake: FakeDriver) -> None:
    exe = executable(fake, PICK)
    streams = [fake.streams.create() for _ in range(2)]
    told = 0
    for k in range(20):
        x = np.full(3, 200 if k % 5 == 0 else k, np.float32)
        y = exe.run({"x": WithInterface(fake, x)}, stream=streams[k % 2])["y"]
        try:
            y.wait()
        except InputError:
            told += 1
    assert told == 4
