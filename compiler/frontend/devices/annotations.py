"""What nodes say of devices: for each configuration of the model a pipeline stage, and how tensors are divided.

Plain data, with the names that values have in the checked model; what it must fulfil is in checks/devices.py.
"""

from collections.abc import Iterable, Mapping
from math import prod

from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    NodeDeviceConfigurationProto,
    ShardedDimProto,
    ShardingSpecProto,
    SimpleShardedDimProto,
)
from onnxc.runtime.records import record


@record
class Factor:
    """A factor of a divided axis; `size` is a number, a name, or None for what the others leave."""

    size: int | str | None
    shards: int


@record
class ShardedAxis:
    """An axis, which may be negative, as the product of factors, each of which is divided."""

    axis: int
    factors: tuple[Factor, ...]

    @property
    def shards(self) -> int:
        """Into how many shards the axis is divided."""
        return prod(factor.shards for factor in self.factors)


@record
class TensorSharding:
    """How a tensor is divided: `holders` are the devices of each shard, those of the first listed axis slowest."""

    tensor: str
    holders: tuple[tuple[int, ...], ...]
    axes: tuple[ShardedAxis, ...]

    @property
    def shards(self) -> int:
        """Into how many shards the tensor is divided."""
        return prod(axis.shards for axis in self.axes)


@record
class NodeDevices:
    """What a node says of one configuration; `entering` are those of its values that come from another stage."""

    configuration: str
    stage: int | None
    shardings: tuple[TensorSharding, ...]
    entering: tuple[str, ...] = ()

    def of(self, names: Iterable[str]) -> "NodeDevices":
        """The same for a part of the node, which has values of these names only."""
        kept = set(names)
        return NodeDevices(
            self.configuration, self.stage, tuple(sharding for sharding in self.shardings if sharding.tensor in kept)
        )


def read_devices(proto: NodeDeviceConfigurationProto, names: Mapping[str, str]) -> NodeDevices:
    """What `proto` says; `names` are those that the values of its node have in the checked model."""
    stage = proto.pipeline_stage if proto.HasField("pipeline_stage") else None
    return NodeDevices(proto.configuration_id, stage, tuple(_sharding(spec, names) for spec in proto.sharding_spec))


def _sharding(spec: ShardingSpecProto, names: Mapping[str, str]) -> TensorSharding:
    groups = {entry.key: tuple(dict.fromkeys(entry.value)) for entry in spec.index_to_device_group_map}
    holders = tuple(groups.get(device, (device,)) for device in spec.device)
    # What a call leaves out has no name in the body.
    return TensorSharding(names.get(spec.tensor_name, ""), holders, tuple(map(_axis, spec.sharded_dim)))


def _axis(dim: ShardedDimProto) -> ShardedAxis:
    return ShardedAxis(dim.axis, tuple(map(_factor, dim.simple_sharding)))


def _factor(simple: SimpleShardedDimProto) -> Factor:
    sizes: Mapping[str | None, int | str] = {"dim_value": simple.dim_value, "dim_param": simple.dim_param}
    return Factor(sizes.get(simple.WhichOneof("dim")), simple.num_shards)
