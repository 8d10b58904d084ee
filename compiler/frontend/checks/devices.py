"""Device configurations, and how the nodes divide their tensors among the devices of one.

A sharding divides axes into shards; the shards, the first listed axis slowest, go to the listed devices in order. A
listed number that is a key of the map stands for a group of devices, each of which holds the same shard.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.context import Context
from onnxc.compiler.frontend.checks.findings import Findings, Site, listed
from onnxc.compiler.frontend.checks.known_types import KnownTypes, Shape
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    DeviceConfigurationProto,
    NodeDeviceConfigurationProto,
    NodeProto,
    ShardedDimProto,
    ShardingSpecProto,
)
from onnxc.runtime.records import record

_RULE = "ONNX IR, multi-device configuration"
_SPEC_RULE = "ONNX IR, ShardingSpecProto"
_AXIS_RULE = "ONNX IR, ShardedDimProto"


def check_configurations(configurations: Iterable[DeviceConfigurationProto], findings: Findings) -> Mapping[str, int]:
    """Checks the configurations of a model by themselves; the number of devices of each."""
    ordinals: dict[str, int] = {}
    for ordinal, proto in enumerate(configurations):
        location = Location(f"configuration[{ordinal}]", name=proto.name)
        if not proto.name:
            findings.error("device-configuration-name", "a device configuration has no name", location, rule=_RULE)
        elif proto.name in ordinals:
            message = f'two device configurations are named "{proto.name}"'
            findings.error("duplicate-device-configuration", message, location, rule=_RULE)
        ordinals.setdefault(proto.name, proto.num_devices)
        if proto.num_devices < 1:
            message = f"it has {proto.num_devices} devices, and at least 1 is needed"
            findings.error("device-count", message, location, rule=_RULE)
        elif proto.device and not all(proto.device):
            findings.error("device-names", "the name of one of its devices is empty", location, rule=_RULE)
        elif proto.device and len(proto.device) != proto.num_devices:
            message = f"it has {proto.num_devices} devices and names {len(proto.device)}: {listed(proto.device)}"
            findings.error("device-names", message, location, rule=_RULE)
    return ordinals


def check_node_devices(site: Site, context: Context, types: KnownTypes) -> None:
    """Checks what a node says of the configurations of its model."""
    seen: set[str] = set()
    for proto in site.node.device_configurations:
        name = proto.configuration_id
        if name not in context.configurations:
            message = f'the node is configured for "{name}"; the model has {listed(context.configurations)}'
            context.findings.error("unknown-device-configuration", message, site.location(), rule=_RULE)
        if name in seen:
            message = f'the node is configured for "{name}" twice'
            context.findings.error("duplicate-node-configuration", message, site.location(), rule=_RULE)
        seen.add(name)
        if proto.pipeline_stage < 0:
            message = f"the pipeline stage is {proto.pipeline_stage}, and stages are counted from 0"
            context.findings.error("pipeline-stage", message, site.location(), rule=_RULE)
        _check_specs(proto, site, context, types)


def check_stage_order(nodes: Sequence[NodeProto], path: str, context: Context) -> None:
    """Warns where a node reads what a later stage of the pipeline makes; that is legal, and seldom meant."""
    for configuration in context.configurations:
        made: dict[str, int] = {}
        for index, node in enumerate(nodes):
            read = {name: made[name] for name in node.input if name in made}
            stated = [each for each in node.device_configurations if each.configuration_id == configuration]
            stage = stated[0].pipeline_stage if stated and stated[0].HasField("pipeline_stage") else None
            late = [name for name, earlier in read.items() if stage is not None and earlier > stage]
            if late:
                message = f'the node is of stage {stage} and reads "{late[0]}" of stage {read[late[0]]}'
                context.findings.warning("pipeline-order", message, Site(path, index, node).location(), rule=_RULE)
            # A node that states no stage is of the latest that it reads from.
            stage = max(read.values(), default=None) if stage is None else stage
            if stage is not None:
                made.update(dict.fromkeys(filter(None, node.output), stage))


def _check_specs(proto: NodeDeviceConfigurationProto, site: Site, context: Context, types: KnownTypes) -> None:
    count = context.configurations.get(proto.configuration_id)
    names = {name for name in (*site.node.input, *site.node.output) if name}
    seen: set[str] = set()
    for spec in proto.sharding_spec:
        sizes = types.size_names if context.parameters is None else None
        check = _Spec(spec, count, types.shape(spec.tensor_name), sizes, site.location(), context.findings)
        if spec.tensor_name not in names:
            check.error("sharding-tensor", "which is no input or output of the node")
        if spec.tensor_name in seen:
            check.error("duplicate-sharding", "which has another sharding in the same configuration")
        seen.add(spec.tensor_name)
        check.check()


@record
class _Spec:
    """The sharding of one tensor; `count` is how many devices there are, `shape` the tensor's, where known.

    size_names: those of sizes, None where they are not known.
    """

    proto: ShardingSpecProto
    count: int | None
    shape: Shape | None
    size_names: Collection[str] | None
    location: Location
    findings: Findings

    def error(self, code: str, message: str, rule: str = _SPEC_RULE) -> None:
        """Reports what is wrong with it."""
        message = f'the sharding of "{self.proto.tensor_name}", {message}'
        self.findings.error(code, message, self.location, rule=rule)

    def check(self) -> None:
        """Checks devices, groups and axes, and that there is a device for every shard."""
        groups = self._check_groups()
        self._check_devices(groups)
        shards = self._check_axes()
        listed_count = len(self.proto.device)
        if shards is not None and listed_count and shards not in (1, listed_count):
            self.error("sharding-device-count", f"which has {shards} shards, lists {listed_count} devices")

    def _check_groups(self) -> Mapping[int, tuple[int, ...]]:
        groups: dict[int, tuple[int, ...]] = {}
        held: dict[int, int] = {}
        for entry in self.proto.index_to_device_group_map:
            if entry.key in groups:
                self.error("sharding-group", f"which defines the device group {entry.key} twice")
            if not entry.value:
                self.error("sharding-group", f"whose device group {entry.key} is empty")
            groups[entry.key] = members = tuple(entry.value)
            if len(set(members)) < len(members):
                message = f'the sharding of "{self.proto.tensor_name}" lists a device of group {entry.key} twice'
                self.findings.warning("sharding-group", message, self.location, rule=_SPEC_RULE)
            for device in dict.fromkeys(members):
                self._check_ordinal(device)
                if held.setdefault(device, entry.key) != entry.key:
                    self.error("sharding-group", f"whose groups {held[device]} and {entry.key} share device {device}")
            if self.count is not None and 0 <= entry.key < self.count and set(members) != {entry.key}:
                self.error("sharding-group", f"whose group {entry.key} has the number of a device")
        return groups

    def _check_devices(self, groups: Mapping[int, tuple[int, ...]]) -> None:
        if not self.proto.device:
            self.error("sharding-device", "which lists no device")
        seen: set[int] = set()
        held = {member: key for key in dict.fromkeys(self.proto.device) if key in groups for member in groups[key]}
        for device in self.proto.device:
            if device in seen:
                self.error("sharding-device", f"which lists {device} twice")
            seen.add(device)
            if device not in groups:
                self._check_ordinal(device)
                if device in held:
                    self.error("sharding-device", f"which lists device {device} beside its group {held[device]}")

    def _check_ordinal(self, device: int) -> None:
        if device < 0:
            self.error("sharding-device", f"which lists {device}, neither a device nor a group of its map")
        elif self.count is not None and device >= self.count:
            self.error("sharding-device", f"which lists device {device}; the configuration has {self.count}")

    def _check_axes(self) -> int | None:
        """How many shards there are; None where that is not known."""
        shards: int | None = 1
        seen: list[int] = []
        rank = None if self.shape is None else len(self.shape)
        for dim in self.proto.sharded_dim:
            axis, size = dim.axis, None
            if not dim.HasField("axis"):
                self.error("sharding-axis", "which divides an axis without saying which", _AXIS_RULE)
            elif rank is not None and not -rank <= axis < rank:
                bounds = f"[{-rank}, {rank - 1}]" if rank else "a tensor without axes"
                self.error("sharding-axis", f"which divides axis {axis}, outside {bounds}", _AXIS_RULE)
            elif (normalized := axis % rank if rank else axis) in seen:
                self.error("sharding-axis", f"which divides axis {axis} twice", _AXIS_RULE)
            else:
                seen.append(normalized)
                size = self.shape[axis] if self.shape else None
            factor = self._check_simple(dim, size)
            shards = None if shards is None or factor is None else shards * factor
        if seen != sorted(seen) and min(seen) >= 0:
            message = f'the sharding of "{self.proto.tensor_name}" lists axes {seen}, the slowest first'
            self.findings.warning("sharding-order", message, self.location, rule=_AXIS_RULE)
        return shards

    def _check_simple(self, dim: ShardedDimProto, size: int | None) -> int | None:
        """The shards of one axis, which has `size` elements, where known."""
        if not dim.simple_sharding:
            self.error("sharding-shards", f"which does not say how axis {dim.axis} is divided", _AXIS_RULE)
            return None
        open_factors = 0
        for simple in dim.simple_sharding:
            open_factors += simple.WhichOneof("dim") is None
            if simple.dim_param and self.size_names is not None and simple.dim_param not in self.size_names:
                message = f'which takes axis {dim.axis} for "{simple.dim_param}", and no size has that name'
                self.error("sharding-size-name", message, _AXIS_RULE)
            if simple.num_shards < 1:
                self.error(
                    "sharding-shards", f"which divides axis {dim.axis} into {simple.num_shards} shards", _AXIS_RULE
                )
                return None
            if simple.WhichOneof("dim") == "dim_value" and simple.dim_value < simple.num_shards:
                message = (
                    f"which divides {simple.dim_value} elements of axis {dim.axis} into {simple.num_shards} shards"
                )
                self.error("sharding-factors", message, _AXIS_RULE)
        if open_factors > 1:
            self.error("sharding-factors", f"which leaves {open_factors} factors of axis {dim.axis} open", _AXIS_RULE)
        known = [simple.dim_value for simple in dim.simple_sharding if simple.WhichOneof("dim") == "dim_value"]
        if size is not None and len(known) == len(dim.simple_sharding) and math.prod(known) != size:
            message = f"which takes axis {dim.axis} for {' * '.join(map(str, known))} elements; it has {size}"
            self.error("sharding-factors", message, _AXIS_RULE)
        elif size is not None and len(known) < len(dim.simple_sharding) and size % math.prod(known):
            message = f"which takes axis {dim.axis} for a multiple of {math.prod(known)} elements; it has {size}"
            self.error("sharding-factors", message, _AXIS_RULE)
        return math.prod(simple.num_shards for simple in dim.simple_sharding)
