"""The service behind both protocols: models, what clients may set, who may ask, and how much at a time."""

import hmac
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from onnxc.serving.model_registry import ModelRegistry
from onnxc.serving.serving_errors import ServingError
from onnxc.serving.settings import LogSettings
from onnxc.serving.shared_memory import SharedMemory

__all__ = ["Limit", "Service"]


class Limit:
    """How many may be at a time, counted by any thread; as a context it is one of them."""

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most, self._count = what, most, 0
        self._lock = threading.Lock()

    def acquire(self) -> None:
        """Counts one more; ServingError where there are too many."""
        with self._lock:
            if self._count >= self._most:
                message = f"there are {self._most} {self._what} at a time, no more may be"
                raise ServingError(message, code="server-busy")
            self._count += 1

    def release(self) -> None:
        """Counts one less."""
        with self._lock:
            self._count -= 1

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *problem: object) -> None:
        self.release()


@dataclass(eq=False)
class Service:
    """max_body: bytes of a request. max_requests: that are worked on or wait at a time, over all models.

    max_streams: of gRPC, and of tokens, at a time. Bodies that are coming, and those of requests that are worked on,
    hold no more memory together than max_requests of the largest.
    """

    registry: ModelRegistry
    token: str = ""
    max_body: int = 64 << 20
    max_requests: int = 128
    max_streams: int = 32
    memory: SharedMemory = field(default_factory=SharedMemory)
    logs: LogSettings = field(default_factory=LogSettings)
    ready: threading.Event = field(default_factory=threading.Event)
    _held_bytes: int = 0

    def __post_init__(self) -> None:
        self.requests, self.streams = Limit("requests", self.max_requests), Limit("streams", self.max_streams)

    def expect_token(self, authorization: str) -> None:
        """ServingError unless the header has the server's token, if it has one."""
        expected = f"Bearer {self.token}".encode()
        if self.token and not hmac.compare_digest(authorization.encode(errors="replace"), expected):
            raise ServingError("the request has no valid bearer token", code="wrong-token")

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Within it, a function that is told of bytes of a body as they come: ServingError where there is no room."""
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if self._held_bytes + size > self.max_requests * self.max_body:
                raise ServingError("bodies that are coming take the memory that they may", code="server-busy")
            held += size
            self._held_bytes += size

        try:
            yield hold
        finally:
            self._held_bytes -= held
