"""onnxc as an engine of the suite: GPUs of one process, which are fakes, as is their NCCL."""

from functools import partial

from onnx import ModelProto

from tests.multi_device.onnxc_engine import answer, check, with_local_outputs
from tests.multi_device.suite import Arrays, Collectives, Shards
from tests.support.fake_gpu import compile_for_fake
from tests.support.fake_gpus import compile_for_fakes

__all__ = ["check", "run"]


def run(model: bytes, inputs: Arrays, configuration: str | None) -> tuple[Arrays, Shards, Collectives]:
    """As tests/multi_device/suite.py says; AssertionError for what the fakes find wrong with their calls."""
    if configuration is None:
        return answer(compile_for_fake(model).executable, inputs)
    devices = with_local_outputs(partial(compile_for_fakes, ModelProto.FromString(model), configuration))
    given = answer(devices.executable, inputs)
    devices.driver.check()
    return given
