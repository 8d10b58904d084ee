"""TCP connections between every two ranks, whose addresses and secrets were exchanged through MPI."""

import hmac
import secrets
import socket
import time
from collections.abc import Callable

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.records import record

__all__ = ["Address", "connect_all", "listener"]

CONNECT_S = 60.0
"""How long all may take. No measurement: processes that got through MPI's own start are there in milliseconds."""

HELLO_S = 5.0
"""How long who has connected may take to say who it is, while others wait to be heard; ranks do so at once."""

_RANK_BYTES = 4


@record
class Address:
    """Where a rank listens, and what who connects has to know."""

    host: str
    port: int
    secret: str


def listener(ranks: int, *, is_local: bool) -> tuple[socket.socket, Address]:
    """A socket that listens, to this machine only where all ranks are on it, and its address."""
    made = socket.create_server(("127.0.0.1" if is_local else "", 0), backlog=ranks)
    made.settimeout(CONNECT_S)
    host = "127.0.0.1" if is_local else socket.gethostname()
    return made, Address(host=host, port=made.getsockname()[1], secret=secrets.token_hex(16))


def connect_all(
    rank: int, listening: socket.socket, gather: Callable[[Address], list[Address]], own: Address
) -> dict[int, socket.socket]:
    """A connection to each other rank: those before are called, those behind call. Raises DeviceError."""
    addresses = gather(own)
    deadline = time.monotonic() + CONNECT_S
    sockets: dict[int, socket.socket] = {}
    try:
        for other, address in enumerate(addresses[:rank]):
            sockets[other] = socket.create_connection((address.host, address.port), CONNECT_S)
            sockets[other].sendall(bytes.fromhex(address.secret) + rank.to_bytes(_RANK_BYTES, "little"))
        while len(sockets) < len(addresses) - 1:
            made, _ = listening.accept()
            caller = _caller(made, bytes.fromhex(own.secret))
            if caller is not None and rank < caller < len(addresses) and caller not in sockets:
                sockets[caller] = made
            elif time.monotonic() > deadline:
                raise TimeoutError("not all ranks connect")
    except OSError as problem:
        message = f"rank {rank} has no connection to all others ({problem}); their hosts must reach each other by TCP"
        raise DeviceError(message, code="ranks-unconnected") from problem
    finally:
        listening.close()
    for made in sockets.values():
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sockets


def _caller(made: socket.socket, secret: bytes) -> int | None:
    """The rank that has connected; None for who does not know the secret."""
    made.settimeout(HELLO_S)
    received = b""
    try:
        while len(received) < len(secret) + _RANK_BYTES:
            data = made.recv(len(secret) + _RANK_BYTES - len(received))
            if not data:
                break
            received += data
    except OSError:
        received = b""
    if hmac.compare_digest(received[: len(secret)], secret) and len(received) == len(secret) + _RANK_BYTES:
        return int.from_bytes(received[len(secret) :], "little")
    made.close()
    return None
