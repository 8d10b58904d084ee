"""A divided program on each of its GPUs, and the shares of constants that each holds in its memory."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.devices.division import Division
from onnxc.runtime.devices.local_layout import LocalLayout
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.collectives import Communicators
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.gpu.engine import DeviceEngine, resident
from onnxc.runtime.gpu.memory import Buffer
from onnxc.runtime.gpu.wanted import Residency
from onnxc.runtime.gpu.workspaces import Call
from onnxc.runtime.load import image_of, locations_of
from onnxc.runtime.native.addresses import read_address
from onnxc.runtime.values import host_value

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["engines_on", "exchanging_call", "readable", "resident_shares", "wanted_of"]


def engines_on(
    artifact: Artifact, ordinals: Iterable[int], driver: Driver, communicators: Communicators
) -> list[DeviceEngine]:
    """What runs the program of the artifact on each of these CUDA devices."""
    image, code, locations = image_of(artifact), artifact.device, locations_of(artifact)
    assert code is not None, artifact.program.name
    return [
        DeviceEngine(
            artifact.program, image, code, artifact.weights, locations, driver, ordinal, communicators=communicators
        )
        for ordinal in ordinals
    ]


@contextmanager
def exchanging_call(engine: DeviceEngine, communicators: Communicators) -> Iterator[Call]:
    """A call on one of several devices, complete at the end; one that fails ends the exchanges that others wait in."""
    with engine.call() as call:
        try:
            yield call
            if call.workspace.exchanges is not None:
                call.workspace.exchanges.wait_for_all(call.stream)
            if call.in_flight:
                call.synchronize()
        except BaseException:
            # Others may wait on their devices for exchanges that this one has no part in any more.
            communicators.abort()
            raise


def readable(values: Iterable["SlotValue"], call: Call) -> "list[SlotValue]":
    """The inputs of a program, where arrays that lie on another device than that of the call are on the host."""
    given: list[SlotValue] = []
    for value in values:
        if isinstance(value, DeviceArray) and value.device.properties.ordinal == call.device.properties.ordinal:
            call.follow_work(value)
            given.append(value)
        else:
            given.append(host_value(value))
    return given


def wanted_of(outputs: Iterable[LocalLayout | None], *, whole: Residency) -> tuple[Residency, ...]:
    """Where each output is to lie: what stays divided on its device, any other as `whole` says."""
    return tuple(whole if output is None else Residency.DEVICE for output in outputs)


def resident_shares(artifact: Artifact, division: Division, engine: DeviceEngine, device: int) -> list["SlotValue"]:
    """What a device holds of the division, by its index there, as the last inputs of its program.

    Shares are in its memory; its index and texts are on the host.
    """
    arrays = division.added_inputs(artifact.program, device, resident=False)
    data = division.shares[device]
    with engine.device.current():
        buffer = Buffer(engine.device, data.nbytes, f"the shares of device {device}")
        if data.nbytes:
            engine.device.upload(buffer.address, data)
    start, end = read_address(data), read_address(data) + data.nbytes
    held = [start <= read_address(array) < end for array in arrays]
    added = [
        resident(engine.device, buffer, array, data) if inside else None
        for array, inside in zip(arrays, held, strict=True)
    ]
    return [array if there is None else there for array, there in zip(arrays, added, strict=True)]
