"""Calls on several GPUs of one process: each runs the same program, on its shares of the weights in its memory."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.devices.device_threads import exchange_seconds, run_on_devices
from onnxc.runtime.devices.devices_engine import DividedEngine
from onnxc.runtime.devices.divided_executable import DividedExecutable
from onnxc.runtime.devices.division import Division, groups_of
from onnxc.runtime.devices.local_inputs import local_inputs
from onnxc.runtime.devices.local_layout import LocalLayout, local_values
from onnxc.runtime.executable import Executable, LoadAgain
from onnxc.runtime.gpu.collectives import Communicators
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.gpu.engine import DeviceEngine
from onnxc.runtime.gpu.load import this_driver
from onnxc.runtime.gpu.nccl import Nccl, this_nccl
from onnxc.runtime.gpu.pipeline import gpu_pipeline_engine
from onnxc.runtime.gpu.shares import engines_on, exchanging_call, readable, resident_shares, wanted_of
from onnxc.runtime.gpu.wanted import Residency
from onnxc.runtime.load import signature_of
from onnxc.runtime.stats import Stats, work_of

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["SeveralEngine", "make_for_gpus"]


def make_for_gpus(
    artifact: Artifact,
    division: Division,
    compilations: int,
    again: LoadAgain,
    driver: Driver | None = None,
    nccl: Nccl | None = None,
) -> Executable:
    """The artifact on the first GPUs, one for each device of its configuration. Raises DeviceError."""
    driver = this_driver() if driver is None else driver
    nccl = this_nccl() if nccl is None else nccl
    return DividedExecutable(
        signature_of(artifact),
        _several_engine(artifact, division, driver, nccl)
        if artifact.pipeline is None
        else gpu_pipeline_engine(artifact, artifact.pipeline, driver, nccl),
        artifact=artifact,
        report=artifact.report,
        compilations=compilations,
        again=again,
    )


def _several_engine(artifact: Artifact, division: Division, driver: Driver, nccl: Nccl) -> "SeveralEngine":
    communicators = Communicators(nccl, chain(*groups_of(artifact.program.body)), exchange_seconds())
    engines = engines_on(artifact, range(division.devices), driver, communicators)
    added = [resident_shares(artifact, division, engine, device) for device, engine in enumerate(engines)]
    return SeveralEngine(engines, added, communicators, division.inputs, division.outputs)


class SeveralEngine(DividedEngine):
    """Runs the program once on each GPU, one call after the other: those of NCCL must come in one order everywhere."""

    def __init__(
        self,
        engines: Sequence[DeviceEngine],
        added: Sequence[Sequence["SlotValue"]],
        communicators: Communicators,
        inputs: Sequence[LocalLayout | None] = (),
        outputs: Sequence[LocalLayout | None] = (),
    ) -> None:
        every = outputs or (None,) * len(engines[0].program.outputs)
        super().__init__(engines[0], range(len(engines)), inputs, every)
        self._engines, self._added, self._communicators = engines, added, communicators
        self._calls, self._lock = 0, Lock()

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["SlotValue"]:
        """The outputs: those of the first device on the host, or what each holds of them in its memory."""
        with self._lock:
            self._calls += 1
            self._communicators.open()
            seconds = self._communicators.seconds
            each = run_on_devices(len(self._engines), lambda device: self._run(device, values, sizes), seconds)
            return local_values(self._outputs, sizes, dict(enumerate(each)))

    def _run(self, device: int, values: Sequence["SlotValue"], sizes: tuple[int, ...]) -> list["SlotValue"]:
        """The outputs on a device; what every device has whole is copied to the host from the first alone."""
        engine = self._engines[device]
        wanted = wanted_of(self._outputs, whole=Residency.DEVICE if device else Residency.HOST)
        with exchanging_call(engine, self._communicators) as call:
            blocks = readable(local_inputs(self.inputs, values, device, on_device=True), call)
            return engine.run_in(call, (*blocks, *self._added[device]), sizes, wanted)

    def stats(self) -> Stats:
        """What has run so far, on all devices."""
        return replace(work_of(engine.stats() for engine in self._engines), calls=self._calls)
