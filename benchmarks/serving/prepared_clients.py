"""Many gRPC clients in one thread, whose requests are bytes that were prepared.

They speak what HTTP/2 such a client needs, over a connection each. A request takes them 25 to 45 us of the processor;
the clients of grpcio (`clients.py`) take 90 to 180, half as much as the server beside them or more.
"""

import gc
import random
import selectors
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from benchmarks.serving.clients import METHOD, Asked, Outcome
from onnxc.serving.proto.inference_pb2 import ModelInferResponse

__all__ = ["run_prepared_clients"]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_OK, _INVALID_ARGUMENT = b"0", b"3"
_END_STREAM = _ACK = 1
_END_HEADERS = 4
_HEAD = struct.Struct(">BHBBI")
_HEADER_TABLE_SIZE, _INITIAL_WINDOW = 1, 4
_FIRST_WINDOW, _MOST_WINDOW = 65535, 2**31 - 1
_MOST_BYTES = 1 << 14
"""Of a message: what fits into one frame, and with which nobody need ask what the server is ready to take."""


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return _HEAD.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def _text(value: str) -> bytes:
    return bytes((len(value),)) + value.encode()


def _header(name: str, value: str) -> bytes:
    """A header that is not to be remembered (RFC 7541, 6.2.2)."""
    return b"\0" + _text(name) + _text(value)


_HEADER_BLOCK = b"".join(
    _header(name, value)
    for name, value in (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", METHOD),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", "60S"),
    )
)


class _Connection:
    """A connection with one call at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Without a table every header comes in full, so that those of one call can be read without those before.
        settings = struct.pack(">HIHI", _HEADER_TABLE_SIZE, 0, _INITIAL_WINDOW, _MOST_WINDOW)
        head = _PREFACE + _frame(_SETTINGS, 0, 0, settings)
        self.socket.sendall(head + self._more_window(_MOST_WINDOW - _FIRST_WINDOW))
        self._stream = -1
        self._unread = b""
        self._message, self._status = b"", b""
        self._taken = 0

    @staticmethod
    def _more_window(size: int) -> bytes:
        return _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", size))

    def ask(self, message: bytes) -> None:
        """Begins a call with a message that has its length before it."""
        self._stream += 2
        self._message, self._status = b"", b""
        head = _frame(_HEADERS, _END_HEADERS, self._stream, _HEADER_BLOCK)
        self.socket.sendall(head + _frame(_DATA, _END_STREAM, self._stream, message))

    def read(self) -> tuple[bytes, bytes] | None:
        """Takes what has come: the message of the answer and the status, as text, when the call has ended."""
        ended = False
        for kind, flags, payload in self._frames():
            if kind == _DATA:
                self._message += payload
            elif kind == _HEADERS:
                self._status = _status(payload)
            elif kind == _PING and not flags & _ACK:
                self.socket.sendall(_frame(_PING, _ACK, 0, payload))
            elif kind == _SETTINGS and not flags & _ACK:
                self.socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))
            elif kind == _GOAWAY:
                raise ConnectionError(f"the server ends the connection: {payload!r}")
            ended |= kind == _RST_STREAM or (kind in (_DATA, _HEADERS) and bool(flags & _END_STREAM))
        return (self._message[_PREFIX:], self._status) if ended else None

    def _frames(self) -> Iterator[tuple[int, int, bytes]]:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self._taken += len(data)
        if self._taken > _MOST_WINDOW // 2:
            self.socket.sendall(self._more_window(self._taken))
            self._taken = 0
        data = self._unread + data
        start = 0
        while len(data) - start >= _HEAD.size:
            high, low, kind, flags, _ = _HEAD.unpack_from(data, start)
            stop = start + _HEAD.size + (high << 16 | low)
            if stop > len(data):
                break
            yield kind, flags, data[start + _HEAD.size : stop]
            start = stop
        self._unread = data[start:]


_PREFIX = 5
"""Of a message of gRPC: whether it is compressed, and its length."""


def _status(block: bytes) -> bytes:
    """How the call ended, by a block of headers that are not to be remembered; empty where it does not say."""
    value = block.partition(b"grpc-status")[2]
    return value[1 : 1 + value[0]] if value else b""


def run_prepared_clients(
    address: str,
    clients: int,
    seconds: float,
    asked: Sequence[Asked],
    rate: float | None = None,
    pause_s: float = 0.0,
) -> Outcome:
    """What becomes of requests that are drawn from `asked`, each of a client that has none on its way.

    Without a rate a client asks again when its answer is there, after a pause of `pause_s` in the mean. With one,
    requests come at random, so many a second, whatever becomes of those before. The time of a request is counted from
    when it was due, also where all clients wait for an answer then.
    """
    rng = random.Random(0)
    prepared = [(_with_length(one.request.SerializeToString()), one) for one in asked]
    outcome = Outcome()
    # Python's collector would go through all that is prepared now and then, and the clients would wait for 20 to 30 ms.
    gc.freeze()
    # Of the selectors this one can wait for less than a millisecond.
    with selectors.SelectSelector() as selector:
        idle = [_Connection(address) for _ in range(clients)]
        for connection in idle:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        begun: dict[_Connection, tuple[float, Asked]] = {}
        started = time.perf_counter()
        last = started + seconds

        def after(now: float) -> float:
            return now + (rng.expovariate(1 / pause_s) if pause_s else 0.0)

        due = [after(started) for _ in range(clients if rate is None else 1)]
        heapify(due)
        while True:
            now = time.perf_counter()
            while idle and due and due[0] <= min(now, last):
                connection = idle.pop()
                message, one = rng.choice(prepared)
                begun[connection] = due[0], one
                connection.ask(message)
                if rate is None:
                    heappop(due)
                else:
                    heapreplace(due, due[0] + rng.expovariate(rate))
            if not begun and due[0] > last:
                break
            wait_s = max(due[0] - time.perf_counter(), 0.0) if idle and due else None
            for key, _ in selector.select(wait_s):
                answer = key.data.read()
                if answer is not None:
                    idle.append(key.data)
                    _take(outcome, *begun.pop(key.data), *answer)
                    if rate is None:
                        heappush(due, after(time.perf_counter()))
        outcome.seconds = time.perf_counter() - started
        for connection in idle:
            connection.socket.close()
    gc.unfreeze()
    return outcome


def _with_length(message: bytes) -> bytes:
    if len(message) + _PREFIX > _MOST_BYTES:
        raise ValueError(f"a request has {len(message)} bytes, these clients send {_MOST_BYTES - _PREFIX} at most")
    return struct.pack(">BI", 0, len(message)) + message


def _take(outcome: Outcome, due: float, one: Asked, message: bytes, status: bytes) -> None:
    """Notes an answer, or that there is none."""
    took = time.perf_counter() - due
    if one.is_malformed and status == _INVALID_ARGUMENT:
        outcome.refused += 1
    elif status != _OK:
        outcome.lost += 1
    elif one.is_malformed or not one.is_answered(ModelInferResponse.FromString(message)):
        outcome.mixed += 1
    else:
        outcome.latencies.append(took)
