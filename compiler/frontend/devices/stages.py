"""Pipeline stages: which stage each node of a model is of, what it reads from other stages, and the devices of a stage.

A node that states no stage is of the latest stage that it reads from. Inputs of the model are of the first stage; what
is made of constants alone is of none, and is there wherever it is read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.frontend.devices.annotations import NodeDevices
from onnxc.compiler.frontend.graph import AttributeScalar, AttributeValue, CheckedModel, Graph, GraphNode, all_nodes
from onnxc.runtime.errors import UnsupportedError, located

__all__ = ["devices_of_stages", "of_configuration", "with_stages"]

_UNSUPPORTED = "unsupported-pipeline"


def of_configuration(node: GraphNode, configuration: str) -> NodeDevices:
    """What the node says of a configuration."""
    nothing = NodeDevices(configuration, None, ())
    return next((devices for devices in node.devices if devices.configuration == configuration), nothing)


def with_stages(model: CheckedModel, configuration: str) -> CheckedModel:
    """The model whose nodes all say their stages, and what comes from others; as it is where there are not several."""
    stages = {of_configuration(node, configuration).stage for node in all_nodes(model.graph)} - {None}
    if len(stages) < 2:
        return model
    first = min(stage for stage in stages if stage is not None)
    makers: dict[str, int | None] = {info.name: first for info in model.graph.inputs}
    makers |= dict.fromkeys(model.graph.initializers)
    nodes = []
    for node in model.graph.nodes:
        read = dict.fromkeys(_names_read(node))
        known = [stage for name in read if (stage := makers.get(name)) is not None]
        stage = _stated(node, configuration)
        stage = max(known, default=None) if stage is None else stage
        entering = [name for name in read if makers.get(name) not in (None, stage)]
        # An op with blocks also reads what no input names: what it gives is of its stage wherever it is computed.
        entering += [name for name in node.outputs if name and any(node.subgraphs())]
        nodes.append(_on_stage(node, configuration, stage, tuple(entering)))
        makers.update(dict.fromkeys(filter(None, node.outputs), stage))
    return replace(model, graph=replace(model.graph, nodes=tuple(nodes)))


def devices_of_stages(model: CheckedModel, configuration: str) -> Mapping[int, tuple[int, ...]]:
    """The devices of each stage, in order: those that its shardings name, else an equal part of them all.

    Where they cannot be parted equally, stages are of one device each. Raises UnsupportedError where there are fewer
    devices than stages, or what is left to a stage overlaps what another names.
    """
    count, named = model.configurations[configuration], dict[int, set[int]]()
    for node in all_nodes(model.graph):
        said = of_configuration(node, configuration)
        if said.stage is not None:
            holders = [holder for sharding in said.shardings for holder in sharding.holders]
            named.setdefault(said.stage, set()).update(*holders)
    stages = sorted(named)
    if len(stages) < 2:
        return {stage: tuple(range(count)) for stage in stages or [0]}
    each = count // len(stages) if count % len(stages) == 0 else 1
    devices = {
        stage: tuple(sorted(named[stage] or range(index * each, (index + 1) * each)))
        for index, stage in enumerate(stages)
    }
    for stage in stages:
        taken = set[int]().union(*(named[other] for other in stages if other != stage))
        if not named[stage] and (taken & set(devices[stage]) or max(devices[stage]) >= count):
            message = (
                f"no device of config {configuration!r} is left for stage {stage}: it would run on {devices[stage]}"
            )
            raise UnsupportedError(message, code=_UNSUPPORTED)
    return devices


def _stated(node: GraphNode, configuration: str) -> int | None:
    """The stage that the node states, or that the nodes of its bodies do. UnsupportedError where these differ."""
    stages = [of_configuration(each, configuration).stage for each in (node, *_inner_nodes(node))]
    different = sorted({stage for stage in stages if stage is not None})
    if len(different) > 1:
        message = f"the bodies of {node.operator} are of the stages {', '.join(map(str, different))}, and run on one"
        raise located(UnsupportedError(message, code=_UNSUPPORTED), node.location)
    return different[0] if different else None


def _inner_nodes(node: GraphNode) -> Iterator[GraphNode]:
    for graph in node.subgraphs():
        yield from all_nodes(graph)


def _names_read(node: GraphNode) -> Sequence[str]:
    """What the node and its bodies read, and what the bodies give; names inside of bodies are those of no one else."""
    inner = [name for each in _inner_nodes(node) for name in each.inputs]
    given = [info.name for each in (node, *_inner_nodes(node)) for graph in each.subgraphs() for info in graph.outputs]
    return [name for name in (*node.inputs, *inner, *given) if name]


def _on_stage(node: GraphNode, configuration: str, stage: int | None, entering: tuple[str, ...]) -> GraphNode:
    """The node, and those of its bodies, on a stage."""
    said = replace(of_configuration(node, configuration), stage=stage, entering=entering)
    others = tuple(devices for devices in node.devices if devices.configuration != configuration)
    attributes = {name: _inner_on_stage(value, configuration, stage) for name, value in node.attributes.items()}
    return replace(node, attributes=attributes, devices=(*others, said))


def _inner_on_stage(value: AttributeValue, configuration: str, stage: int | None) -> AttributeValue:
    def moved(part: AttributeScalar) -> AttributeScalar:
        if not isinstance(part, Graph):
            return part
        return replace(part, nodes=tuple(_on_stage(node, configuration, stage, ()) for node in part.nodes))

    return tuple(map(moved, value)) if isinstance(value, tuple) else moved(value)
