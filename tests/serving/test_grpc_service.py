"""A request for inference by gRPC whose client goes: it leaves the queue, or is computed, and counts no more then."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from onnxc.serving import grpc_service
from onnxc.serving.grpc_service import _ModelInfer
from onnxc.serving.model_registry import ModelRegistry, ServingLimits
from onnxc.serving.proto.inference_pb2 import ModelInferRequest
from onnxc.serving.repository import Repository
from onnxc.serving.service import Service
from onnxc.serving.serving_errors import ServingError

DATA = ModelInferRequest(model_name="m").SerializeToString()


class Scene:
    """One request, in a queue of which the test decides whether it still waits; `given` is how its call ended."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, waits: bool) -> None:
        self.service = Service(ModelRegistry(Repository(folder), ServingLimits()), max_requests=1)
        monkeypatch.setattr(self.service.registry, "find", lambda name, version: None)
        monkeypatch.setattr(grpc_service, "ask", self._ask)
        self.given: list[grpc.StatusCode] = []
        self.withdrawn = 0
        self.done: Callable[[Exception], None] | None = None
        self.rpc: Any = SimpleNamespace(is_closed=False, asker=None, time_remaining=lambda: 1e18, finish=self._finish)
        self.conversation = _ModelInfer(self.service, ThreadPoolExecutor(1), self.rpc)
        self._waits = waits

    def _ask(self, model: object, request: object, done: Callable[[Exception], None], asker: object) -> object:
        self.done = done
        return self._withdraw

    def _withdraw(self) -> bool:
        self.withdrawn += 1
        return self._waits

    def _finish(self, data: bytes | None = None, code: grpc.StatusCode = grpc.StatusCode.OK, details: str = "") -> None:
        self.given.append(code)

    def is_counted(self) -> bool:
        try:
            with self.service.requests:
                return False
        except ServingError:
            return True


def test_who_goes_while_waiting_leaves_and_counts_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, monkeypatch, waits=True)
    scene.conversation.on_message(DATA)
    assert scene.is_counted()
    scene.conversation.on_closed()
    assert not scene.is_counted()
    assert scene.given == []


def test_who_goes_during_the_call_counts_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, monkeypatch, waits=False)
    scene.conversation.on_message(DATA)
    scene.conversation.on_closed()
    assert scene.is_counted()
    assert scene.done is not None
    scene.done(ServingError("late", code="deadline-exceeded"))
    assert not scene.is_counted()
    assert scene.given == [grpc.StatusCode.DEADLINE_EXCEEDED]


def test_who_has_gone_before_the_request_is_in_the_queue_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event of the close came while another thread read the request."""
    scene = Scene(tmp_path, monkeypatch, waits=True)
    scene.conversation.on_closed()
    scene.rpc.is_closed = True
    scene.conversation.on_message(DATA)
    assert scene.withdrawn == 1
    assert not scene.is_counted()


def test_a_call_without_a_request_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, monkeypatch, waits=True)
    scene.conversation.on_message(None)
    assert scene.given == [grpc.StatusCode.UNIMPLEMENTED]
