"""A server of gRPC whose handlers run on the thread that polls: calls, and their messages as bytes.

The servers of grpcio hand each call from the thread that polls to others, `grpc.server` twice and `grpc.aio` three
times, which is most of what a short request costs them: a server that computes nothing took 235 us of the processor
for a request with `grpc.aio`, 203 us with `grpc.server`, and 114 us with this loop; 181, 181 and 58 us where that also
reads the sockets (`GRPC_EXPERIMENTS` of command_line/serve.py). It is written on what those are written on, the queue
of completions of `cygrpc`.

One thread polls, and begins everything. Any thread may call `send` and `finish`, as gRPC's core takes operations of a
call from any thread; a conversation has one message at a time and gives one answer to it, so that no two threads are
within these for one call. `is_closed` is written once, by the thread that polls, before it tells the conversation:
who begins something that is to end with the call reads it afterwards, and one of the two sees what the other has done.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import grpc
from grpc._cython import cygrpc  # type: ignore[attr-defined]

from onnxc.runtime.thread_pool import available_threads
from onnxc.serving.batching import Asker

__all__ = ["Conversation", "Handler", "Rpc", "RpcServer"]


class Conversation(Protocol):
    """What answers a call. Both methods are called by the thread that polls."""

    def on_message(self, data: bytes | None) -> None:
        """Is given each message, None for the end of them; the next when the answer to one has been sent."""

    def on_closed(self) -> None:
        """Is called when the call has ended, or its client has gone."""


LOG = logging.getLogger("onnxc.serving")
_ENDING_S = 1e-4
"""Between two looks at what is watched, when nothing else comes any more."""

_CANCELLED_S = 1.0
"""For calls that have been cancelled to end."""

_AWAKE_S = 300e-6
"""For how long the thread that polls looks for the next event before it sleeps, where it has a processor of its own.

A processor that sleeps takes long to wake, a virtual one above all: a request of mnist_cnn by one client took 480 us
and takes 278, one of grpc.aio 444 and 318 (two virtual cores of Zen 5, else idle), as with 1000 us; 64 clients make no
difference.
"""

_EMPTY_POLLS = 2
"""So many polls that give no event end a round: what the first has read of the sockets the next gives. With one, no two
requests of those that came at random were ever in a round; the second takes a client that is alone 10 us."""

_NO_FLAGS = 0


class Rpc:
    """A call that a client makes. trailing: the metadata that end it.

    asker: the thread that polls, for which it is; a round of it ends when it has looked at every event that is there.
    """

    def __init__(self, event: cygrpc.RequestCallEvent, asker: Asker) -> None:
        self._call, self._deadline = event.call, event.call_details.deadline
        self.metadata: Sequence[tuple[str, str | bytes]] = event.invocation_metadata
        self.trailing: tuple[tuple[str, str], ...] = ()
        self.asker = asker
        self.is_closed = False
        self._conversation: Conversation | None = None
        self._has_sent = False

    def time_remaining(self) -> float:
        """Seconds until the client's deadline; ages where it has none."""
        return float(self._deadline) - time.time()

    def send(self, data: bytes) -> None:
        """Sends an answer; when it is sent, the next message is read."""
        self._call.start_server_batch((*self._head(), cygrpc.SendMessageOperation(data, _NO_FLAGS)), self._sent)

    def finish(self, data: bytes | None = None, code: grpc.StatusCode = grpc.StatusCode.OK, details: str = "") -> None:
        """Ends the call, with a last answer if there is one."""
        if self.is_closed:
            return
        message = () if data is None else (cygrpc.SendMessageOperation(data, _NO_FLAGS),)
        words = details.encode(errors="replace")
        status = cygrpc.SendStatusFromServerOperation(self.trailing, code.value[0], words, _NO_FLAGS)
        self._call.start_server_batch((*self._head(), *message, status), _nothing_follows)

    def fail(self, problem: Exception) -> None:
        """Ends the call for a defect of what answers it, which must end no other."""
        LOG.error("a call of gRPC", exc_info=problem)
        self.finish(code=grpc.StatusCode.INTERNAL, details=f"error[internal-error]: {type(problem).__name__}")

    def _head(self) -> tuple[cygrpc.Operation, ...]:
        """What comes before the first answer."""
        if self._has_sent:
            return ()
        self._has_sent = True
        return (cygrpc.SendInitialMetadataOperation(None, _NO_FLAGS),)

    def begin(self, conversation: Conversation) -> None:
        """From now on the conversation is given the messages."""
        self._conversation = conversation
        self._receive()

    def _receive(self) -> None:
        self._call.start_server_batch((cygrpc.ReceiveMessageOperation(_NO_FLAGS),), self._received)

    def _received(self, event: cygrpc.BatchOperationEvent) -> None:
        if self._conversation is None:
            return
        try:
            self._conversation.on_message(event.batch_operations[0].message())
        except Exception as problem:
            self.fail(problem)

    def _sent(self, event: cygrpc.BatchOperationEvent) -> None:
        if not self.is_closed:
            self._receive()

    def expect_close(self, closed: Callable[[], None]) -> None:
        """`closed` is called when the call has ended, however that came."""

        def close(event: cygrpc.BatchOperationEvent) -> None:
            self.is_closed = True
            conversation, self._conversation = self._conversation, None
            if conversation is not None:
                conversation.on_closed()
            closed()

        self._call.start_server_batch((cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS),), close)


def _nothing_follows(event: cygrpc.BatchOperationEvent) -> None:
    """For operations whose end is of no interest."""


Handler = Callable[[Rpc], Conversation | None]
"""What answers a call, or None where it has ended it."""


class RpcServer:
    """A server of these methods, by their paths; more than `most` calls at a time are refused."""

    def __init__(self, handlers: Mapping[str, Handler], options: Sequence[tuple[str, int]], most: int) -> None:
        self._handlers = {path.encode(): handler for path, handler in handlers.items()}
        self._most, self._active = most, 0
        self._queue = cygrpc.CompletionQueue()
        self._poll: Callable[[float | None], cygrpc.BaseEvent] = self._queue.poll
        self._awake_s = _AWAKE_S if available_threads() > 1 else 0.0
        self._server = cygrpc.Server(tuple(options), False)
        self._server.register_completion_queue(self._queue)
        self._later: list[Callable[[], None]] = []
        self._watched: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self._asker = Asker(self._later.append, self._watch)
        self._thread = threading.Thread(target=self._serve, name="onnxc grpc", daemon=True)

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """The port that it listens at, 0 where the address cannot be had."""
        its_own = () if credentials is None else (credentials._credentials,)  # type: ignore[attr-defined]
        return int(self._server.add_http2_port(address.encode(), *its_own))

    def start(self) -> None:
        """From now on calls are answered."""
        self._server.start()
        self._request_call()
        self._thread.start()

    def stop(self, grace_s: float) -> None:
        """Takes no more calls, and returns when those that are there have ended, or are cancelled after so long."""
        self._server.shutdown(self._queue, None)
        self._thread.join(grace_s)
        if self._thread.is_alive():
            self._server.cancel_all_calls()
            self._thread.join(_CANCELLED_S)
        if not self._thread.is_alive():
            # Here, not where the event of the shutdown came: that may come before `shutdown` has returned.
            self._server.destroy()

    def _serve(self) -> None:
        sleeps_s, empty_polls = 0.0, 0
        while True:
            event = self._poll(0.0 if self._later or self._watched or time.monotonic() < sleeps_s else None)
            if event.completion_type != cygrpc.CompletionType.queue_timeout:
                empty_polls = 0
                if event.tag is None:
                    self._end_all()
                    return
                sleeps_s = time.monotonic() + self._awake_s
                self._guarded(event.tag, event)
            else:
                empty_polls += 1
                if empty_polls >= _EMPTY_POLLS:
                    self._end_round()
            # It would hold its call until the next one comes.
            del event
            if self._watched:
                self._look_at_watched()

    def _watch(self, has_ended: Callable[[], bool], work: Callable[[], None]) -> None:
        self._watched.append((has_ended, work))

    def _look_at_watched(self) -> None:
        """Does the work of one that has ended, if there is one."""
        for watched in self._watched:
            if watched[0]():
                self._watched.remove(watched)
                self._guarded(watched[1])
                return

    def _end_all(self) -> None:
        """Does all that is left, and what follows from it."""
        while self._later or self._watched:
            self._end_round()
            self._look_at_watched()
            time.sleep(_ENDING_S if self._watched else 0)

    def _end_round(self) -> None:
        """Does what was left until all events that are there have been looked at."""
        due = self._later.copy()
        self._later.clear()
        for work in due:
            self._guarded(work)

    def _guarded(self, work: Callable[..., None], *arguments: object) -> None:
        """Does work whose defects must not end the server."""
        try:
            work(*arguments)
        except Exception as problem:
            LOG.error("an event of gRPC", exc_info=problem)

    def _request_call(self) -> None:
        self._server.request_call(self._queue, self._queue, self._begin)

    def _begin(self, event: cygrpc.RequestCallEvent) -> None:
        if not event.success:
            # The server takes no more calls.
            return
        self._request_call()
        rpc = Rpc(event, self._asker)
        self._active += 1
        rpc.expect_close(self._ended)
        handler = self._handlers.get(event.call_details.method)
        if handler is None:
            rpc.finish(code=grpc.StatusCode.UNIMPLEMENTED, details="there is no such method")
        elif self._active > self._most:
            message = f"there are {self._most} calls at a time, no more may be"
            rpc.finish(code=grpc.StatusCode.RESOURCE_EXHAUSTED, details=message)
        else:
            try:
                conversation = handler(rpc)
            except Exception as problem:
                rpc.fail(problem)
                return
            if conversation is not None:
                rpc.begin(conversation)

    def _ended(self) -> None:
        self._active -= 1
