"""One call on several devices of one process: a thread for each, which meet where they exchange values."""

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from onnxc.runtime.errors import DeviceError, InputError, OnnxcError, reworded
from onnxc.runtime.host.rendezvous import DeviceStopped, Rendezvous, device_of_thread

__all__ = ["exchange_seconds", "of_device", "run_on_devices"]

T = TypeVar("T")

DEFAULT_SECONDS = 600.0
"""How long devices wait for each other. No measurement: a bound on hangs, the one of NCCL's watchdog in PyTorch."""


def exchange_seconds() -> float:
    """The time limit of an exchange: $ONNXC_COMM_TIMEOUT, or the usual one. Raises InputError for what is no time."""
    text = os.environ.get("ONNXC_COMM_TIMEOUT", "")
    try:
        seconds = float(text) if text else DEFAULT_SECONDS
    except ValueError:
        seconds = 0.0
    # What is longer, threads cannot wait.
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        message = f"ONNXC_COMM_TIMEOUT is {text!r}, and a number of seconds above 0 is needed"
        raise InputError(message, code="comm-timeout")
    return seconds


def run_on_devices(count: int, run: Callable[[int], T], seconds: float) -> list[T]:
    """What `run` gives on each device, all at once.

    Where devices fail, the error of the first of them by ordinal, which it names; the others are ended at their next
    exchange. A device that does not end then within the time limit is left behind.
    """
    call = _Call(count, run, seconds)
    threads = [
        threading.Thread(target=call.run_device, args=(device,), name=f"onnxc device {device}", daemon=True)
        for device in range(count)
    ]
    try:
        for thread in threads:
            thread.start()
        call.wait()
        return call.results()
    except BaseException:
        # An interrupted caller leaves nobody waiting.
        call.rendezvous.fail()
        raise


class _Call(Generic[T]):
    """What the devices of one call have given so far, or raised."""

    def __init__(self, count: int, run: Callable[[int], T], seconds: float) -> None:
        self.count, self.run, self.seconds = count, run, seconds
        self.rendezvous = Rendezvous(count, seconds)
        self.given: dict[int, T] = {}
        self.raised: dict[int, BaseException] = {}
        self.changed = threading.Condition()

    def run_device(self, device: int) -> None:
        """What the thread of a device does."""
        try:
            with device_of_thread(self.rendezvous, device):
                given = self.run(device)
            with self.changed:
                self.given[device] = given
                self.changed.notify_all()
        except BaseException as problem:
            self.rendezvous.fail()
            with self.changed:
                self.raised[device] = problem
                self.changed.notify_all()

    def wait(self) -> None:
        """Waits for all devices; from the first failure on, no longer than the time limit."""
        with self.changed:
            self.changed.wait_for(lambda: self.raised or len(self.given) == self.count)
            if self.raised:
                self.changed.wait_for(lambda: len(self.given) + len(self.raised) == self.count, self.seconds)

    def results(self) -> list[T]:
        """What the devices have given, in order."""
        with self.changed:
            causes = {device: problem for device, problem in self.raised.items() if not _is_consequence(problem)}
            if causes:
                raise of_device(*min(causes.items()))
            return [self.given[device] for device in range(self.count)]


def _is_consequence(problem: BaseException) -> bool:
    return isinstance(problem, DeviceStopped)


def of_device(device: int, problem: BaseException) -> OnnxcError:
    """The error of a device, with its ordinal."""
    if isinstance(problem, OnnxcError):
        named = reworded(problem, f"{problem}\n  on device {device}")
    elif isinstance(problem, MemoryError):
        named = DeviceError(f"what device {device} needs does not fit into memory: {problem}", code="out-of-memory")
    else:
        message = f"device {device} has failed ({type(problem).__name__}: {problem})"
        named = DeviceError(message, code="device-failed")
    named.__cause__ = problem
    return named
