"""A thread that knows within seconds that another rank has died or hangs, whatever this one does.

Every two ranks keep a TCP connection open beside MPI. When a process ends, however it does, the system closes its
connections: a death is seen at once, by all. Every rank sends signs of life; one that is stopped, or on a machine that
is gone, sends none, and is missed. MPI itself can tell neither: its calls wait for ever, unless the launcher ends all.

The launcher does so, by default: mpirun sends SIGTERM to all ranks as soon as one dies, and SIGKILL after 0.3 s
(measured with Open MPI 5.0). So an error must be out by then: whoever waits in an exchange raises it in a millisecond;
for a rank that computes, this thread prints it, and ends the process where that goes on. SIGTERM is answered when the
reason is known (`termination.py`).
"""

import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping

from onnxc.runtime.ranks.health import HEARTBEAT, Failure, Health, farewell

__all__ = ["SILENCE_S", "Watch"]

HEARTBEAT_S = 0.5
"""Between two signs of life: ten must be lost for a rank to count as silent."""

SILENCE_S = 5.0
"""How long a rank may be silent. Not measured: below 10 s with all that follows, and far above what the scheduler of a
busy machine, or a function that keeps Python's lock, lets a thread wait."""

NOTICE_S = 0.15
"""How long a call may go on until this thread prints what ends it: half of what mpirun leaves."""

COMPUTING_S = 3.0
"""How long such a call may go on until the process is ended."""

MOST_LINE = 1 << 16
"""Bytes of a message: an error with its locations has some hundred. A rank that sends longer ones is given up."""


class Watch:
    """The connections to the other ranks, and the thread that listens to them for `health`.

    pending: the failure that the call which runs has to end of and has not noticed yet, if there is one.
    """

    def __init__(
        self, sockets: Mapping[int, socket.socket], health: Health, pending: Callable[[], Failure | None]
    ) -> None:
        self._sockets, self._health, self._pending = dict(sockets), health, pending
        self._lines = dict.fromkeys(sockets, b"")
        self._sending = threading.Lock()
        self._noticed_at: float | None = None
        self._is_printed = False
        threading.Thread(target=self._run, name="onnxc watch of ranks", daemon=True).start()

    def tell(self, line: bytes) -> None:
        """Sends a line to every rank that can still be reached."""
        with self._sending:
            for peer in list(self._sockets.values()):
                try:
                    peer.sendall(line + b"\n")
                except OSError:
                    # Who is gone is noticed where it is listened to; who is stopped has a full buffer.
                    continue

    def _run(self) -> None:
        selector = selectors.DefaultSelector()
        for rank, peer in self._sockets.items():
            peer.settimeout(HEARTBEAT_S)
            selector.register(peer, selectors.EVENT_READ, rank)
        looked_at = beat_at = time.monotonic()
        # Where nobody is left to listen to, a call that computes still has to end.
        while self._sockets or self._pending() is not None:
            events = selector.select(NOTICE_S)
            now = time.monotonic()
            for key, _ in events:
                if not self._listen(key.data, now):
                    selector.unregister(key.fileobj)
            self._health.judge(now, late=now - looked_at > SILENCE_S / 2)
            looked_at = now
            if now - beat_at >= HEARTBEAT_S:
                beat_at = now
                self.tell(HEARTBEAT)
            self._insist(now)

    def _listen(self, rank: int, now: float) -> bool:
        """Takes what a rank has sent; whether more may come."""
        try:
            data = self._sockets[rank].recv(MOST_LINE)
        except OSError:
            data = b""
        *lines, self._lines[rank] = (self._lines[rank] + data).split(b"\n")
        for line in lines:
            self._health.receive(rank, line, now)
        if data and len(self._lines[rank]) <= MOST_LINE:
            return True
        self._health.close(rank)
        with self._sending:
            self._sockets.pop(rank).close()
        return False

    def _insist(self, now: float) -> None:
        """Prints what a call does not notice because it computes, and ends the process if that goes on."""
        failure = self._pending()
        if failure is None:
            self._noticed_at, self._is_printed = None, False
            return
        self._noticed_at = now if self._noticed_at is None else self._noticed_at
        if now - self._noticed_at >= NOTICE_S and not self._is_printed:
            self._is_printed = True
            sys.stderr.write(f"{failure.text}\n")
            sys.stderr.flush()
        if now - self._noticed_at >= COMPUTING_S:
            os._exit(1)

    def part(self, calls: int, limit_s: float) -> bool:
        """Says farewell after so many calls; whether all others have, too, before one died, stalled or took longer."""
        self.tell(farewell(calls))
        deadline = time.monotonic() + limit_s
        while self._health.unsettled() and time.monotonic() < deadline:
            time.sleep(0.002)
        return not self._health.has_lost() and not self._health.unsettled()
