"""The kernels of a program and the ONNX nodes that they came from, as two graphs with the links between them."""

import re
from collections.abc import Iterator, Mapping, Sequence

from onnxc.runtime.pages.drawing import Box, drawing
from onnxc.runtime.profiling.report_entries import entries_of, texts_of
from onnxc.runtime.program import JsonValue

__all__ = ["kernel_and_node_graphs"]

# A node as reports name it; names may hold quotes and parentheses.
_NODE = re.compile(r'graph "(.*?)", node \d+(?: "(.*)")?(?: \((.*)\))?', re.DOTALL)


def kernel_and_node_graphs(report: JsonValue, inputs: Sequence[str], outputs: Sequence[str]) -> JsonValue:
    """Both as drawings for a page, and "links": for each box among the kernels those of its nodes; None without nodes.

    inputs, outputs: the names of the program's. The boxes of launches have "launch", their ordinal in the report.
    """
    nodes = list(_node_boxes(report))
    if not nodes:
        return None
    kernels = list(_kernel_boxes(report))
    node_boxes, kernel_boxes = (_with_ends(boxes, inputs, outputs) for boxes in (nodes, kernels))
    ordinals = {str(box.details["node"]): k for k, box in enumerate(node_boxes) if "node" in box.details}
    links: list[JsonValue] = [
        [ordinals[name] for name in texts_of(box.details, "nodes") if name in ordinals] for box in kernel_boxes
    ]
    return {
        "kernels": {"path": "kernels", "values": {}, **drawing(kernel_boxes)},
        "nodes": {"path": "nodes", "values": {}, **drawing(node_boxes)},
        "links": links,
    }


def _with_ends(boxes: Sequence[Box], inputs: Sequence[str], outputs: Sequence[str]) -> list[Box]:
    """The boxes behind those of inputs that they read, and before those of outputs that they make."""
    read = {name for box in boxes for name in box.inputs}
    made = {name for box in boxes for name in box.outputs}
    first = (Box("input", name, (), (name,)) for name in inputs if name in read)
    return [*first, *boxes, *(Box("output", name, (name,), ()) for name in outputs if name in made)]


def _node_boxes(report: JsonValue) -> Iterator[Box]:
    for entry in entries_of(report, "nodes"):
        name, operator = _parts(str(entry.get("node")))
        details: dict[str, JsonValue] = {"operator": operator, "node": entry.get("node")}
        yield Box("node", name, texts_of(entry, "reads"), texts_of(entry, "writes"), details, _scope(name))


def _kernel_boxes(report: JsonValue) -> Iterator[Box]:
    """Launches and steps on the host in their order."""
    launches, hosts = entries_of(report, "launches"), entries_of(report, "host_steps")
    for ordinal, entry in enumerate((*launches, {})):
        yield from (_host_box(host) for host in hosts if host.get("before") == ordinal)
        if entry:
            yield _launch_box(ordinal, entry)


def _launch_box(ordinal: int, entry: Mapping[str, JsonValue]) -> Box:
    steps = entries_of(entry, "steps")
    kernel = str(steps[-1].get("kernel", "")) if steps else ""
    nodes = texts_of(entry, "nodes")
    details: dict[str, JsonValue] = {
        "operator": f"{kernel} {entry.get('kind')}",
        "launch": ordinal,
        "nodes": nodes,
    }
    name = _parts(nodes[0])[0] if nodes else ""
    return Box("node", name, texts_of(entry, "reads"), texts_of(entry, "writes"), details)


def _host_box(entry: Mapping[str, JsonValue]) -> Box:
    node = str(entry.get("node", ""))
    name, operator = _parts(node)
    details: dict[str, JsonValue] = {"operator": f"{operator or entry.get('op')} on the host", "nodes": [node]}
    return Box("node", name, texts_of(entry, "reads"), texts_of(entry, "writes"), details)


def _parts(node: str) -> tuple[str, str]:
    """The name of a node and its operator, without a domain and a version."""
    match = _NODE.fullmatch(node)
    if match is None:
        return node, ""
    _, name, operator = match.groups()
    return name or "", re.sub(r"^(.*\.)?(.*)-\d+$", r"\2", operator or "")


def _scope(name: str) -> tuple[str, ...]:
    """The scopes of the program that a node was exported from: /encoder/layer.0/MatMul is in encoder, layer.0."""
    return tuple(part for part in name.split("/")[:-1] if part)
