"""For each code of a wrong annotation a sentence of the standard that it breaks, or the ruling where it has none.

Sentences in quotation marks are those of onnx.proto and of docs/IR.md; README.md says why rulings are what they are.
"""

from collections.abc import Mapping

_MUST = '"This field MUST be present for this version of the IR.'
_MATCH = 'NodeDeviceConfigurationProto.configuration_id: "MUST match the name of a DeviceConfigurationProto."'

RULES: Mapping[str, str] = {
    "device-configuration-name": f'DeviceConfigurationProto.name: {_MUST}"',
    "duplicate-device-configuration": f"{_MATCH} One name of two configurations does not say which.",
    "device-count": f'DeviceConfigurationProto.num_devices: {_MUST} Number of devices inside this configuration."',
    "device-names": (
        'DeviceConfigurationProto.device: "Optional names of the devices. MUST be length of num_devices if provided."'
    ),
    "unknown-device-configuration": _MATCH,
    "duplicate-node-configuration": "Ruling: a node says once what it does in a configuration.",
    "pipeline-stage": "Ruling: stages are counted from 0.",
    "sharding-tensor": (
        "ShardingSpecProto.tensor_name: \"Required to match a name specified in the node's input or output list of "
        'ValueInfoProtos."'
    ),
    "duplicate-sharding": "Ruling: a tensor of a node has one sharding in a configuration.",
    "sharding-device": (
        'ShardingSpecProto.device: "Each element v in above field devices may represent either a device or a set of '
        'devices". Ruling: a device is one of 0 to num_devices - 1, and holds one shard.'
    ),
    "sharding-group": (
        'ShardingSpecProto.index_to_device_group_map: "If the map contains an entry for v, then v represents a device '
        'group, and the map indicates the set of devices in that group." Ruling: a device holds one shard.'
    ),
    "sharding-device-count": (
        'ShardingSpecProto.device: "the list of devices across which the logical tensor is sharded or replicated". '
        "Ruling: as many as there are shards, or one shard for all."
    ),
    "sharding-axis": (
        f"ShardedDimProto.axis: {_MUST} The axis this sharding corresponds to. Must be in the range of [-r, r - 1], "
        'where r is the rank of the tensor." Ruling: each axis once.'
    ),
    "sharding-shards": f'SimpleShardedDimProto.num_shards: {_MUST} Number of shards to split dim into."',
    "sharding-factors": (
        'SimpleShardedDimProto: "Indicates that N blocks are divided into M shards." Ruling: the product of all N of '
        "an axis is its size, one of them at most is left out, and no N is below its M."
    ),
    "sharding-size-name": 'SimpleShardedDimProto: "N is allowed to be symbolic". Ruling: a size has that name.',
    "device-configuration-version": "IR.md: multi-device configurations are there from IR version 11 on.",
}
