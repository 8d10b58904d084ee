"""What the devices of a divided program are, as `devices=` says it."""

import re

from onnxc.runtime.errors import InputError, UnsupportedError

__all__ = ["RANKS", "expect_kind", "parse_devices"]

RANKS = "mpi"
"""Processes that mpirun has started, one for each device."""

_LATER = {
    "tcp": "processes on other machines",
    "ray": "actors of Ray",
    "sim": "simulated devices",
}

_KINDS = {"cpu": "cpu:N", "cuda": "cuda:N"}


def parse_devices(devices: object) -> int | None:
    """How many devices of this process they are; None where they are ranks of MPI.

    Raises InputError for what is no kind of devices, UnsupportedError for one that does not run yet.
    """
    if not isinstance(devices, str):
        raise InputError(f"devices is {devices!r}, expected a text", code="option-type")
    kind, _, count = devices.partition(":")
    if devices == RANKS:
        return None
    if kind in _LATER:
        message = f"devices={devices!r}: {_LATER[kind]} do not run yet; cpu:N and cuda:N, in one process, and mpi do"
        raise UnsupportedError(message, code="unsupported-devices")
    if kind not in _KINDS or not re.fullmatch("[1-9][0-9]{0,5}", count):
        message = f"devices is {devices!r}, expected cpu:N for N threads, cuda:N for the first N GPUs, or mpi"
        raise InputError(message, code="unknown-devices")
    return int(count)


def expect_kind(devices: str | None, kind: str) -> None:
    """Raises InputError where code of a kind ("cpu", "cuda") is for other devices; ranks have those of either."""
    if devices not in (None, RANKS) and devices.partition(":")[0] != kind:
        message = f"devices is {devices!r}, and the code is for {_KINDS[kind]}: target says what it is compiled for"
        raise InputError(message, code="device-kind-differs")
