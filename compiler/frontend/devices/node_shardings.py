"""The shardings of one device configuration as the IR writes them: for each stage a mesh that fits them, and its axes.

A sharding fits a mesh where each of its blocks is told by the coordinates of devices along some axes, the slowest
first. Of the grids of as many devices the first that fits is taken, those of few axes before those of more.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.devices.annotations import ShardedAxis, TensorSharding
from onnxc.compiler.frontend.devices.stages import devices_of_stages, of_configuration
from onnxc.compiler.frontend.graph import CheckedModel, GraphNode, all_nodes
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.sharding import Axes, Mesh, Sharding, Stage
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.errors import InputError, UnsupportedError, located
from onnxc.runtime.records import record

MOST_DEVICES = 64
"""For one process: as many threads on the largest machines are no use to a call, and meshes of more take long to find.

An estimate; of 64 devices there are 32 grids.
"""

_UNSUPPORTED = "unsupported-sharding"


@record
class NodeShardings:
    """For the nodes of a model how one configuration divides their tensors, each over the devices of its stage."""

    configuration: str
    stages: tuple[Stage, ...]

    @property
    def mesh(self) -> Mesh:
        """The mesh of the first stage; where there are no pipeline stages, of all devices."""
        return self.stages[0].mesh

    def resharded(self, node: GraphNode, name: str, value: Value | None, ir: Builder) -> Value | None:
        """The value `name` of a node, divided as the node says, on its stage; where it says nothing, as it is."""
        # Constants, and integers that sizes are made of, are known on every device.
        if value is None or ir.known(value) is not None:
            return value
        said = of_configuration(node, self.configuration)
        stage = next((stage for stage in self.stages if stage.ordinal == said.stage), self.stages[0])
        if name in said.entering and (value.op is None or value.op.name != "constant"):
            value = ir.op("enter_stage", [value], {"stage": stage.ordinal})[0]
        match = next((sharding for sharding in said.shardings if sharding.tensor == name), None)
        if match is None or not isinstance(value.type, TensorType) or value.type.shape is None or value.dtype.is_string:
            return value
        sharding = Sharding(_dims(_on_mesh(match, stage.devices), stage.mesh, value.rank))
        return ir.op("reshard", [value], {"mesh": str(stage.mesh), "sharding": str(sharding)})[0]


def choose_configuration(
    model: CheckedModel, name: str, devices: int | None, most: int = MOST_DEVICES
) -> NodeShardings:
    """The shardings of the configuration `name`, for as many devices as it has, which are `most` or fewer.

    Raises InputError where there is none or it has another number of devices than `devices`, UnsupportedError for what
    cannot be executed yet.
    """
    if name not in model.configurations:
        listed = ", ".join(map(repr, model.configurations)) or "none"
        raise InputError(f"config is {name!r}, the model has {listed}", code="unknown-config")
    count = model.configurations[name]
    if devices is not None and devices != count:
        message = f"config {name!r} is for {count} devices, and devices asks for {devices}"
        raise InputError(message, code="device-count-differs")
    if count > most:
        message = f"config {name!r} is for {count} devices; the most are {most}"
        raise UnsupportedError(message, code=_UNSUPPORTED)
    return NodeShardings(name, tuple(_stages(model, name)))


def _stages(model: CheckedModel, name: str) -> Iterator[Stage]:
    parts = devices_of_stages(model, name)
    for ordinal, devices in parts.items():
        stages = [
            (sharding, node.location)
            for node in all_nodes(model.graph)
            if len(parts) == 1 or of_configuration(node, name).stage == ordinal
            for sharding in of_configuration(node, name).shardings
        ]
        for sharding, location in stages:
            _expect_executable(sharding, devices, location)
        local = [(_on_mesh(sharding, devices), location) for sharding, location in stages]
        yield Stage(ordinal, _find_mesh(local, len(devices)), devices)


def _on_mesh(sharding: TensorSharding, devices: Sequence[int]) -> TensorSharding:
    """The sharding with the ordinals of its holders among the devices of a stage."""
    return replace(sharding, holders=tuple(tuple(map(devices.index, holders)) for holders in sharding.holders))


def _find_mesh(annotations: Sequence[tuple[TensorSharding, Location]], count: int) -> Mesh:
    last: tuple[TensorSharding, Location] | None = None
    for sizes in sorted(_grids(count), key=len):
        mesh = Mesh(tuple((f"d{index}", size) for index, size in enumerate(sizes)))
        last = next(((s, location) for s, location in annotations if _axes_of(s, mesh) is None), None)
        if last is None:
            return mesh
    assert last is not None, count
    message = f'the sharding of "{last[0].tensor}" numbers its devices as no grid does that fits the other shardings'
    raise located(UnsupportedError(message, code=_UNSUPPORTED), last[1])


def _grids(count: int) -> Iterator[tuple[int, ...]]:
    """The ordered factorizations of `count`; of 1 it is 1."""
    yield (count,)
    for first in range(2, count):
        if count % first == 0:
            yield from ((first, *rest) for rest in _grids(count // first))


def _expect_executable(sharding: TensorSharding, devices: Sequence[int], location: Location) -> None:
    """UnsupportedError for shardings that leave out devices of a stage, or divide a factor within an axis."""
    held = {device for holders in sharding.holders for device in holders}
    problem = None
    if held != set(devices):
        idle = ", ".join(str(device) for device in devices if device not in held)
        problem = f"leaves out device {idle}, and each device holds a part of every tensor for now"
    for axis in sharding.axes:
        if any(factor.shards > 1 for factor in axis.factors[1:]):
            problem = f"divides axis {axis.axis} within blocks, and only whole blocks are divided for now"
        elif len(axis.factors) > 1 and not _is_even(axis):
            problem = f"does not divide the first factor of axis {axis.axis} evenly, as it has to for now"
    if problem is not None:
        raise located(UnsupportedError(f'the sharding of "{sharding.tensor}" {problem}', code=_UNSUPPORTED), location)


def _is_even(axis: ShardedAxis) -> bool:
    first = axis.factors[0]
    return first.shards == 1 or (isinstance(first.size, int) and first.size % first.shards == 0)


def _dims(sharding: TensorSharding, mesh: Mesh, rank: int) -> tuple[Axes, ...]:
    """The axes of the mesh for each axis of a tensor of `rank`."""
    axes = _axes_of(sharding, mesh)
    assert axes is not None, (sharding, mesh)
    by_axis = {axis.axis % rank: names for axis, names in zip(sharding.axes, axes, strict=True)}
    return tuple(by_axis.get(axis, ()) for axis in range(rank))


def _axes_of(sharding: TensorSharding, mesh: Mesh) -> tuple[Axes, ...] | None:
    """For each divided axis the axes of the mesh, the slowest first; None where the sharding does not fit."""
    if sharding.shards == 1:
        return ((),) * len(sharding.axes)
    cells = {device: cell for cell, holders in enumerate(sharding.holders) for device in holders}
    axes, stride = [], sharding.shards
    for axis in sharding.axes:
        stride //= axis.shards
        blocks = {device: cell // stride % axis.shards for device, cell in cells.items()}
        names = _axes_that_tell(blocks, axis.shards, mesh)
        if names is None:
            return None
        axes.append(names)
    return tuple(axes)


def _axes_that_tell(blocks: Mapping[int, int], count: int, mesh: Mesh) -> Axes | None:
    """The axes along which the block of a device changes, the slowest first; None where they do not tell it."""
    steps = {name: blocks[mesh.strides[name]] for name, size in mesh.axes if size > 1}
    names = tuple(sorted((name for name in steps if steps[name]), key=lambda name: -steps[name]))
    is_determined = all(mesh.block(device, names) == block for device, block in blocks.items())
    return names if is_determined and mesh.shards(names) == count else None
