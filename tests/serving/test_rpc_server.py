"""The server of gRPC under a client of grpcio: calls, streams, their ends, and what ends neither."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import NoReturn

import grpc
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]

from onnxc.serving import rpc_server
from onnxc.serving.rpc_server import Conversation, Handler, Rpc, RpcServer

SECONDS = 20

Unary = Callable[[bytes], bytes]


class Answering:
    """A conversation of which each message is given to `answer`; what it was told is noted."""

    def __init__(self, answer: Callable[[bytes | None], None]) -> None:
        self._answer = answer
        self.closed = threading.Event()

    def on_message(self, data: bytes | None) -> None:
        self._answer(data)

    def on_closed(self) -> None:
        self.closed.set()


def echoing(rpc: Rpc) -> Conversation:
    return Answering(rpc.finish)


def echoing_all(rpc: Rpc) -> Conversation:
    return Answering(lambda data: rpc.finish() if data is None else rpc.send(data))


@contextmanager
def serving(
    handlers: dict[str, Handler],
    most: int = 9,
    options: Sequence[tuple[str, int]] = (),
    prepare: Callable[[RpcServer], None] = lambda server: None,
) -> Iterator[tuple[RpcServer, grpc.Channel]]:
    server = RpcServer({f"/s/{name}": handler for name, handler in handlers.items()}, options, most)
    prepare(server)
    port = server.add_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield server, channel
    server.stop(SECONDS)


def unary(channel: grpc.Channel, name: str) -> Unary:
    method = channel.unary_unary(f"/s/{name}", None, None)
    return lambda data: method(data, timeout=SECONDS)


def code_of(call: Callable[[], object]) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as problem:
        call()
    code: grpc.StatusCode = problem.value.code()
    return code


@pytest.mark.parametrize("processors", [1, 2])
def test_the_thread_looks_for_more_before_it_sleeps(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_server, "available_threads", lambda: processors)
    monkeypatch.setattr(rpc_server, "_AWAKE_S", 0.02)
    waits: list[float | None] = []
    asleep = threading.Event()

    def start(server: RpcServer) -> None:
        poll = server._poll

        def noted(deadline: float | None) -> object:
            waits.append(deadline)
            if deadline is None and len(waits) > 1:
                asleep.set()
            return poll(deadline)

        server._poll = noted

    with serving({"M": echoing}, prepare=start) as (_, channel):
        assert unary(channel, "M")(b"abc") == b"abc"
        assert asleep.wait(SECONDS)
        assert unary(channel, "M")(b"again") == b"again"
    assert waits[0] is None
    assert (0.0 in waits) == (processors > 1)


def test_a_call_is_answered_with_its_metadata_and_knows_its_deadline() -> None:
    seen: list[tuple[str, float]] = []

    def handler(rpc: Rpc) -> Conversation:
        told = {key: value for key, value in rpc.metadata if isinstance(value, str)}
        seen.append((told["asked"], rpc.time_remaining()))
        rpc.trailing = (("told", "yes"),)
        return echoing(rpc)

    with serving({"M": handler}) as (_, channel):
        method = channel.unary_unary("/s/M", None, None)
        answer, call = method.with_call(b"abc", timeout=SECONDS, metadata=(("asked", "this"),))
        assert answer == b"abc"
        assert ("told", "yes") in [tuple(pair) for pair in call.trailing_metadata()]
        assert method(b"", metadata=(("asked", "again"),)) == b""
    assert [asked for asked, _ in seen] == ["this", "again"]
    assert 0 < seen[0][1] < 2 * SECONDS
    assert seen[1][1] > 1e9


def test_an_error_has_its_status_and_its_words() -> None:
    def handler(rpc: Rpc) -> None:
        rpc.finish(code=grpc.StatusCode.NOT_FOUND, details="no ä")

    with serving({"M": handler}) as (_, channel), pytest.raises(grpc.RpcError) as problem:
        unary(channel, "M")(b"")
    assert (problem.value.code(), problem.value.details()) == (grpc.StatusCode.NOT_FOUND, "no ä")


def test_a_method_that_there_is_not_is_told() -> None:
    with serving({"M": echoing}) as (_, channel):
        assert code_of(lambda: unary(channel, "N")(b"")) == grpc.StatusCode.UNIMPLEMENTED
        assert unary(channel, "M")(b"a") == b"a"


def test_a_message_that_is_too_large_is_told() -> None:
    options = (("grpc.max_receive_message_length", 9),)
    with serving({"M": echoing, "S": echoing_all}, options=options) as (_, channel):
        assert code_of(lambda: unary(channel, "M")(bytes(10))) == grpc.StatusCode.RESOURCE_EXHAUSTED
        stream = channel.stream_stream("/s/S", None, None)
        answers = stream(iter([bytes(10)]), timeout=SECONDS)
        assert code_of(lambda: list(answers)) == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert unary(channel, "M")(bytes(9)) == bytes(9)


def test_messages_of_a_stream_are_answered_in_order() -> None:
    with serving({"M": echoing_all}) as (_, channel):
        method = channel.stream_stream("/s/M", None, None)
        sent = [str(i).encode() for i in range(50)]
        assert list(method(iter(sent), timeout=SECONDS)) == sent
        assert list(method(iter([]), timeout=SECONDS)) == []


def test_another_thread_may_answer_while_others_are_answered() -> None:
    held: list[Rpc] = []
    came = threading.Event()

    def holding(rpc: Rpc) -> Conversation:
        def hold(data: bytes | None) -> None:
            held.append(rpc)
            came.set()

        return Answering(hold)

    with serving({"held": holding, "M": echoing}) as (_, channel):
        waiting = channel.unary_unary("/s/held", None, None).future(b"", timeout=SECONDS)
        assert came.wait(SECONDS)
        assert unary(channel, "M")(b"a") == b"a"
        held[0].finish(b"late")
        assert waiting.result() == b"late"


def test_more_calls_than_may_be_are_refused_and_room_comes_back() -> None:
    held: list[Rpc] = []
    came = threading.Semaphore(0)

    def holding(rpc: Rpc) -> Conversation:
        held.append(rpc)
        came.release()
        return Answering(lambda data: None)

    with serving({"held": holding, "M": echoing}, most=2) as (_, channel):
        waiting = [channel.unary_unary("/s/held", None, None).future(b"", timeout=SECONDS) for _ in range(2)]
        for _ in waiting:
            assert came.acquire(timeout=SECONDS)
        assert code_of(lambda: unary(channel, "M")(b"")) == grpc.StatusCode.RESOURCE_EXHAUSTED
        for rpc in held:
            rpc.finish(b"")
        assert [answer.result() for answer in waiting] == [b"", b""]
        assert unary(channel, "M")(b"a") == b"a"


@pytest.mark.parametrize("ends_by", ["cancel", "deadline"])
def test_a_client_that_goes_is_told_of_and_an_answer_to_it_harms_nobody(ends_by: str) -> None:
    begun: list[tuple[Rpc, Answering]] = []
    came = threading.Event()

    def holding(rpc: Rpc) -> Conversation:
        conversation = Answering(lambda data: came.set())
        begun.append((rpc, conversation))
        return conversation

    with serving({"held": holding, "M": echoing}) as (_, channel):
        timeout = 0.2 if ends_by == "deadline" else SECONDS
        call = channel.unary_unary("/s/held", None, None).future(b"", timeout=timeout)
        assert came.wait(SECONDS)
        if ends_by == "cancel":
            call.cancel()
        rpc, conversation = begun[0]
        assert conversation.closed.wait(SECONDS)
        assert rpc.is_closed
        rpc.finish(b"too late")
        assert unary(channel, "M")(b"a") == b"a"


def fail(*whatever: object) -> NoReturn:
    raise ZeroDivisionError


@pytest.mark.parametrize("name", ["first", "second"])
def test_a_defect_ends_its_call_and_no_other(name: str) -> None:
    """Where the call begins, and where a message has come."""
    with serving({"first": fail, "second": lambda rpc: Answering(fail), "M": echoing}) as (_, channel):
        assert code_of(lambda: unary(channel, name)(b"")) == grpc.StatusCode.INTERNAL
        assert unary(channel, "M")(b"a") == b"a"


def test_what_is_for_later_is_done_when_nothing_else_has_come() -> None:
    threads: list[str] = []

    def handler(rpc: Rpc) -> Conversation:
        def answer(data: bytes | None) -> None:
            rpc.asker.later(lambda: threads.append(threading.current_thread().name))
            rpc.asker.later(lambda: rpc.finish(data))

        return Answering(answer)

    with serving({"M": handler}) as (_, channel):
        assert [unary(channel, "M")(b"a") for _ in range(3)] == [b"a"] * 3
    assert threads == ["onnxc grpc"] * 3


def test_a_round_ends_when_two_polls_in_turn_give_nothing_and_when_the_server_ends() -> None:
    server = RpcServer({}, (), 9)
    done: list[str] = []

    def event(name: str) -> SimpleNamespace:
        def tag(event: object) -> None:
            done.append(name)
            server._later.append(lambda: done.append(f"later {name}"))

        return SimpleNamespace(completion_type=cygrpc.CompletionType.operation_complete, tag=tag)

    nothing = SimpleNamespace(completion_type=cygrpc.CompletionType.queue_timeout)
    end = SimpleNamespace(completion_type=cygrpc.CompletionType.queue_shutdown, tag=None)
    events = iter([nothing, nothing, event("a"), nothing, event("b"), nothing, nothing, event("c"), end])
    server._poll = lambda timeout_s: next(events)
    server._serve()
    assert done == ["a", "b", "later a", "later b", "c", "later c"]


def test_what_is_watched_is_looked_at_after_each_event_and_sleeps_for_nothing() -> None:
    server = RpcServer({}, (), 9)
    done: list[str] = []
    waits: list[float | None] = []
    looks = iter([False, True])

    def begin(event: object) -> None:
        done.append("begun")
        server._watch(lambda: next(looks), lambda: done.append("ended"))

    def seen(event: object) -> None:
        done.append("seen")

    kind = cygrpc.CompletionType.operation_complete
    nothing = SimpleNamespace(completion_type=cygrpc.CompletionType.queue_timeout)
    end = SimpleNamespace(completion_type=cygrpc.CompletionType.queue_shutdown, tag=None)
    events = iter(
        [SimpleNamespace(completion_type=kind, tag=begin), SimpleNamespace(completion_type=kind, tag=seen), end]
    )

    def poll(timeout_s: float | None) -> object:
        waits.append(timeout_s)
        return next(events, nothing)

    server._poll, server._awake_s = poll, 0.0
    server._serve()
    assert done == ["begun", "seen", "ended"]
    assert waits == [None, 0.0, None]


def test_a_server_that_ends_waits_for_what_is_watched_and_does_what_follows() -> None:
    server = RpcServer({}, (), 9)
    done: list[str] = []
    looks = iter([False, False, True])

    def ended() -> None:
        done.append("ended")
        server._later.append(lambda: done.append("later"))

    server._watch(lambda: next(looks), ended)
    end = SimpleNamespace(completion_type=cygrpc.CompletionType.queue_shutdown, tag=None)
    server._poll = lambda timeout_s: end
    server._serve()
    assert done == ["ended", "later"]


def test_a_server_that_ends_answers_what_is_there_and_cancels_it_after_the_grace() -> None:
    held: list[tuple[Rpc, Answering]] = []
    came = threading.Semaphore(0)

    def holding(rpc: Rpc) -> Conversation:
        conversation = Answering(lambda data: came.release())
        held.append((rpc, conversation))
        return conversation

    with serving({"held": holding}) as (server, channel):
        method = channel.unary_unary("/s/held", None, None)
        answered, cancelled = (method.future(b"", timeout=SECONDS) for _ in range(2))
        for _ in range(2):
            assert came.acquire(timeout=SECONDS)
        ending = threading.Thread(target=server.stop, args=(0.5,))
        ending.start()
        held[0][0].finish(b"a")
        ending.join(SECONDS)
        assert not ending.is_alive()
        # Which of the two is held[0] is by chance.
        assert sorted(call.code().name for call in (answered, cancelled)) == ["OK", "UNAVAILABLE"]


def test_a_port_that_is_taken_is_none() -> None:
    with serving({}) as (_, _channel):
        server = RpcServer({}, (("grpc.so_reuseport", 0),), 1)
        port = server.add_port("127.0.0.1:0")
        assert port
        assert RpcServer({}, (("grpc.so_reuseport", 0),), 1).add_port(f"127.0.0.1:{port}") == 0
