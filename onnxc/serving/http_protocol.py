"""A connection of HTTP: that of uvicorn, with an end to headers that do not, and errors in the protocol's form."""

import asyncio
import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEADER_SECONDS", "HttpProtocol"]

HEADER_SECONDS = 60.0
"""For the headers of a request to come, from its first byte; of the first one of a connection, from its beginning."""


class HttpProtocol(HttpToolsProtocol):
    """One connection; a client that does not end its headers in time is let go."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._waiting is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._end_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """As `send_400_response` of uvicorn, for bytes that are no request."""
        self._refuse(400, "Bad Request", "malformed-request", "this is no request of HTTP/1.1")

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _end_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        message = f"the headers did not come within {HEADER_SECONDS:.0f} s"
        self._refuse(408, "Request Timeout", "slow-headers", message)

    def _refuse(self, status: int, reason: str, code: str, message: str) -> None:
        if self.transport.is_closing():
            return
        body = json.dumps({"error": f"error[{code}]: {message}"}).encode()
        head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()
