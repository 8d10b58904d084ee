"""Annotations written into a model: configurations, shardings of the inputs and results of nodes, pipeline stages.

Devices are numbered with those of one block of a tensor next to each other: stages slowest, then the blocks of the
batch, then the shards of weights.
"""

import itertools
from collections.abc import Sequence

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, NodeDeviceConfigurationProto, NodeProto
from onnxc.runtime.records import record

__all__ = ["Layout", "Wanted", "write_configuration"]

_FIRST_IR_VERSION = 11
"""The first that has annotations."""


@record
class Layout:
    """How many devices share the weights, the batch and the layers of a model."""

    tensor: int
    stages: int
    batch: int

    @property
    def devices(self) -> int:
        """How many there are."""
        return self.tensor * self.stages * self.batch

    def __str__(self) -> str:
        parts = (("tp", self.tensor), ("pp", self.stages), ("dp", self.batch))
        return "".join(f"{name}{count}" for name, count in parts if count > 1)


@record
class Wanted:
    """A tensor of a node, and the axes of it along which weights and the batch are divided; None for neither."""

    node: int
    tensor: str
    tensor_axis: int | None
    batch_axis: int | None


def write_configuration(model: ModelProto, layout: Layout, wanted: Sequence[Wanted], stages: Sequence[int]) -> None:
    """Adds a configuration named as the layout; stages: that of each node, none where there is one stage only."""
    name = str(layout)
    model.ir_version = max(model.ir_version, _FIRST_IR_VERSION)
    model.configuration.add(name=name, num_devices=layout.devices)
    for node, stage in zip(model.graph.node, stages, strict=False):
        _said(node, name).pipeline_stage = stage
    for each in dict.fromkeys(wanted):
        stage = stages[each.node] if stages else 0
        _write(_said(model.graph.node[each.node], name), each, layout, stage)


def _said(node: NodeProto, configuration: str) -> NodeDeviceConfigurationProto:
    matches = (each for each in node.device_configurations if each.configuration_id == configuration)
    return next(matches, None) or node.device_configurations.add(configuration_id=configuration)


def _write(said: NodeDeviceConfigurationProto, wanted: Wanted, layout: Layout, stage: int) -> None:
    spec = said.sharding_spec.add(tensor_name=wanted.tensor)
    axes = ((wanted.batch_axis, layout.batch), (wanted.tensor_axis, layout.tensor))
    divided = sorted((axis, shards) for axis, shards in axes if axis is not None and shards > 1)
    for axis, shards in divided:
        spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=shards)
    groups = [
        _holders(dict(zip((axis for axis, _ in divided), block, strict=True)), wanted, layout, stage)
        for block in itertools.product(*(range(shards) for _, shards in divided))
    ]
    if not divided or len(groups[0]) == 1:
        spec.device.extend(device for group in groups for device in group)
        return
    # Keys below 0 are the ordinals of no device.
    for key, group in enumerate(groups, 1):
        spec.device.append(-key)
        spec.index_to_device_group_map.add(key=-key, value=group)


def _holders(block: dict[int, int], wanted: Wanted, layout: Layout, stage: int) -> list[int]:
    """The devices of a stage that hold the block with these coordinates along the divided axes."""
    parts = ((wanted.batch_axis, layout.batch), (wanted.tensor_axis, layout.tensor))
    ranges = [[block[axis]] if axis is not None and axis in block else range(count) for axis, count in parts]
    first = stage * layout.batch * layout.tensor
    return [first + batch * layout.tensor + tensor for batch, tensor in itertools.product(*ranges)]
