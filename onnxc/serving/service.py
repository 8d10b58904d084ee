"""The service behind both protocols: models, what clients may set, who may ask, and how much at a time."""

import hmac
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from onnxc.serving.model_registry import ModelRegistry
from onnxc.serving.serving_errors import ServingError
from onnxc.serving.settings import LogSettings
from onnxc.serving.shared_memory import SharedMemory

__all__ = ["Service"]


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
    _counts: dict[str, int] = field(default_factory=lambda: {"requests": 0, "streams": 0})

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

    def admitted(self) -> AbstractContextManager[None]:
        """A request within this is one of those at a time; ServingError when there are too many."""
        return self._counted("requests", self.max_requests)

    def streaming(self) -> AbstractContextManager[None]:
        """As `admitted`, for a stream."""
        return self._counted("streams", self.max_streams)

    @contextmanager
    def _counted(self, what: str, limit: int) -> Iterator[None]:
        # Only the event loop counts, so no lock is needed.
        if self._counts[what] >= limit:
            raise ServingError(f"there are {limit} {what} at a time, no more may be", code="server-busy")
        self._counts[what] += 1
        try:
            yield
        finally:
            self._counts[what] -= 1
