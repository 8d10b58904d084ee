"""A model as views: its graph, the graphs within nodes and its functions, each laid out, as data for a page.

A model that is wrong has views too: nothing here expects more of a message than that it could be parsed.
"""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import field

from onnxc.compiler.diagnostics import Diagnostic
from onnxc.compiler.frontend.about import free_text
from onnxc.compiler.frontend.functions import FunctionKey, ModelFunction, all_nodes, node_key, subgraphs
from onnxc.compiler.frontend.graph import Tensor
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)
from onnxc.compiler.frontend.schemas import normal_domain, versions_of
from onnxc.compiler.frontend.tensor_error import TensorError
from onnxc.compiler.frontend.tensors import TensorStore, read_tensor
from onnxc.compiler.frontend.value_types import TypeReader
from onnxc.inspecting.attribute_texts import attribute_texts
from onnxc.inspecting.weights import statistics
from onnxc.runtime.pages.drawing import Box, drawing
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["model_views"]

Container = GraphProto | FunctionProto
Json = dict[str, JsonValue]

# Protobuf parses no deeper; a message made in memory may be.
DEEPEST = 100


def model_views(model: ModelProto, store: TensorStore, findings: Sequence[Diagnostic]) -> list[Json]:
    """The views of a model, that of its graph first; `findings` are at their nodes, by their ordinals.

    store: where the elements of its weights are.
    """
    sources = _all_sources(model)
    paths = {source.path: ordinal for ordinal, source in enumerate(sources)}
    known = _Known(paths, _findings_by_node(findings, paths, _called_paths(sources, paths)), store)
    return [_view(source, known) for source in sources]


@record
class _Source:
    """What a view is of; `values` are the types and weights that can be seen there, those from around it too."""

    path: str
    container: Container
    reader: TypeReader
    functions: Mapping[FunctionKey, ModelFunction]
    parent: str | None = None
    depth: int = 0
    values: MutableMapping[str, Json] = field(default_factory=dict)


@record
class _Known:
    """What all views share: their ordinals by path, findings by path and index of a node, and where weights are."""

    paths: Mapping[str, int]
    findings: Mapping[tuple[str, int], list[JsonValue]]
    store: TensorStore


def _all_sources(model: ModelProto) -> list[_Source]:
    functions = {function.key: function for function in map(ModelFunction, model.functions)}
    main = _Source("main", model.graph, TypeReader.of_inputs(model.graph.input), functions)
    bodies = (_Source(each.path, each.proto, TypeReader(), functions) for each in functions.values())
    return [source for top in (main, *bodies) for source in _with_inner(top)]


def _with_inner(source: _Source) -> Iterator[_Source]:
    """The source, and those of the graphs in its nodes."""
    yield source
    for index, node in enumerate(source.container.node if source.depth < DEEPEST else ()):
        for label, graph in subgraphs(node):
            path = f"{_call_path(source.path, index, node)}.{free_text(label)}"
            inner = ChainMap({}, source.values)
            yield from _with_inner(
                _Source(path, graph, source.reader, source.functions, source.path, source.depth + 1, inner)
            )


def _call_path(path: str, index: int, node: NodeProto) -> str:
    return f"{path}/{free_text(node.op_type)}_{index}"


# Findings at their nodes


def _called_paths(sources: Iterable[_Source], paths: Mapping[str, int]) -> dict[str, str]:
    """For the path of each call of a function, as expanded, the path of the view of that function."""
    return {
        _call_path(source.path, index, node): called.path
        for source in sources
        for index, node in enumerate(source.container.node)
        if (called := source.functions.get(node_key(node))) is not None and called.path in paths
    }


def _findings_by_node(
    findings: Sequence[Diagnostic], paths: Mapping[str, int], calls: Mapping[str, str]
) -> dict[tuple[str, int], list[JsonValue]]:
    by_node: dict[tuple[str, int], list[JsonValue]] = {}
    for ordinal, finding in enumerate(findings):
        location = finding.location
        if location is not None and location.index is not None:
            path = location.graph if location.graph in paths else _path_of_view(location.graph, calls)
            by_node.setdefault((path, location.index), []).append(ordinal)
    return by_node


def _path_of_view(path: str, calls: Mapping[str, str]) -> str:
    """The path of a view for one in which the calls of functions are expanded."""
    first, *rest = path.split("/")
    for part in rest:
        longer = f"{first}/{part}"
        first = calls.get(longer, longer)
    return first


# A view


def _view(source: _Source, known: _Known) -> Json:
    container, path = source.container, source.path
    inputs, outputs = _ends(container, "input"), _ends(container, "output")
    source.values.update(_values(source, known.store))
    nodes = [_node(index, node, source, known) for index, node in enumerate(container.node)]
    fed = [name for name in inputs if "weight" not in source.values.get(name, {})]
    produced = {name for node in nodes for name in node.outputs} | {*fed}
    captured = dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in produced)
    boxes = [
        *(Box("input", name, (), (name,)) for name in fed),
        *(Box("outer", name, (), (name,)) for name in captured if "weight" not in source.values.get(name, {})),
        *nodes,
        *(Box("output", name, (name,), ()) for name in outputs),
    ]
    used = dict.fromkeys(name for box in boxes for name in (*box.inputs, *box.outputs))
    values: Json = {name: source.values[name] for name in used if name in source.values}
    parent = None if source.parent is None else known.paths[source.parent]
    return {"path": path, "parent": parent, "values": values, **drawing(boxes)}


def _ends(container: Container, side: str) -> list[str]:
    ends: Iterable[ValueInfoProto | str] = getattr(container, side)
    return [free_text(end.name if isinstance(end, ValueInfoProto) else end) for end in ends]


def _values(source: _Source, store: TensorStore) -> dict[str, Json]:
    """For each value of the container with a type or elements: both as texts."""
    container = source.container
    infos, weights = [*container.value_info], _constant_nodes(container.node)
    if isinstance(container, GraphProto):
        infos += [*container.input, *container.output]
        weights += [(tensor.name, tensor, "") for tensor in container.initializer]
        weights += [
            (each.values.name, each.values, f"sparse{[*each.dims]} of ") for each in container.sparse_initializer
        ]
    types = ((free_text(info.name), source.reader.read(free_text(info.name), info.type)) for info in infos)
    values: dict[str, Json] = {name: {"type": str(type)} for name, type in types if type is not None}
    return values | {free_text(name): _weight(tensor, store, prefix) for name, tensor, prefix in weights}


def _constant_nodes(nodes: Iterable[NodeProto]) -> list[tuple[str, TensorProto, str]]:
    return [
        (node.output[0], attribute.t, "")
        for node in nodes
        if node.op_type == "Constant" and len(node.output) == 1
        for attribute in node.attribute
        if attribute.HasField("t")
    ]


def _weight(tensor: TensorProto, store: TensorStore, prefix: str) -> Json:
    try:
        read: Tensor = read_tensor(tensor, store)
    except TensorError as problem:
        return {"weight": {"unreadable": str(problem)}}
    return {"type": f"{prefix}{read}", "weight": statistics(read)}


def _node(index: int, node: NodeProto, source: _Source, known: _Known) -> Box:
    path = _call_path(source.path, index, node)
    called, scope = source.functions.get(node_key(node)), _scope(node)
    opens: dict[str, JsonValue] = {
        free_text(label): known.paths[f"{path}.{free_text(label)}"]
        for label, _ in subgraphs(node)
        if f"{path}.{free_text(label)}" in known.paths
    }
    if called is not None:
        opens["body"] = known.paths[called.path]
    details: Json = {
        "index": index,
        "operator": free_text(node.op_type),
        "domain": free_text(node.domain),
        "documentation": _documentation(node) if called is None else "",
        "attributes": attribute_texts(node),
        "metadata": {free_text(entry.key): free_text(entry.value) for entry in node.metadata_props},
        "notes": free_text(node.doc_string),
        "scope": "/".join(scope),
        "opens": opens,
        "devices": _devices(node),
        "findings": known.findings.get((source.path, index), []),
    }
    inputs, outputs = (tuple(map(free_text, names)) for names in (node.input, node.output))
    kept = {name: value for name, value in details.items() if value not in ("", {}, [])}
    return Box("node", free_text(node.name), inputs, outputs, kept, scope, _captures(node))


def _captures(node: NodeProto) -> tuple[str, ...]:
    """What the graphs within a node read, in order; names of their own among them lead nowhere outside."""
    inner = (each for _, graph in subgraphs(node) for each in all_nodes(graph.node))
    return tuple(dict.fromkeys(free_text(name) for each in inner for name in each.input if name))


def _documentation(node: NodeProto) -> str:
    """Where the standard describes the operator; empty for those of others."""
    domain = normal_domain(free_text(node.domain))
    if domain and not domain.startswith("ai.onnx"):
        return ""
    operator = free_text(node.op_type)
    known = versions_of(domain, operator)
    return f"https://onnx.ai/onnx/operators/onnx_{domain.replace('.', '')}_{operator}.html" if known else ""


def _devices(node: NodeProto) -> Json:
    """For each device configuration that the node names, its stage and how tensors are divided."""
    return {
        free_text(each.configuration_id): {
            "stage": each.pipeline_stage if each.HasField("pipeline_stage") else None,
            "devices": sorted({device for spec in each.sharding_spec for device in spec.device}),
            "divides": [
                f"{free_text(spec.tensor_name)}: "
                + ", ".join(f"axis {dim.axis} by {_shards(dim.simple_sharding)}" for dim in spec.sharded_dim)
                for spec in each.sharding_spec
            ],
        }
        for each in node.device_configurations
    }


def _shards(factors: Iterable[object]) -> str:
    return " x ".join(str(getattr(factor, "num_shards", "")) for factor in factors)


def _scope(node: NodeProto) -> tuple[str, ...]:
    """The scopes of the program that the node was exported from: /encoder/layer.0/MatMul is in encoder, layer.0.

    PyTorch's newer exporter tells them in metadata, each with its class behind a colon.
    """
    namespace = next((free_text(entry.value) for entry in node.metadata_props if entry.key == "namespace"), "")
    parts = [part.split(":")[0] for part in namespace.split("/")] if namespace else free_text(node.name).split("/")
    return tuple(part for part in parts[:-1] if part)
