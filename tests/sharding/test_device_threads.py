"""Calls on threads of devices: what fails or stalls ends the call for all, with an error that names the device."""

import threading
import time

import numpy as np
import pytest

from onnxc.runtime.devices.device_threads import exchange_seconds, run_on_devices
from onnxc.runtime.errors import DeviceError, InputError, OnnxcError
from onnxc.runtime.host import MEANINGS

GROUPS = {"groups": ((0, 1, 2, 3),)}
PAIRS = {"groups": ((0, 2), (1, 3))}
SOON, LATE = 0.2, 60.0


def total(device: int) -> list[float]:
    (result,) = MEANINGS["all_reduce"]([np.array([device, 1.0])], {"kind": "sum", **GROUPS})
    return [float(x) for x in result]


def test_all_devices_get_the_same_sum() -> None:
    assert run_on_devices(4, total, LATE) == [[6.0, 4.0]] * 4


def test_groups_do_not_mix() -> None:
    def gathered(device: int) -> list[int]:
        (result,) = MEANINGS["all_gather"]([np.array([device])], {"axis": 0, **PAIRS})
        return [int(x) for x in result]

    assert run_on_devices(4, gathered, LATE) == [[0, 2], [1, 3], [0, 2], [1, 3]]


def test_sums_are_in_the_order_of_devices_whoever_comes_last() -> None:
    terms = [1e8, 1.0, -1e8, 1.0]

    def summed(device: int) -> float:
        time.sleep(0.01 * (-device % 3))
        (result,) = MEANINGS["all_reduce"]([np.array([terms[device]], np.float32)], {"kind": "sum", **GROUPS})
        return float(result[0])

    assert len({tuple(run_on_devices(4, summed, LATE)) for _ in range(20)}) == 1


@pytest.mark.parametrize("rounds", [1, 50])
def test_rounds_follow_one_another(rounds: int) -> None:
    assert run_on_devices(4, lambda device: [total(device) for _ in range(rounds)], LATE) == [[[6.0, 4.0]] * rounds] * 4


def test_an_error_of_ours_keeps_its_kind_and_names_its_device() -> None:
    def fails(device: int) -> list[float]:
        if device == 2:
            raise InputError("the index is out of range", code="index-out-of-range")
        return total(device)

    with pytest.raises(InputError, match=r"out of range\n  on device 2") as failed:
        run_on_devices(4, fails, LATE)
    assert failed.value.code == "index-out-of-range"


def test_any_other_error_is_a_failed_device() -> None:
    def fails(device: int) -> list[float]:
        return total(device) if device != 1 else [1 / 0]

    with pytest.raises(DeviceError, match=r"device 1 has failed \(ZeroDivisionError") as failed:
        run_on_devices(4, fails, LATE)
    assert failed.value.code == "device-failed"


def test_memory_that_is_not_there_is_missed_on_its_device() -> None:
    def fails(device: int) -> list[float]:
        if device == 3:
            raise MemoryError("much")
        return total(device)

    with pytest.raises(DeviceError, match="what device 3 needs does not fit into memory: much"):
        run_on_devices(4, fails, LATE)


def test_of_several_errors_the_first_device_counts() -> None:
    def fails(device: int) -> None:
        raise InputError("all fail", code="sizes-disagree")

    for _ in range(20):
        with pytest.raises(InputError, match="on device 0"):
            run_on_devices(4, fails, LATE)


def test_a_device_that_does_not_come_is_named() -> None:
    ended = threading.Event()

    def stalls(device: int) -> list[float]:
        if device == 1:
            ended.wait(LATE)
        return total(device)

    with pytest.raises(DeviceError, match=r"device 1 did not come to all_reduce within 0\.2 s") as failed:
        run_on_devices(4, stalls, SOON)
    assert failed.value.code == "device-stalled"
    ended.set()


def test_devices_at_different_exchanges_are_an_error() -> None:
    def differs(device: int) -> list[float]:
        name, more = ("all_reduce", {"kind": "sum"}) if device else ("all_gather", {"axis": 0})
        (result,) = MEANINGS[name]([np.array([1.0])], {**more, **GROUPS})
        return [float(x) for x in result]

    with pytest.raises(DeviceError) as failed:
        run_on_devices(4, differs, LATE)
    assert failed.value.code == "collectives-differ"


def test_a_stopped_device_says_why() -> None:
    stopped: list[OnnxcError] = []

    def fails(device: int) -> list[float]:
        if device == 0:
            raise InputError("wrong", code="sizes-disagree")
        try:
            return total(device)
        except DeviceError as problem:
            stopped.append(problem)
            raise

    with pytest.raises(InputError):
        run_on_devices(4, fails, LATE)
    assert {problem.code for problem in stopped} == {"device-stopped"}
    assert len(stopped) == 3


def test_an_exchange_needs_devices() -> None:
    with pytest.raises(DeviceError) as failed:
        total(0)
    assert failed.value.code == "collective-alone"


def test_an_interrupted_caller_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    ended = threading.Barrier(4)

    def waits(device: int) -> None:
        try:
            if device:
                total(device)
        except DeviceError as problem:
            stopped.append(problem.code)
        ended.wait(LATE)

    def interrupted(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("onnxc.runtime.devices.device_threads._Call.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_on_devices(3, waits, LATE)
    ended.wait(LATE)
    assert stopped == ["device-stopped"] * 2


@pytest.mark.parametrize(("text", "seconds"), [("", 600.0), ("2.5", 2.5)])
def test_the_time_limit_is_an_environment_variable(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXC_COMM_TIMEOUT", text)
    assert exchange_seconds() == seconds


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e300", "soon"])
def test_what_is_no_time_limit_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXC_COMM_TIMEOUT", text)
    with pytest.raises(InputError) as refused:
        exchange_seconds()
    assert refused.value.code == "comm-timeout"
