"""From an artifact with device code to an executable on a device, or to the error that says what is missing."""

from collections.abc import Sequence
from functools import cache

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.cpu import Image
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.executable import LoadAgain
from onnxc.runtime.gpu.driver import Driver, load_driver
from onnxc.runtime.gpu.engine import DeviceEngine
from onnxc.runtime.gpu.executable import DeviceExecutable
from onnxc.runtime.gpu.graphs import GRAPHS_KEPT
from onnxc.runtime.signature import Signature

__all__ = ["make_device_executable", "this_driver"]


def make_device_executable(
    artifact: Artifact,
    image: Image | None,
    signature: Signature,
    locations: Sequence[str],
    compilations: int,
    again: LoadAgain,
    device: int,
    graphs: bool,
    driver: Driver | None,
) -> DeviceExecutable:
    """The artifact on the device of that number. Raises DeviceError."""
    code = artifact.device
    assert code is not None, artifact.program.name
    try:
        driver = this_driver() if driver is None else driver
    except DeviceError as problem:
        message = f"this model was compiled for {code.architecture}: {problem}"
        raise DeviceError(message.replace(f"error[{problem.code}]: ", ""), code=problem.code) from problem
    kept = GRAPHS_KEPT if graphs else 0
    engine = DeviceEngine(artifact.program, image, code, artifact.weights, locations, driver, device, kept)
    report = artifact.report
    return DeviceExecutable(signature, engine, artifact=artifact, report=report, compilations=compilations, again=again)


@cache
def this_driver() -> Driver:
    """The driver of this machine, once for the process."""
    return load_driver()
