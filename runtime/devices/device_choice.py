"""What the devices of a divided program are, as `devices=` says it."""

import re

from onnxc.runtime.errors import InputError, UnsupportedError

__all__ = ["RANKS", "parse_devices"]

RANKS = "mpi"
"""Processes that mpirun has started, one for each device."""

_LATER = {
    "cuda": "several GPUs",
    "nccl": "several GPUs",
    "tcp": "processes on other machines",
    "ray": "actors of Ray",
    "sim": "simulated devices",
}


def parse_devices(devices: object) -> int | None:
    """How many threads of this process they are; None where they are ranks of MPI.

    Raises InputError for what is no kind of devices, UnsupportedError for one that does not run yet.
    """
    if not isinstance(devices, str):
        raise InputError(f"devices is {devices!r}, expected a text", code="option-type")
    kind, _, count = devices.partition(":")
    if devices == RANKS:
        return None
    if kind in _LATER:
        message = f"devices={devices!r}: {_LATER[kind]} do not run yet; cpu:N, in one process, and mpi do"
        raise UnsupportedError(message, code="unsupported-devices")
    if kind != "cpu" or not re.fullmatch("[1-9][0-9]{0,5}", count):
        raise InputError(f"devices is {devices!r}, expected cpu:N for N devices, or mpi", code="unknown-devices")
    return int(count)
