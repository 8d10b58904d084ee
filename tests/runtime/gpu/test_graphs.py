"""CUDA graphs: what is captured, replayed and given up."""

from functools import partial

import numpy as np
import pytest

from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.graphs import GRAPHS_KEPT, GraphCache
from onnxc.runtime.program import Host, Release
from tests.runtime.gpu.foreign import WithInterface
from tests.runtime.gpu.programs import AFFINE, affine, executable, step
from tests.runtime.programs import body, launch, program, vector
from tests.support.arrays import assert_same
from tests.support.fake_driver import FakeDriver

X = np.array([1.0, -2.0, 0.5], np.float32)


def replayed(fake: FakeDriver) -> list[bool]:
    """Whether each run of the first kernel came out of a graph."""
    return [launched.in_graph for launched in fake.launches if launched.kernel.name == "multiply"]


def test_shapes_that_come_again_are_replayed_with_the_copies(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    for k in range(5):
        x = X + np.float32(k)
        assert_same(exe(x), affine(x))
    assert replayed(fake) == [False, True, True, True, True]
    assert fake.calls.count("cuGraphInstantiateWithFlags") == 1
    start = len(fake.calls)
    exe(X)
    assert fake.calls[start:] == ["cuCtxGetCurrent", "cuGraphLaunch", "cuStreamSynchronize"]


def test_graphs_can_be_switched_off(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE, graphs=False)
    for _ in range(3):
        assert_same(exe(X), affine(X))
    assert replayed(fake) == [False] * 3
    assert "cuStreamBeginCapture_v2" not in fake.calls


def test_launches_that_follow_each_other_are_one_graph(fake: FakeDriver) -> None:
    steps = [step("affine", [0], [1]), step("both", [1], [2, 3]), step("affine", [2], [4]), Release((1, 2))]
    exe = executable(fake, program(body(5, [0], [4, 3], steps), outputs=[vector("y"), vector("squares")]))
    for k in (0, 1, 2, 500):
        x = np.resize(X, 3 + k // 100) + np.float32(k)
        for _ in range(2):
            y, squares = exe.run({"x": x}).values()
            assert_same(y, affine(2 * affine(x)))
            assert_same(squares, affine(x) ** 2)
    assert fake.calls.count("cuGraphInstantiateWithFlags") == 2
    start = len(fake.calls)
    exe.run({"x": x})
    assert fake.calls[start:] == ["cuCtxGetCurrent", "cuGraphLaunch", "cuStreamSynchronize"]


def test_what_goes_between_launches_is_nobody_elses(fake: FakeDriver) -> None:
    """Arrays of the caller's that overlap, and one that is given for what later launches read."""
    steps = [step("both", [0], [1, 2]), step("affine", [1], [3]), Release((2,))]
    exe = executable(fake, program(body(4, [0], [1, 3], steps), outputs=[vector("y"), vector("z")]))
    given = WithInterface(fake, X)
    for _ in range(3):
        out = {"y": WithInterface(fake, np.zeros(3, np.float32)), "z": given}
        exe.run({"x": given}, out=out)
        assert_same(out["y"].numpy(), 2 * X)
        assert_same(given.numpy(), affine(2 * X))
        given.fake.view(given.address, np.float32, (3,))[...] = X


def test_a_program_with_host_steps_is_not_captured(fake: FakeDriver) -> None:
    exe = executable(fake, program(body(3, [0], [2], [step("affine", [0], [1]), Host("neg", (1,), (2,), {})])))
    for _ in range(3):
        assert_same(exe(X), -affine(X))
    assert "cuStreamBeginCapture_v2" not in fake.calls


def test_each_shape_has_its_graph_and_those_not_used_for_long_are_destroyed(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    exe(np.zeros(100, np.float32))
    for size in range(1, GRAPHS_KEPT + 11):
        for k in range(3):
            x = np.full(size, k, np.float32)
            assert_same(exe(x), affine(x))
    assert len(fake.streams.executables) == GRAPHS_KEPT
    assert fake.streams.graphs == {}
    fake.launches.clear()
    exe(np.zeros(GRAPHS_KEPT, np.float32))
    exe(np.zeros(1, np.float32))
    assert replayed(fake) == [True, False]


def test_an_arena_that_moves_makes_graphs_void(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    for size in (3, 3, 3, 1000, 3, 3):
        x = np.arange(size, dtype=np.float32)
        assert_same(exe(x), affine(x))
    assert replayed(fake) == [False, True, True, False, False, True]
    assert len(fake.streams.executables) == 1


def test_arrays_on_the_device_are_replayed_at_the_same_addresses_only(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    first, second = WithInterface(fake, X), WithInterface(fake, 2 * X)
    for given in (first, first, second, first):
        exe(given)
    assert replayed(fake) == [False, True, False, True]
    assert_same(exe(second).numpy(), affine(2 * X))


@pytest.mark.parametrize("stream", [0, None])
def test_a_graph_runs_on_the_stream_of_the_call(fake: FakeDriver, stream: int | None) -> None:
    exe = executable(fake, AFFINE)
    theirs = fake.streams.create()
    given, out = WithInterface(fake, X), WithInterface(fake, np.zeros(3, np.float32))
    for _ in range(3):
        exe.run({"x": given}, out={"y": out}, stream=theirs)
    assert fake.streams.find(theirs).queue
    fake.streams.find(theirs).run()
    assert_same(out.numpy(), affine(X))
    exe.run({"x": given}, out={"y": out}, stream=stream)
    assert replayed(fake)[:3] == [False, True, True]


def test_an_arena_that_moves_makes_graphs_at_the_same_addresses_void(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    given, out = WithInterface(fake, X), WithInterface(fake, np.zeros(3, np.float32))
    for _ in range(2):
        exe.run({"x": given}, out={"y": out})
    exe(WithInterface(fake, np.zeros(5000, np.float32)))
    assert fake.streams.executables == {}
    exe.run({"x": given}, out={"y": out})
    assert_same(out.numpy(), affine(X))


def test_staging_memory_that_moves_makes_graphs_void(fake: FakeDriver) -> None:
    both = program(body(3, [0], [1, 2], [launch("both", [0], [1, 2], arena_bytes="0")]), outputs=[vector("y")] * 2)
    exe = executable(fake, both)
    for _ in range(2):
        exe(X)
    assert len(fake.streams.executables) == 1
    exe(np.zeros(5000, np.float32))
    assert fake.streams.executables == {}
    assert exe.stats.arena_bytes == 0


def test_a_graph_is_not_destroyed_while_it_runs(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    exe(np.zeros(100, np.float32))
    stream = fake.streams.create()
    for size in range(1, GRAPHS_KEPT + 3):
        x = WithInterface(fake, np.full(size, size, np.float32))
        out = WithInterface(fake, np.zeros(size, np.float32))
        for _ in range(2):
            exe.run({"x": x}, out={"y": out}, stream=stream)
    fake.streams.run_all()
    assert_same(out.numpy(), affine(x.numpy()))
    assert len(fake.streams.executables) == GRAPHS_KEPT


def test_the_graph_that_ran_last_is_not_run_where_it_was_destroyed(fake: FakeDriver) -> None:
    """A shape alone, one that takes its place, and the first again."""
    device, done = Device(fake.driver), list[str]()
    with device.current():
        graphs, stream = GraphCache(device, 1), device.new_stream()
        settle = partial(device.driver.call, "to wait", "cuStreamSynchronize", stream)
        for key in ("a", "a", "a", "b", "a", "a", "b", "b"):
            graphs.run(key, stream, stream, lambda _, key=key: done.append(key), settle)
        graphs.clear(settle)
        graphs.run("b", stream, stream, lambda _: done.append("b"), settle)
        settle()
    # Twice for each time that it is new: enqueued, and captured when it comes again.
    assert done == ["a", "a", "b", "a", "a", "b", "b", "b"]
    assert (graphs.captures, graphs.replays) == (3, 4)
