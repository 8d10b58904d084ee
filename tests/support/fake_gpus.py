"""Divided models on several fake GPUs: the real plan, artifact and runtime, over a fake driver and a fake NCCL."""

from dataclasses import dataclass, replace
from itertools import chain

from onnx import ModelProto

from onnxc.compiler.back_ends import back_end
from onnxc.compiler.codegen_gpu.emit import emit
from onnxc.compiler.compile_for_devices import run_divided_stages
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.device_code import DeviceCode
from onnxc.runtime.executable import Executable
from onnxc.runtime.gpu.several import make_for_gpus
from onnxc.runtime.load import make_compiled
from tests.support.fake_gpu import fake_kernels, interpret_launch
from tests.support.fake_nccl import EagerQueries, FakeNccl

__all__ = ["FakeRun", "compile_for_fakes", "divided_artifact", "run_on_fakes"]


@dataclass(frozen=True, eq=False)
class FakeRun:
    """An executable on fake devices, and these."""

    executable: Executable
    driver: EagerQueries
    nccl: FakeNccl


def divided_artifact(model: ModelProto, config: str, **options: object) -> Artifact:
    """The artifact for GPUs of a divided model, with kernels that only the interpreter runs."""
    checked = make_options("cuda:sm_90", cache=False, config=config, **options)  # type: ignore[arg-type]
    real = back_end(checked)

    def emitted(plan: KernelPlan) -> Artifact:
        check_plan(plan)
        return emit(plan, real.target, real.host, fake_kernels)

    *_, (_, artifact) = run_divided_stages(model, checked, replace(real, emit=emitted))
    assert isinstance(artifact, Artifact)
    return artifact


def run_on_fakes(artifact: Artifact) -> FakeRun:
    """The artifact on as many fake devices as it is for."""
    assert artifact.division is not None
    devices = (artifact.pipeline or artifact.division).devices
    driver = EagerQueries(_code(artifact), interpret_launch, memory_bytes=4 << 30, devices=devices)
    nccl = FakeNccl(driver)
    made = make_for_gpus(artifact, artifact.division, 1, make_compiled, driver.driver, nccl.nccl)
    return FakeRun(made, driver, nccl)


def _code(artifact: Artifact) -> DeviceCode:
    """The kernels of all segments."""
    codes = [segment.device for segment in artifact.segments if segment.device is not None]
    return DeviceCode(codes[0].architecture, tuple(chain.from_iterable(code.kernels for code in codes)))


def compile_for_fakes(model: ModelProto, config: str, **options: object) -> FakeRun:
    """The model, ready to be called on fake devices."""
    return run_on_fakes(divided_artifact(model, config, **options))
