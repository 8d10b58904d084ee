"""What sessions say of their work, to a callback of the program if it has given one."""

import operator
import traceback
from collections.abc import Callable
from threading import Lock

__all__ = ["INFO", "log", "set_default_logger_callback", "set_default_logger_severity"]

Callback = Callable[[int, str, str, str, str], object]

INFO, _WARNING, _FATAL = 1, 2, 4


class _Log:
    """The callback and the least severity that it is told of, of the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._callback: Callback | None = None
        self._severity = _WARNING

    def set(self, callback: Callback | None) -> None:
        with self._lock:
            self._callback = callback

    def set_severity(self, severity: int) -> None:
        with self._lock:
            self._severity = severity

    def listener(self, severity: int, session_severity: int) -> Callback | None:
        """Who is to be told of something so severe; a session's severity counts before that of the process."""
        with self._lock:
            least = self._severity if session_severity < 0 else session_severity
            return self._callback if severity >= least else None


_LOG = _Log()


def set_default_logger_callback(callback: Callback | None, severity: int = _WARNING) -> None:
    """Sessions tell `callback(severity, category, logid, code_location, message)` of their work from now on.

    None ends that. severity: the least that it is told of, 0 to 4. Raises RuntimeError for others, and for what cannot
    be called.
    """
    if callback is not None and not callable(callback):
        raise RuntimeError("callback must be callable or None")
    least = _expect_severity(severity)
    _LOG.set(callback)
    if callback is not None:
        _LOG.set_severity(least)


def set_default_logger_severity(severity: int) -> None:
    """The least severity that the callback is told of, 0 to 4.

    Without a callback, what there is to say is raised or warned of.
    """
    _LOG.set_severity(_expect_severity(severity))


def _expect_severity(severity: int) -> int:
    least = operator.index(severity)
    if not 0 <= least <= _FATAL:
        raise RuntimeError(f"Invalid logging severity {least}, expected 0 to {_FATAL}")
    return least


def log(severity: int, session_severity: int, logid: str, where: str, message: str) -> None:
    """Tells the callback, if there is one that wants to know; an error of it is printed, and ends nothing."""
    listener = _LOG.listener(severity, session_severity)
    if listener is None:
        return
    try:
        listener(severity, "onnxruntime", logid, where, message)
    except Exception as problem:
        traceback.print_exception(problem)
