"""What a client is told of an error: the status of HTTP and that of gRPC, by the code or the class of the error."""

import grpc

from onnxc.runtime.errors import InputError, ModelError, OnnxcError, UnsupportedError
from onnxc.runtime.records import record

__all__ = ["ServingError", "Status", "status_of"]


class ServingError(OnnxcError):
    """The server has no such thing, or will not answer now."""


@record
class Status:
    """How an error is said in either protocol; retry: the client may try again soon."""

    http: int
    grpc: grpc.StatusCode
    retry: bool = False


_INVALID = Status(400, grpc.StatusCode.INVALID_ARGUMENT)
_UNAVAILABLE = Status(503, grpc.StatusCode.UNAVAILABLE, retry=True)
_INTERNAL = Status(500, grpc.StatusCode.INTERNAL)

BY_CODE = {
    "unknown-model": Status(404, grpc.StatusCode.NOT_FOUND),
    "unknown-version": Status(404, grpc.StatusCode.NOT_FOUND),
    "unknown-path": Status(404, grpc.StatusCode.NOT_FOUND),
    "wrong-method": Status(405, grpc.StatusCode.UNIMPLEMENTED),
    "wrong-token": Status(401, grpc.StatusCode.UNAUTHENTICATED),
    "foreign-origin": Status(403, grpc.StatusCode.PERMISSION_DENIED),
    "slow-body": Status(408, grpc.StatusCode.DEADLINE_EXCEEDED),
    "body-size": Status(413, grpc.StatusCode.RESOURCE_EXHAUSTED),
    "queue-full": _UNAVAILABLE,
    "server-busy": _UNAVAILABLE,
    "out-of-memory": _UNAVAILABLE,
    "deadline-exceeded": Status(504, grpc.StatusCode.DEADLINE_EXCEEDED),
    "client-gone": Status(499, grpc.StatusCode.CANCELLED),
}

BY_CLASS: tuple[tuple[type[OnnxcError], Status], ...] = (
    (UnsupportedError, Status(501, grpc.StatusCode.UNIMPLEMENTED)),
    (InputError, _INVALID),
    (ModelError, _INVALID),
    (ServingError, _INVALID),
)


def status_of(problem: OnnxcError) -> Status:
    """The status that goes with an error."""
    if problem.code in BY_CODE:
        return BY_CODE[problem.code]
    return next((status for kind, status in BY_CLASS if isinstance(problem, kind)), _INTERNAL)
