"""Collectives overlap with what depends on nothing of them: the same bits in any order of events, and nobody waits."""

import random
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from onnxc.runtime.devices.device_threads import run_on_devices
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.host.collectives import BEGIN
from onnxc.runtime.host.rendezvous import Combine, Rendezvous, device_of_thread
from onnxc.runtime.ranks.exchanges import RankExchanges
from tests.sharding.annotated import CONFIG, annotate, graph_model
from tests.sharding.test_devices import FOUR, weight, whole
from tests.sharding.test_models import Graph
from tests.sharding.test_rank_exchanges import Network
from tests.support.arrays import assert_close
from tests.support.fake_gpus import compile_for_fakes
from tests.support.fake_nccl import FakeNccl

LATE = 60.0


def branches() -> ModelProto:
    """Two products of divided columns, each gathered for a Softmax, and one beside them that is not divided."""
    g = Graph()
    first, second = (g.add("Softmax", g.product("x", name, 8, 16), axis=-1) for name in ("a", "b"))
    alone = g.add("Tanh", g.product("x", "c", 8, 16))
    g.add("Sum", first, second, alone, name="y")
    model = graph_model(g.nodes, {"x": ["N", 8]}, {"y": ["N", 16]}, g.constants, 4)
    for each in model.graph.node:
        if each.op_type == "MatMul" and each.input[1] in "ab":
            annotate(each, each.input[1], {1: 4}, FOUR)
    return model


class Observed(Rendezvous):
    """Notes what each device does, which takes a while by chance."""

    made: "list[Observed]" = []  # noqa: RUF012
    chance = random.Random(5)

    def __init__(self, count: int, seconds: float) -> None:
        super().__init__(count, seconds)
        self.did: list[list[str]] = [[] for _ in range(count)]
        Observed.made.append(self)

    def bring(
        self, device: int, name: str, operand: np.ndarray, attributes: Mapping[str, object], combine: Combine
    ) -> Callable[[], np.ndarray]:
        time.sleep(self.chance.random() * 2e-3)
        self.did[device].append("begins")
        wait = super().bring(device, name, operand, attributes, combine)

        def waited() -> np.ndarray:
            time.sleep(self.chance.random() * 2e-3)
            self.did[device].append("waits")
            return wait()

        return waited


def test_exchanges_begin_before_any_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 20 orders of events the bits are those of the undivided model: no sum is divided."""
    monkeypatch.setattr("onnxc.runtime.devices.device_threads.Rendezvous", Observed)
    model, x = branches(), weight(5, 8)
    exe, expected = onnxc.compile(model, config=CONFIG), np.asarray(whole(model)(x))
    for _ in range(20):
        assert np.asarray(exe(x)).tobytes() == expected.tobytes()
        assert Observed.made[-1].did == [["begins", "begins", "waits", "waits"]] * 4


GROUPS = (((0, 1, 2, 3),), ((0, 2), (1, 3)), ((0, 1), (2, 3)))


def program(seed: int) -> list[tuple[int, bool]]:
    """Exchanges by ordinal, each of which begins and ends once, in an order by chance."""
    chance, steps, open_, begun = random.Random(seed), list[tuple[int, bool]](), list[int](), 0
    while begun < 12 or open_:
        if begun < 12 and (not open_ or chance.random() < 0.6):
            steps.append((begun, True))
            open_.append(begun)
            begun += 1
        else:
            steps.append((open_.pop(chance.randrange(len(open_))), False))
    return steps


def brought(device: int, ordinal: int) -> np.ndarray:
    return np.random.default_rng([device, ordinal]).normal(size=(4, 3)).astype(np.float32)


def attributes_of(ordinal: int) -> tuple[str, dict[str, object]]:
    name, more = (("all_reduce", {"kind": "sum"}), ("all_gather", {"axis": 0}))[ordinal % 2]
    return name, {**more, "groups": GROUPS[ordinal % len(GROUPS)]}


def expected_of(device: int, ordinal: int) -> bytes:
    name, attributes = attributes_of(ordinal)
    (group,) = (group for group in GROUPS[ordinal % len(GROUPS)] if device in group)
    return MEANINGS[name]([brought(each, ordinal) for each in group], attributes)[group.index(device)].tobytes()


def run_program(seed: int, device: int) -> dict[int, bytes]:
    """What this thread's device gets of each exchange."""
    chance, waiting, got = random.Random(seed * 7 + device), dict[int, Callable[[], np.ndarray]](), dict[int, bytes]()
    for ordinal, begins in program(seed):
        if chance.random() < 0.3:
            time.sleep(chance.random() * 1e-3)
        if begins:
            name, attributes = attributes_of(ordinal)
            waiting[ordinal] = BEGIN[name](brought(device, ordinal), attributes)
        else:
            got[ordinal] = waiting.pop(ordinal)().tobytes()
    return got


@pytest.mark.parametrize("seed", range(20))
def test_threads_may_end_exchanges_in_any_order(seed: int) -> None:
    for device, got in enumerate(run_on_devices(4, lambda device: run_program(seed, device), LATE)):
        assert got == {ordinal: expected_of(device, ordinal) for ordinal in range(12)}


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_ranks_may_end_exchanges_in_any_order(seed: int, in_blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network delivers by chance; sums that go in blocks take a second round when they are waited for."""
    if in_blocks:
        monkeypatch.setattr("onnxc.runtime.ranks.exchanges.BLOCKWISE_BYTES", 0)
    network = Network(random.Random(seed))
    found: dict[int, dict[int, bytes]] = {}

    def run(rank: int) -> None:
        exchanges = RankExchanges(rank, network.link(rank), LATE, lambda call, awaited: None)
        exchanges.begin()
        with device_of_thread(exchanges, rank):
            found[rank] = run_program(seed, rank)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LATE)
    assert found == {rank: {k: expected_of(rank, k) for k in range(12)} for rank in range(4)}


def test_a_device_that_fails_while_others_wait_for_it_ends_them() -> None:
    begun = threading.Barrier(4)

    def fails(device: int) -> bytes:
        name, attributes = attributes_of(0)
        first = BEGIN[name](brought(device, 0), attributes)
        begun.wait(LATE)
        if device == 3:
            raise InputError("it is wrong", code="sizes-disagree")
        BEGIN[name](brought(device, 0), attributes)()
        return first().tobytes()

    with pytest.raises(InputError, match=r"it is wrong\n  on device 3"):
        run_on_devices(4, fails, LATE)


def test_what_nobody_reads_ends_no_call() -> None:
    def run(device: int) -> str:
        name, attributes = attributes_of(0)
        BEGIN[name](brought(device, 0), attributes)
        return name

    assert run_on_devices(4, run, LATE) == ["all_reduce"] * 4


def test_a_device_that_never_begins_is_named_by_who_waits() -> None:
    ended = threading.Event()

    def stalls(device: int) -> bytes:
        name, attributes = attributes_of(0)
        if device == 2:
            ended.wait(LATE)
        return BEGIN[name](brought(device, 0), attributes)().tobytes()

    with pytest.raises(DeviceError, match="device 2 did not come to all_reduce") as failed:
        run_on_devices(4, stalls, 0.2)
    assert failed.value.code == "device-stalled"
    ended.set()


def test_on_gpus_a_launch_between_waits_for_no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of the fake do what they must and no more: exchanges run where their results are wanted."""
    model, x, events = branches(), weight(5, 8), list[str]()
    run, expected = compile_for_fakes(model, CONFIG), np.asarray(whole(model)(x))
    exchange, launch = FakeNccl._results, run.driver.execute
    assert launch is not None

    def noted(what: str, act: Callable[..., object]) -> Callable[..., object]:
        def noting(*given: object) -> object:
            events.append(what)
            return act(*given)

        return noting

    monkeypatch.setattr(FakeNccl, "_results", noted("exchange", exchange))
    monkeypatch.setattr(run.driver, "execute", noted("launch", launch))
    for _ in range(2):
        events.clear()
        assert_close(np.asarray(run.executable(x)), expected, terms=64, magnitude=8.0)
        run.driver.check()
        # All three products of the device that waits, and the first one of the others.
        assert events[:7] == [*["launch"] * 6, "exchange"]
