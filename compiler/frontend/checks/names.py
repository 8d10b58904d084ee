"""Names: every value is defined once and before it is used, and what a graph returns exists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.diagnostics import Location
from compiler.frontend.checks.findings import Findings, Site, listed
from compiler.frontend.functions import DEPTH_LIMIT, ModelFunction, subgraphs
from compiler.frontend.proto.onnxc_pb2 import GraphProto, NodeProto

_RULE = "ONNX IR, names within a graph"

# In the order of definition, so that findings come in one order.
_Names = Mapping[str, None]


@dataclass(frozen=True)
class _Body:
    """What graphs and functions have in common."""

    path: str
    inputs: Sequence[str]
    initializers: Sequence[str]
    nodes: Sequence[NodeProto]
    outputs: Sequence[str]


def check_graph_names(graph: GraphProto, findings: Findings) -> None:
    """Checks the main graph and all graphs in it."""
    _Walk(findings).check_closed(_graph_body(graph, "main"))


def check_function_names(function: ModelFunction, findings: Findings) -> None:
    """Checks the body of a function, which sees nothing outside."""
    proto = function.proto
    _Walk(findings).check_closed(_Body(function.path, list(proto.input), [], proto.node, list(proto.output)))


def _graph_body(graph: GraphProto, path: str) -> _Body:
    inputs = [info.name for info in graph.input]
    initializers = [tensor.name for tensor in graph.initializer]
    initializers += [tensor.values.name for tensor in graph.sparse_initializer]
    return _Body(path, inputs, initializers, graph.node, [info.name for info in graph.output])


class _Walk:
    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def check_closed(self, body: _Body) -> None:
        """Checks a body that sees no other names."""
        for name, location in self._check(body, ()).items():
            self.findings.error("undefined-name", f'"{name}" is used and never defined', location, rule=_RULE)

    def _check(self, body: _Body, enclosing: tuple[_Names, ...]) -> Mapping[str, Location]:
        """Checks one body and those inside; the names that it uses and does not define, with their first use."""
        producers = self._definitions(body)
        here = {**dict.fromkeys(body.inputs), **dict.fromkeys(body.initializers), **dict.fromkeys(producers)}
        self._check_shadowing(body, here, enclosing)
        defined = {*body.inputs, *body.initializers}
        free: dict[str, Location] = {}
        late: list[tuple[int, str]] = []
        uses: list[Sequence[str]] = []
        for index, node in enumerate(body.nodes):
            site = Site(body.path, index, node)
            inner = self._inner_names(site, (*enclosing, here))
            uses.append([name for name in (*node.input, *inner) if name])
            for name in uses[-1]:
                if name in defined:
                    continue
                if name in producers:
                    late.append((index, name))
                elif name not in free:
                    free[name] = inner.get(name) or site.location()
            defined.update(node.output)
        if late:
            self._report_order(body, producers, uses, late)
        self._check_outputs(body, defined, enclosing, free)
        return free

    def _definitions(self, body: _Body) -> dict[str, int]:
        """The node that defines each name; names that are empty or defined twice are reported."""
        findings, path = self.findings, body.path
        seen: dict[str, str] = {}
        for kind, names in (("input", body.inputs), ("initializer", body.initializers)):
            for name in names:
                if not name:
                    findings.error("empty-name", f"an {kind} has no name", Location(path), rule=_RULE)
                elif seen.get(name) == kind:
                    findings.error(
                        "duplicate-name", f'two of the {kind}s are named "{name}"', Location(path), rule=_RULE
                    )
                seen[name] = kind
        producers: dict[str, int] = {}
        for index, node in enumerate(body.nodes):
            for name in node.output:
                if not name:
                    continue
                if name in producers or name in seen:
                    other = f"output of node {producers[name]}" if name in producers else seen[name]
                    values = [other, f"output of node {index}"]
                    location = Site(path, index, node).location()
                    findings.error("duplicate-name", f'"{name}" is defined twice', location, values, _RULE)
                else:
                    producers[name] = index
        return producers

    def _check_shadowing(self, body: _Body, here: _Names, enclosing: tuple[_Names, ...]) -> None:
        for name in here if enclosing else ():
            if name and any(name in outer for outer in enclosing):
                message = f'"{name}" is defined here and in a graph around this one; uses here mean this one'
                self.findings.warning("shadowed-name", message, Location(body.path), rule=_RULE)

    def _inner_names(self, site: Site, enclosing: tuple[_Names, ...]) -> Mapping[str, Location]:
        """What the subgraphs of a node use of the names around them."""
        found: dict[str, Location] = {}
        if len(enclosing) > DEPTH_LIMIT:
            return found
        for label, graph in subgraphs(site.node):
            for name, location in self._check(_graph_body(graph, site.inner_path(label)), enclosing).items():
                found.setdefault(name, location)
        return found

    def _check_outputs(
        self, body: _Body, defined: set[str], enclosing: tuple[_Names, ...], free: dict[str, Location]
    ) -> None:
        location, seen = Location(body.path), set()
        for name in body.outputs:
            if not name:
                self.findings.error("empty-name", "an output has no name", location, rule=_RULE)
                continue
            if name in seen:
                self.findings.warning("duplicate-output", f'"{name}" is returned twice', location, rule=_RULE)
            seen.add(name)
            if name in defined:
                continue
            if any(name in outer for outer in enclosing):
                message = f'the output "{name}" is a value of a graph around this one, not of this one'
                self.findings.warning("output-from-outside", message, location, rule=_RULE)
            free.setdefault(name, location)

    def _report_order(
        self, body: _Body, producers: Mapping[str, int], uses: Sequence[Sequence[str]], late: Sequence[tuple[int, str]]
    ) -> None:
        edges = [[producers[name] for name in names if name in producers] for names in uses]
        component = _components(edges)
        members: dict[int, list[int]] = {}
        for node, number in enumerate(component):
            members.setdefault(number, []).append(node)
        for index, name in late:
            location = Site(body.path, index, body.nodes[index]).location()
            producer = producers[name]
            if component[index] != component[producer]:
                message = f'"{name}" is used before node {producer} defines it'
                self.findings.error("not-topologically-sorted", message, location, rule="ONNX IR, order of nodes")
            elif component[index] in members:
                message = f'"{name}" depends on itself, through node {listed(members.pop(component[index]))}'
                self.findings.error("cycle", message, location, rule="ONNX IR, a graph has no cycles")


def _components(edges: Sequence[Sequence[int]]) -> list[int]:
    """A number for each node, equal for those on a common cycle: Tarjan's algorithm, with a stack of its own."""
    order, low, component = [-1] * len(edges), [0] * len(edges), [-1] * len(edges)
    open_nodes: list[int] = []
    count = found = 0
    for root in range(len(edges)):
        if order[root] >= 0:
            continue
        work = [(root, iter(edges[root]))]
        order[root] = low[root] = count
        count += 1
        open_nodes.append(root)
        while work:
            node, rest = work[-1]
            successor = next(rest, None)
            if successor is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    while component[node] < 0:
                        component[open_nodes.pop()] = found
                    found += 1
            elif order[successor] < 0:
                order[successor] = low[successor] = count
                count += 1
                open_nodes.append(successor)
                work.append((successor, iter(edges[successor])))
            elif component[successor] < 0:
                low[node] = min(low[node], order[successor])
    return component
