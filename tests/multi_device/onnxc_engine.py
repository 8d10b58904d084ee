"""onnxc as an engine of the suite: virtual devices of one process."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

import onnxc
from onnxc.runtime.devices.shards import Shards
from onnxc.runtime.errors import ModelWarning, UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.program import JsonValue
from onnxc.runtime.values import host_value
from tests.multi_device.suite import Arrays, Collectives, Shard
from tests.multi_device.suite import Shards as AllShards

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

E = TypeVar("E")


def run(model: bytes, inputs: Arrays, configuration: str | None) -> tuple[Arrays, AllShards, Collectives]:
    """As tests/multi_device/suite.py says."""
    if configuration is not None:
        return answer(with_local_outputs(partial(onnxc.compile, model, config=configuration)), inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return answer(onnxc.compile(model), inputs)


def check(model: bytes) -> Sequence[str]:
    """The codes of errors."""
    return [each.code for each in onnxc.check(model) if each.severity == "error"]


def with_local_outputs(compiled: Callable[..., E]) -> E:
    """What is compiled, with outputs that stay divided where that can be: not those of pipelines."""
    try:
        return compiled(outputs="local")
    except UnsupportedError as problem:
        if problem.code != "unsupported-outputs":
            raise
        return compiled()


def answer(exe: Executable, inputs: Arrays) -> tuple[Arrays, AllShards, Collectives]:
    """What an executable gives, and how its model is divided, if it is."""
    results = exe.run(inputs)
    outputs = {name: np.asarray(host_value(value)) for name, value in results.items()}
    report = exe.report()
    assert isinstance(report, Mapping), report
    if "devices" not in report:
        return outputs, {}, ()
    devices = _member(report, "devices")
    if "segments" in devices:
        return outputs, {}, tuple(_of_stages(devices))
    count = len(_listed(devices["share_bytes"]))
    shards = {name: _shards(value, count) for name, value in results.items()}
    return outputs, shards, tuple(_collectives(devices))


def _shards(value: "SlotValue", count: int) -> list[Shard]:
    """What each device holds; what is no Shards is whole on each of them."""
    if isinstance(value, Shards):
        return [(each.device, tuple((s.start, s.stop) for s in each.index), each.host()) for each in value.shards]
    array = np.asarray(value)
    return [(device, tuple((0, size) for size in array.shape), array) for device in range(count)]


def _of_stages(devices: Mapping[str, JsonValue]) -> Iterator[tuple[str, int]]:
    """What is exchanged within the stages and sent between them."""
    for segment in _listed(devices["segments"]):
        yield from _collectives(_member({"": segment}, ""))
    for transfer in _listed(devices["transfers"]):
        sent = _member({"": transfer}, "")
        yield from [("send", int(str(sent["bytes"])))] * len(_listed(sent["pairs"]))


def _collectives(devices: Mapping[str, JsonValue]) -> Iterator[tuple[str, int]]:
    for each in _listed(devices["collectives"]):
        listed = _member({"": each}, "")
        yield str(listed["op"]), int(str(listed["bytes"]))


def _member(value: JsonValue, name: str) -> Mapping[str, JsonValue]:
    assert isinstance(value, Mapping), value
    member = value[name]
    assert isinstance(member, Mapping), member
    return member


def _listed(value: JsonValue) -> Sequence[JsonValue]:
    assert isinstance(value, Sequence), value
    return value
