"""The clients of prepared bytes: what becomes of each of their requests is noted, and how many come in a second."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import pytest

from benchmarks.serving.clients import METHOD, Asked
from benchmarks.serving.prepared_clients import run_prepared_clients
from onnxc.serving.proto.inference_pb2 import ModelInferRequest, ModelInferResponse
from onnxc.serving.rpc_server import Conversation, Rpc, RpcServer

ASKED = [
    Asked(ModelInferRequest(id=str(number)), lambda answer, number=number: answer.id == str(number))
    for number in range(5)
]


class Answering:
    """A call whose message `answer` makes the end of."""

    def __init__(self, rpc: Rpc, answer: Callable[[Rpc, str], None]) -> None:
        self._rpc, self._answer = rpc, answer

    def on_message(self, data: bytes | None) -> None:
        assert data is not None
        self._answer(self._rpc, ModelInferRequest.FromString(data).id)

    def on_closed(self) -> None: ...


@contextmanager
def serving(answer: Callable[[Rpc, str], None]) -> Iterator[str]:
    def conversation(rpc: Rpc) -> Conversation:
        return Answering(rpc, answer)

    server = RpcServer({METHOD: conversation}, (), 99)
    port = server.add_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(9)


def echo(rpc: Rpc, told: str) -> None:
    rpc.finish(ModelInferResponse(id=told).SerializeToString())


@pytest.mark.parametrize("clients", [1, 7])
def test_each_answer_is_that_to_its_request(clients: int) -> None:
    with serving(echo) as address:
        outcome = run_prepared_clients(address, clients, 0.2, ASKED)
    assert (outcome.lost, outcome.mixed) == (0, 0)
    assert len(outcome.latencies) >= clients
    assert all(0 < latency < 9 for latency in outcome.latencies)


def test_answers_that_are_wrong_and_those_that_do_not_come_are_counted() -> None:
    def answer(rpc: Rpc, told: str) -> None:
        if told == "3":
            rpc.finish(code=grpc.StatusCode.UNAVAILABLE, details="not now")
        else:
            echo(rpc, "0" if told == "4" else told)

    with serving(answer) as address:
        outcome = run_prepared_clients(address, 2, 0.2, ASKED)
    assert outcome.lost > 0
    assert outcome.mixed > 0
    assert len(outcome.latencies) > 0


@pytest.mark.parametrize(
    ("code", "refused", "lost"),
    [(grpc.StatusCode.INVALID_ARGUMENT, True, False), (grpc.StatusCode.UNAVAILABLE, False, True)],
)
def test_malformed_requests_want_the_error_for_them(code: grpc.StatusCode, refused: bool, lost: bool) -> None:
    def answer(rpc: Rpc, told: str) -> None:
        rpc.finish(code=code, details="no")

    malformed = [Asked(ModelInferRequest(), lambda answer: True, is_malformed=True)]
    with serving(answer) as address:
        outcome = run_prepared_clients(address, 2, 0.2, malformed)
    assert (outcome.refused > 0, outcome.lost > 0, outcome.mixed) == (refused, lost, 0)
    assert not outcome.latencies


def test_an_answer_to_what_is_malformed_is_wrong() -> None:
    malformed = [Asked(ModelInferRequest(), lambda answer: True, is_malformed=True)]
    with serving(echo) as address:
        outcome = run_prepared_clients(address, 2, 0.2, malformed)
    assert outcome.mixed > 0
    assert (outcome.lost, outcome.refused, outcome.latencies) == (0, 0, [])


def test_requests_come_at_the_rate_that_is_asked_for() -> None:
    with serving(echo) as address:
        outcome = run_prepared_clients(address, 4, 0.5, ASKED, rate=400.0)
    assert (outcome.lost, outcome.mixed) == (0, 0)
    assert 100 < len(outcome.latencies) < 400


def test_answers_in_many_pieces_are_put_together() -> None:
    large = "x" * 300_000

    def answer(rpc: Rpc, told: str) -> None:
        rpc.finish(ModelInferResponse(id=told, model_name=large).SerializeToString())

    with serving(answer) as address:
        outcome = run_prepared_clients(address, 3, 0.2, ASKED)
    assert (outcome.lost, outcome.mixed) == (0, 0)
    assert len(outcome.latencies) >= 3


def test_requests_of_several_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="a request has 20004 bytes"):
        run_prepared_clients("127.0.0.1:1", 1, 0.1, [Asked(ModelInferRequest(id="x" * 20_000), lambda answer: True)])


def test_clients_pause_before_they_ask_again() -> None:
    with serving(echo) as address:
        outcome = run_prepared_clients(address, 4, 0.5, ASKED, pause_s=0.02)
    assert (outcome.lost, outcome.mixed) == (0, 0)
    assert 4 <= len(outcome.latencies) < 4 * 0.5 / 0.02 * 2
