"""Connections between ranks: all to all, none to strangers; and what comes of an MPI that is not there."""

import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.ranks.connections import connect_all, listener
from onnxc.runtime.ranks.health import Failure, Health
from onnxc.runtime.ranks.mpi_link import open_link
from onnxc.runtime.ranks.watch import Watch

RANKS = 3


def connected(strangers: int = 0) -> list[dict[int, socket.socket]]:
    """The connections of each rank; strangers call the first one before its own do."""
    listeners = [listener(RANKS, is_local=True) for _ in range(RANKS)]
    addresses = [address for _, address in listeners]
    for _ in range(strangers):
        with socket.create_connection((addresses[0].host, addresses[0].port)) as stranger:
            stranger.sendall(b"x" * 20)
    with ThreadPoolExecutor(RANKS) as pool:
        calls = [
            pool.submit(connect_all, rank, made, lambda own: addresses, own)
            for rank, (made, own) in enumerate(listeners)
        ]
        return [call.result(60) for call in calls]


@pytest.mark.parametrize("strangers", [0, 2])
def test_every_two_ranks_are_connected(strangers: int) -> None:
    all_sockets = connected(strangers)
    for rank, sockets in enumerate(all_sockets):
        assert sorted(sockets) == [other for other in range(RANKS) if other != rank]
        for other, made in sockets.items():
            made.sendall(bytes([rank, other]))
    for rank, sockets in enumerate(all_sockets):
        assert {other: made.recv(2) for other, made in sockets.items()} == {
            other: bytes([other, rank]) for other in sockets
        }
        for made in sockets.values():
            made.close()


def test_a_rank_that_nobody_listens_for_is_unconnected() -> None:
    gone, address = listener(2, is_local=True)
    gone.close()
    mine, own = listener(2, is_local=True)
    with pytest.raises(DeviceError, match="rank 1 has no connection to all others") as failed:
        connect_all(1, mine, lambda own: [address, own], own)
    assert failed.value.code == "ranks-unconnected"


def test_an_address_is_of_this_machine_where_all_ranks_are() -> None:
    first, address = listener(2, is_local=True)
    second, other = listener(2, is_local=True)
    with first, second:
        assert first.getsockname()[0] == address.host == "127.0.0.1"
    assert len(bytes.fromhex(address.secret)) == 16
    assert address.secret != other.secret


def test_a_watch_hears_failures_farewells_and_ends() -> None:
    pairs = {rank: socket.socketpair() for rank in (1, 2, 3)}
    health = Health({rank: f"device {rank}" for rank in pairs}, 60.0, time.monotonic())
    watch = Watch({rank: here for rank, (here, _) in pairs.items()}, health, lambda: None)
    failure = Failure(1, "InputError", "sizes-disagree", "error[sizes-disagree]: wrong")
    line = failure.line() + b"\n"
    # A line that comes in two parts is one.
    pairs[1][1].sendall(line[:9])
    pairs[1][1].sendall(line[9:])
    pairs[2][1].sendall(b"bye 7\n")
    for rank in (2, 3):
        pairs[rank][1].close()
    assert not watch.part(7, 0.5)
    assert health.failure(1) == failure
    died = health.failure(9)
    assert died is not None
    assert died.text == "error[device-lost]: device 3 has died"
    assert health.has_lost()
    assert b"bye 7\n" in pairs[1][1].recv(1 << 16)
    pairs[1][1].close()


def test_two_watches_part_when_both_say_farewell() -> None:
    here, there = socket.socketpair()
    watches = [
        Watch({peer: made}, Health({peer: f"device {peer}"}, 60.0, time.monotonic()), lambda: None)
        for peer, made in ((1, here), (0, there))
    ]
    parted: list[bool] = []
    thread = threading.Thread(target=lambda: parted.append(watches[0].part(1, 60.0)))
    thread.start()
    parted.append(watches[1].part(1, 60.0))
    thread.join()
    assert parted == [True, True]
    here.shutdown(socket.SHUT_RDWR)


def test_an_mpi_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(DeviceError, match=r"needs mpi4py and an MPI library: pip install onnxc\[mpi\]") as failed:
        open_link()
    assert failed.value.code == "mpi-missing"
