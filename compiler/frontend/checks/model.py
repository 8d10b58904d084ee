"""The model as a whole: IR version, operator sets, metadata, documentation, what its IR version does not have yet."""

from collections.abc import Callable, Iterable, Iterator

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.findings import Findings
from onnxc.compiler.frontend.functions import all_nodes, subgraphs
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    StringStringEntryProto,
)
from onnxc.compiler.frontend.schemas import newest_ir_version, newest_opset, normal_domain

_RULE = "ONNX IR, ModelProto"
_OPSET_RULE = "ONNX IR, operator sets"
_METADATA_RULE = "ONNX IR, metadata"

_Entries = Iterable[StringStringEntryProto]


def check_header(model: ModelProto, findings: Findings) -> None:
    """Checks everything outside the graph, save which opsets are needed."""
    newest = newest_ir_version()
    if model.ir_version < 1:
        findings.error("missing-ir-version", f"the IR version is {model.ir_version}", Location(), rule=_RULE)
    elif model.ir_version > newest:
        message = f"the IR version is {model.ir_version}, and the newest one known is {newest}"
        findings.error("unsupported-ir-version", message, Location(), rule=_RULE)
    if not model.HasField("graph"):
        findings.error("missing-graph", "the model has no graph", Location(), rule=_RULE)
    if model.ir_version >= 3 and not model.opset_import:
        message = "no opset is imported; compile(..., opset=) says which it is"
        findings.error("missing-opset-import", message, Location(), rule=_OPSET_RULE)
    if 1 <= model.ir_version < 3 and model.opset_import:
        message = f"opsets are imported, which IR version {model.ir_version} has not: it is opset 1 alone"
        findings.error("unexpected-opset-import", message, Location(), rule=_OPSET_RULE)
    _check_versions(model, findings)
    check_metadata(model, findings)


def check_imports(
    imports: Iterable[OperatorSetIdProto], used_domains: Iterable[str], path: str, findings: Findings
) -> None:
    """Checks the opsets that a model or function imports, once it is known which of them its nodes use."""
    used, seen = frozenset(used_domains), dict[str, int]()
    for imported in imports:
        domain, version = normal_domain(imported.domain), imported.version
        shown = f"{domain or 'ai.onnx'} {version}"
        if domain in seen:
            report = findings.error if seen[domain] != version else findings.warning
            message = f"{domain or 'ai.onnx'} is imported twice, in versions {seen[domain]} and {version}"
            report("duplicate-opset-import", message, Location(path), rule=_OPSET_RULE)
        seen[domain] = version
        newest = newest_opset(domain)
        if newest is not None and not 1 <= version <= newest:
            report = findings.error if domain in used else findings.warning
            message = f"opset {shown} is imported, and versions 1 to {newest} are known"
            report("unsupported-opset-version", message, Location(path), rule=_OPSET_RULE)
        elif not 0 <= version < 1 << 31:
            message = f"opset {shown} is imported, and a version is a positive number of 31 bits"
            findings.error("opset-version-range", message, Location(path), rule=_OPSET_RULE)


# Metadata


def check_metadata(model: ModelProto, findings: Findings) -> None:
    """Checks that keys are distinct: those of the model must be, those of its parts should."""
    for key in _repeated(model.metadata_props):
        message = f"the metadata of the model has the key {key!r} twice"
        findings.error("duplicate-metadata", message, Location(), rule=_METADATA_RULE)
    for entries, location in _metadata_of_parts(model):
        for key in _repeated(entries):
            message = f"the metadata has the key {key!r} twice; the last counts"
            findings.warning("duplicate-part-metadata", message, location, rule=_METADATA_RULE)


def _metadata_of_parts(model: ModelProto) -> Iterator[tuple[_Entries, Location]]:
    yield from _metadata_of_graph(model.graph, "main")
    for function in model.functions:
        path = f"function {function.domain or 'ai.onnx'}.{function.name}"
        yield function.metadata_props, Location(path)
        yield from _metadata_of_nodes(function.node, path)


def _metadata_of_graph(graph: GraphProto, path: str) -> Iterator[tuple[_Entries, Location]]:
    yield graph.metadata_props, Location(path)
    yield from _metadata_of_nodes(graph.node, path)
    for infos in (graph.input, graph.output, graph.value_info):
        for info in infos:
            yield info.metadata_props, Location(path, name=info.name)
    for tensor in graph.initializer:
        yield tensor.metadata_props, Location(path, name=tensor.name)


def _metadata_of_nodes(nodes: Iterable[NodeProto], path: str) -> Iterator[tuple[_Entries, Location]]:
    for index, node in enumerate(nodes):
        yield node.metadata_props, Location(path, index, node.name)


def _repeated(entries: _Entries) -> Iterator[str]:
    """The keys that are there again, each time that they are."""
    seen: set[str | bytes] = set()
    for entry in entries:
        # Free text need not be UTF-8.
        key: str | bytes = entry.key
        if key in seen:
            yield key if isinstance(key, str) else key.decode(errors="replace")
        seen.add(key)


# What came later than the IR version that the model names


def _check_versions(model: ModelProto, findings: Findings) -> None:
    """Reports fields that the IR version of the model does not have; the first of each kind.

    They keep their meaning: onnx's own writer names version 7 for opset 14, whether or not there are functions.
    """
    if not 1 <= model.ir_version <= newest_ir_version():
        return
    for what, since, is_there in _LATER:
        if model.ir_version < since and is_there(model):
            message = f"the model has {what}, which are new in IR version {since}, and names version {model.ir_version}"
            findings.warning("later-ir-version", message, Location(), rule="ONNX IR, versions")
    if model.ir_version < 11 and (model.configuration or _has_device_configurations(model)):
        message = f"device configurations are new in IR version 11, and the model names version {model.ir_version}"
        findings.error("device-configuration-version", message, Location(), rule="ONNX IR, multi-device configuration")


def _bodies(model: ModelProto) -> Iterator[Iterable[NodeProto]]:
    yield model.graph.node
    yield from (function.node for function in model.functions)


def _has_metadata(model: ModelProto) -> bool:
    nodes = (node for body in _bodies(model) for node in all_nodes(body))
    return bool(model.graph.metadata_props) or any(
        node.metadata_props or any(graph.metadata_props for _, graph in subgraphs(node)) for node in nodes
    )


def _has_overloads(model: ModelProto) -> bool:
    return any(function.overload for function in model.functions) or any(node.overload for node in model.graph.node)


def _has_device_configurations(model: ModelProto) -> bool:
    return any(node.device_configurations for body in _bodies(model) for node in all_nodes(body))


# What came with an IR version, and whether a model has it.
_LATER: tuple[tuple[str, int, Callable[[ModelProto], bool]], ...] = (
    ("sparse initializers", 6, lambda model: bool(model.graph.sparse_initializer)),
    ("training information", 7, lambda model: bool(model.training_info)),
    ("functions", 8, lambda model: bool(model.functions)),
    ("attributes of functions with defaults", 9, lambda model: any(f.attribute_proto for f in model.functions)),
    ("metadata of nodes or graphs", 10, _has_metadata),
    ("overloads of functions", 10, _has_overloads),
    ("types in functions", 10, lambda model: any(f.value_info for f in model.functions)),
)
