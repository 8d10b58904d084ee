"""The shardings of one device configuration as the IR writes them: a mesh that fits all of them, and its axes.

A sharding fits a mesh where each of its blocks is told by the coordinates of devices along some axes, the slowest
first. Of the grids of as many devices the first that fits is taken, those of few axes before those of more.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.devices.annotations import ShardedAxis, TensorSharding
from onnxc.compiler.frontend.graph import CheckedModel, GraphNode, all_nodes
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.sharding import Axes, Mesh, Sharding
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.errors import InputError, UnsupportedError, located

MOST_DEVICES = 64
"""For one process: as many threads on the largest machines are no use to a call, and meshes of more take long to find.

An estimate; of 64 devices there are 32 grids.
"""

_UNSUPPORTED = "unsupported-sharding"


@dataclass(frozen=True)
class NodeShardings:
    """For the nodes of a model how one configuration divides their tensors over `mesh`."""

    configuration: str
    mesh: Mesh

    def resharded(self, node: GraphNode, name: str, value: Value | None, ir: Builder) -> Value | None:
        """The value `name` of a node, divided as the node says; where it says nothing, as it is."""
        found = next((s for s in shardings_of(node, self.configuration) if s.tensor == name), None)
        if found is None or value is None or not isinstance(value.type, TensorType) or value.type.shape is None:
            return value
        # Integers that sizes are made of are known on every device.
        if value.dtype.is_string or ir.known(value) is not None:
            return value
        sharding = Sharding(_dims(found, self.mesh, value.rank))
        return ir.op("reshard", [value], {"mesh": str(self.mesh), "sharding": str(sharding)})[0]


def shardings_of(node: GraphNode, configuration: str) -> tuple[TensorSharding, ...]:
    """What the node says of its tensors in a configuration."""
    return next((devices.shardings for devices in node.devices if devices.configuration == configuration), ())


def choose_configuration(model: CheckedModel, name: str, devices: int | None) -> NodeShardings:
    """The shardings of the configuration `name`, for as many devices as it has.

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
    if count > MOST_DEVICES:
        message = f"config {name!r} is for {count} devices; the most that run in one process are {MOST_DEVICES}"
        raise UnsupportedError(message, code=_UNSUPPORTED)
    nodes = list(all_nodes(model.graph))
    _expect_one_stage(nodes, name)
    found = [(sharding, node.location) for node in nodes for sharding in shardings_of(node, name)]
    return NodeShardings(name, _find_mesh(found, count))


def _expect_one_stage(nodes: Sequence[GraphNode], name: str) -> None:
    said = (devices for node in nodes for devices in node.devices if devices.configuration == name)
    stages = sorted({devices.stage for devices in said if devices.stage is not None})
    if len(stages) > 1:
        message = f"config {name!r} has the pipeline stages {', '.join(map(str, stages))}, and pipelines do not run yet"
        raise UnsupportedError(message, code="unsupported-pipeline")


def _find_mesh(found: Sequence[tuple[TensorSharding, Location]], count: int) -> Mesh:
    for sharding, location in found:
        _expect_executable(sharding, count, location)
    last: tuple[TensorSharding, Location] | None = None
    for sizes in sorted(_grids(count), key=len):
        mesh = Mesh(tuple((f"d{index}", size) for index, size in enumerate(sizes)))
        last = next(((s, location) for s, location in found if _axes_of(s, mesh) is None), None)
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


def _expect_executable(sharding: TensorSharding, count: int, location: Location) -> None:
    """UnsupportedError for shardings that leave out devices, or divide a factor within an axis."""
    held = {device for holders in sharding.holders for device in holders}
    problem = None
    if held != set(range(count)):
        idle = ", ".join(str(device) for device in range(count) if device not in held)
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
    found, stride = [], sharding.shards
    for axis in sharding.axes:
        stride //= axis.shards
        blocks = {device: cell // stride % axis.shards for device, cell in cells.items()}
        names = _axes_that_tell(blocks, axis.shards, mesh)
        if names is None:
            return None
        found.append(names)
    return tuple(found)


def _axes_that_tell(blocks: Mapping[int, int], count: int, mesh: Mesh) -> Axes | None:
    """The axes along which the block of a device changes, the slowest first; None where they do not tell it."""
    steps = {name: blocks[mesh.strides[name]] for name, size in mesh.axes if size > 1}
    names = tuple(sorted((name for name in steps if steps[name]), key=lambda name: -steps[name]))
    is_told = all(mesh.block(device, names) == block for device, block in blocks.items())
    return names if is_told and mesh.shards(names) == count else None
