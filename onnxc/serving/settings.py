"""What a client may set of the server itself: what is logged. Tracing, which there is none of, can be asked for."""

import logging
from collections.abc import Mapping, Sequence

from onnxc.runtime.errors import InputError, UnsupportedError

__all__ = ["LogSettings", "expect_no_trace", "trace_settings"]

LEVELS = {"log_info": logging.INFO, "log_warning": logging.WARNING, "log_error": logging.ERROR}
_VERBOSE = "log_verbose_level"

_TRACE: Mapping[str, Sequence[str]] = {
    "trace_level": ("OFF",), "trace_rate": ("1000",), "trace_count": ("-1",), "log_frequency": ("0",),
    "trace_file": ("",), "trace_mode": ("triton",),
}  # fmt: skip


class LogSettings:
    """Which records the server's logger lets through; `attach` makes it so."""

    def __init__(self) -> None:
        self._values: Mapping[str, bool | int] = {**dict.fromkeys(LEVELS, True), _VERBOSE: 0}

    def attach(self, logger: logging.Logger) -> None:
        """From now on the logger obeys these settings."""
        logger.setLevel(logging.DEBUG)
        logger.addFilter(self._passes)

    def _passes(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO:
            return self._values[_VERBOSE] > 0
        names = [name for name, level in LEVELS.items() if record.levelno >= level]
        return bool(self._values[names[-1]])

    def to_json(self) -> Mapping[str, bool | int | str]:
        """The settings, by the protocol's names."""
        return {"log_file": "", **self._values, "log_format": "default"}

    def update(self, changes: Mapping[str, object]) -> None:
        """Changes what is named. InputError for other values, UnsupportedError for other settings."""
        values = dict(self._values)
        for name, value in changes.items():
            if name in values:
                values[name] = _legal(name, value)
            elif self.to_json().get(name) != value:
                raise UnsupportedError(f"the log setting {name!r} cannot be {value!r}", code="log-setting")
        self._values = values


def _legal(name: str, value: object) -> bool | int:
    """The value, which is one for the setting, or InputError."""
    if isinstance(value, bool) == (name in LEVELS) and isinstance(value, int) and value >= 0:
        return value
    raise InputError(f"{name} cannot be {value!r}", code="log-setting")


def trace_settings() -> Mapping[str, Sequence[str]]:
    """The settings of tracing: it is off."""
    return _TRACE


def expect_no_trace(changes: Mapping[str, object]) -> None:
    """UnsupportedError unless tracing would stay as it is; None clears a setting."""
    for name, value in changes.items():
        values = [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
        if value not in (None, [], ()) and values != list(_TRACE.get(name, ())):
            raise UnsupportedError(f"tracing is not supported, so {name!r} cannot be {value!r}", code="trace-setting")
