"""Exchanges of ranks in any order of events: the results of threads, bit for bit, or the failure, and never neither."""

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.host.collectives import PARTS
from onnxc.runtime.ranks.exchanges import BLOCKWISE_BYTES, RankExchanges, Swap
from onnxc.runtime.ranks.health import Failure, Health, RankFailed, failure_of
from onnxc.runtime.ranks.messages import Stamp, pack, unpack

RANKS = 4
Bytes = npt.NDArray[np.uint8]


@dataclass
class Network:
    """What is on its way from each rank to each; some of it is delivered when somebody asks, by chance."""

    chance: random.Random
    queues: dict[tuple[int, int], deque[Bytes]] = field(default_factory=dict)

    def link(self, rank: int) -> "NetworkLink":
        return NetworkLink(self, rank)


@dataclass
class NetworkLink:
    """The part of a network that a rank sees."""

    network: Network
    rank: int

    def send(self, rank: int, data: Bytes) -> Callable[[], bool]:
        self.network.queues.setdefault((self.rank, rank), deque()).append(data)
        looks = iter(range(self.network.chance.randrange(3)))
        return lambda: next(looks, None) is None

    def receive(self, rank: int) -> Bytes | None:
        queue = self.network.queues.get((rank, self.rank))
        return queue.popleft() if queue and self.network.chance.random() < 0.5 else None


def exchanges_of(network: Network, rank: int, health: Health, seconds: float = 60.0) -> RankExchanges:
    return RankExchanges(rank, network.link(rank), seconds, health.failure)


def healthy(rank: int) -> Health:
    return Health({other: f"device {other}" for other in range(RANKS) if other != rank}, 5.0, 0.0)


# Calls in any order of steps, of which one rank gives one up

CALLS, FAILING = 3, 2
GROUPS = ((0, 1, 2, 3), (0, 2), (1, 3), (0, 1, 2, 3))


def value(call: int, round: int, rank: int) -> np.ndarray:
    return np.array([100 * call + 10 * round + rank])


@dataclass
class Actor:
    """A rank that makes three calls of four exchanges; in the second one it may fail before a round."""

    rank: int
    exchanges: RankExchanges
    health: Health
    tell: Callable[[Failure], None]
    fails_before: int | None
    outcomes: list[list[list[int]] | str] = field(default_factory=list)

    def steps(self) -> Iterator[None]:
        """Each step looks once at what has come."""
        for call in range(1, CALLS + 1):
            self.health.begin(self.exchanges.begin())
            got: list[list[int]] = []
            for round, group in enumerate(group for group in GROUPS if self.rank in group):
                if call == FAILING and round == self.fails_before:
                    failure = failure_of(call, InputError(f"device {self.rank} is wrong", code="sizes-disagree"))
                    self.tell(failure)
                    self.outcomes.append(failure.text)
                    break
                swap = self.exchanges.started(group, "test", [value(call, round, self.rank)] * len(group))
                failed = yield from self.await_swap(swap, call)
                if failed is not None:
                    self.outcomes.append(failed.text)
                    break
                got.append([int(part[0]) for part in swap.received()])
            else:
                self.outcomes.append(got)

    def await_swap(self, swap: Swap, call: int) -> "Iterator[None]":
        while not swap.poll():
            failure = self.health.failure(call, swap.missing())
            if failure is not None:
                return failure
            yield
        return None


def run_in_any_order(seed: int, failing: int | None) -> list[Actor]:
    """The ranks behind three calls, their steps and what they tell each other in an order by chance."""
    chance = random.Random(seed)
    network = Network(chance)
    told: list[tuple[int, Failure, int]] = []
    actors: list[Actor] = []

    def make(rank: int) -> Actor:
        health = healthy(rank)

        def tell(failure: Failure) -> None:
            told.extend((rank, failure, other) for other in range(RANKS) if other != rank)

        fails_before = chance.randrange(3) if rank == failing else None
        return Actor(rank, exchanges_of(network, rank, health), health, tell, fails_before)

    actors = [make(rank) for rank in range(RANKS)]
    running = {actor.rank: actor.steps() for actor in actors}
    for _ in range(100_000):
        if not running:
            return actors
        if told and chance.random() < 0.3:
            source, failure, rank = told.pop(chance.randrange(len(told)))
            actors[rank].health.receive(source, failure.line(), 0.0)
            continue
        rank = chance.choice(list(running))
        try:
            next(running[rank])
        except StopIteration:
            del running[rank]
    raise AssertionError(f"seed {seed}: ranks {sorted(running)} wait for ever")


@pytest.mark.parametrize("failing", [None, 0, 1, 3])
def test_all_calls_end_in_any_order_of_events(failing: int | None) -> None:
    for seed in range(25):
        for actor in run_in_any_order(seed, failing):
            for call, outcome in enumerate(actor.outcomes, 1):
                mine = [group for group in GROUPS if actor.rank in group]
                whole = [[int(value(call, round, r)[0]) for r in group] for round, group in enumerate(mine)]
                allowed = [whole] if failing is None or call != FAILING else [
                    whole, f"error[sizes-disagree]: device {failing} is wrong"
                ]  # fmt: skip
                assert outcome in allowed, (seed, actor.rank, call)
            assert len(actor.outcomes) == CALLS


# Results


def in_lockstep(
    network: Network, name: str, operands: Sequence[np.ndarray], attributes: Mapping[str, object]
) -> list[np.ndarray]:
    """The results of all ranks, whose threads are one: each sends, then each joins."""
    group = tuple(range(len(operands)))
    swaps = []
    for rank, operand in enumerate(operands):
        exchanges = RankExchanges(rank, network.link(rank), 60.0, lambda call, awaited: None)
        swaps.append(exchanges.started(group, name, PARTS[name].split(operand, len(group), attributes)))
    waiting = list(swaps)
    while waiting:
        waiting = [swap for swap in waiting if not swap.poll()]
    return [PARTS[name].join(swap.received(), attributes) for swap in swaps]


COLLECTIVES = {
    "all_reduce": {"kind": "sum"},
    "all_gather": {"axis": 1},
    "reduce_scatter": {"kind": "sum", "axis": 1},
    "all_to_all": {"split_axis": 1, "concat_axis": 0},
}


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("count", [2, 4, 9])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8"])
def test_messages_give_the_bits_of_the_meaning(name: str, count: int, dtype: str) -> None:
    random_numbers = np.random.default_rng(7)
    operands = [(random_numbers.normal(size=(1, count)) * 9).astype(dtype) for _ in range(count)]
    expected = MEANINGS[name](operands, COLLECTIVES[name])
    made = in_lockstep(Network(random.Random(1)), name, operands, COLLECTIVES[name])
    assert [x.tobytes() for x in made] == [x.tobytes() for x in expected]
    assert [x.shape for x in made] == [x.shape for x in expected]


def test_large_sums_go_in_blocks_and_have_the_same_bits() -> None:
    size = BLOCKWISE_BYTES // 8 + 5
    operands = [np.random.default_rng(rank).normal(size=(size,)) for rank in range(2)]
    expected = MEANINGS["all_reduce"](operands, {"kind": "sum"})
    network, results = Network(random.Random(2)), {}

    def other_rank_is_run_meanwhile(call: int, awaited: Sequence[int]) -> None:
        """Rank 1 answers in the pauses of rank 0."""
        for _ in range(3):
            next(answers, None)

    def answered() -> Iterator[None]:
        exchanges = RankExchanges(1, network.link(1), 60.0, lambda call, awaited: None)
        blocks = np.array_split(operands[1], 2)
        first = exchanges.started((0, 1), "all_reduce", blocks)
        while not first.poll():
            yield
        block = PARTS["all_reduce"].join(first.received(), {"kind": "sum"})
        second = exchanges.started((0, 1), "all_reduce", [block] * 2)
        while not second.poll():
            yield
        results[1] = np.concatenate(second.received())

    answers = answered()
    exchanges = RankExchanges(0, network.link(0), 60.0, other_rank_is_run_meanwhile)
    attributes = {"kind": "sum", "groups": ((0, 1),)}
    made = exchanges.bring(0, "all_reduce", operands[0], attributes, MEANINGS["all_reduce"])()
    sent = [sum(len(data) for data in queue) for queue in network.queues.values()]
    assert made.tobytes() == expected[0].tobytes()
    assert sent == [0, 0]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.array(3, np.int64),
        np.zeros((0, 4), bool),
        np.array([1.5, -2], ml_dtypes.bfloat16),
        np.array([1, -2], ml_dtypes.int4),
        np.array([["a", "ü"]], object),
        np.array([1 + 2j], np.complex64),
    ],
    ids=str,
)
def test_messages_carry_arrays_of_any_type(array: np.ndarray) -> None:
    made = unpack(pack(Stamp(1, 2, "all_gather of 0, 1"), array))
    assert made.stamp == Stamp(1, 2, "all_gather of 0, 1")
    assert (made.array.dtype, made.array.shape) == (array.dtype, array.shape)
    assert made.array.tolist() == array.tolist()


@pytest.mark.parametrize("data", [b"", b"\x05\0\0\0[1,2]", b"\xff\xff\xff\xff", b'\x0f\0\0\0[1,2,"x","f4",3]'])
def test_a_message_that_is_none_is_an_error(data: bytes) -> None:
    with pytest.raises(DeviceError, match="malformed"):
        unpack(np.frombuffer(data, np.uint8))


def test_ranks_at_different_exchanges_are_an_error() -> None:
    network = Network(random.Random(3))
    here, there = (exchanges_of(network, rank, healthy(rank)) for rank in (0, 1))
    there.started((0, 1), "all_gather", [np.zeros(1)] * 2)
    with pytest.raises(DeviceError, match="device 0 comes to all_reduce of 0, 1, device 1 to all_gather") as failed:
        here.swap((0, 1), "all_reduce", [np.zeros(1)] * 2)
    assert failed.value.code == "collectives-differ"


def test_a_rank_that_lives_and_does_not_come_is_named() -> None:
    exchanges = exchanges_of(Network(random.Random(4)), 0, healthy(0), seconds=0.05)
    with pytest.raises(DeviceError, match="device 2, 3 did not come to all_reduce within") as failed:
        exchanges.swap((0, 2, 3), "all_reduce", [np.zeros(1)] * 3)
    assert failed.value.code == "device-stalled"


# Health

OTHER = Failure(3, "InputError", "sizes-disagree", "error[sizes-disagree]: device 1 is wrong")


def test_a_death_ends_all_calls() -> None:
    health = healthy(0)
    health.close(2)
    for call in (1, 9):
        failure = health.failure(call)
        assert failure is not None
        assert (failure.code, failure.text) == ("device-lost", "error[device-lost]: device 2 has died")
    assert health.has_lost()


def test_who_has_failed_and_then_ends_has_said_why() -> None:
    health = healthy(0)
    health.receive(1, OTHER.line(), 1.0)
    health.close(1)
    failure = health.failure(8)
    assert failure is not None
    assert isinstance(failure.error(), InputError)
    assert str(failure.error()) == OTHER.text


def test_a_failure_is_one_of_its_call() -> None:
    health = healthy(0)
    health.receive(1, OTHER.line(), 1.0)
    assert [health.failure(call) for call in (2, 3, 4)] == [None, OTHER, None]
    health.begin(4)
    assert health.failure(3) is None
    health.close(1)
    failure = health.failure(4)
    assert failure is not None
    assert failure.text == "error[device-lost]: device 1 has died"


def test_who_has_said_farewell_is_missed_in_later_calls_only() -> None:
    health = healthy(0)
    health.receive(1, b"bye 4", 1.0)
    health.close(1)
    assert health.failure(4, (1,)) is None
    assert health.failure(5, (2,)) is None
    failure = health.failure(5, (1, 2))
    assert failure is not None
    assert "device 1 has ended" in failure.text
    assert not health.has_lost()


def test_silence_is_a_stall_for_who_waits() -> None:
    health = healthy(0)
    health.receive(2, b"", 1.0)
    health.judge(5.5, late=False)
    assert health.failure(1, (2,)) is None
    failure = health.failure(1, (1, 2))
    assert failure is not None
    assert (failure.code, failure.text) == (
        "device-stalled",
        "error[device-stalled]: device 1 has not shown any life for 5 s",
    )
    health.receive(1, b"", 6.0)
    assert health.failure(1, (1,)) is None


def test_who_did_not_listen_blames_nobody() -> None:
    health = healthy(0)
    health.judge(100.0, late=True)
    assert health.failure(1, (1, 2, 3)) is None


@pytest.mark.parametrize("line", [b"hello", b"[]", b"bye x", b'{"call": 1, "kind": "int", "code": "a", "text": "b"}'])
def test_what_is_no_message_is_a_failure(line: bytes) -> None:
    health = healthy(0)
    health.receive(1, line, 1.0)
    failure = health.failure(1)
    assert failure is not None
    assert failure.text == "error[device-lost]: a rank sends what is no message"


def test_a_failure_that_is_told_keeps_its_class() -> None:
    error = RankFailed(OTHER)
    assert (error.code, str(error)) == (OTHER.code, OTHER.text)
    assert failure_of(3, OTHER.error()) == OTHER


# Transfers from one rank to another


def test_transfers_are_read_in_another_order_than_they_are_sent() -> None:
    network = Network(random.Random(3))
    source, target = (exchanges_of(network, rank, healthy(rank)) for rank in (0, 1))
    assert source.begin() == target.begin()
    source.send(0, 1, "left over", np.array([7]))
    assert source.begin() == target.begin()
    for key in range(3):
        source.send(0, 1, ("value", key), np.array([key]))
    source.started((0, 1), "gather", [np.array([10])] * 2)
    source.send(0, 1, ("value", 3), np.array(["a", "ü"], object))
    assert target.swap((0, 1), "gather", [np.array([11])] * 2)[0].tolist() == [10]
    received = [np.asarray(target.receive(1, 0, ("value", key))).tolist() for key in (2, 3, 0, 1)]
    assert received == [[2], ["a", "ü"], [0], [1]]


def test_who_does_not_send_in_time_is_named() -> None:
    target = exchanges_of(Network(random.Random(0)), 1, healthy(1), seconds=0.01)
    target.begin()
    with pytest.raises(DeviceError, match=r"device 0 did not send what device 1 waits for within 0.01 s") as refused:
        target.receive(1, 0, "value")
    assert refused.value.code == "device-stalled"
