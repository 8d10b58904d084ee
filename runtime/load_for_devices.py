"""From the program of each of several devices to one executable; only who runs several devices loads this."""

from collections.abc import Sequence

import numpy as np

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.devices_engine import DevicesEngine, DevicesExecutable
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import image_of, program_engine, signature_of
from onnxc.runtime.signature import first_inputs
from onnxc.runtime.thread_pool import available_threads

__all__ = ["make_for_devices"]


def make_for_devices(artifact: Artifact, shares: Sequence[Sequence[np.ndarray]], threads: int | None) -> Executable:
    """The artifact of the program of each device, ready to be called on all of them as one.

    shares: for each device the values of its last parameters, which no caller passes. threads: how many a call may use,
    all devices together.
    """
    each = max((available_threads() if threads is None else threads) // len(shares), 1)
    engine = DevicesEngine(program_engine(artifact, image_of(artifact), each), shares)
    signature = first_inputs(signature_of(artifact), len(artifact.program.inputs) - 1 - len(shares[0]))
    return DevicesExecutable(signature, engine, report=artifact.report, compilations=1)
