"""Names: every value is defined once and before it is used, and what a graph returns exists."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.context import Context
from onnxc.compiler.frontend.checks.findings import Site, listed
from onnxc.compiler.frontend.functions import ModelFunction, subgraphs
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, NodeProto
from onnxc.runtime.records import record

_RULE = "ONNX IR, names within a graph"
_SHADOWING_RULE = "ONNX IR, names within a graph: no shadowing"
_INFO_RULE = "ONNX IR, value_info"
_FUNCTION_RULE = "ONNX IR, functions"

# In the order of definition, so that findings come in one order.
_Names = Mapping[str, None]

# What is defined before a graph, in those around it; growing sets, which are not copied for each graph.
_Visible = tuple[Collection[str], ...]


@record
class _Body:
    """What graphs and functions have in common."""

    path: str
    inputs: Sequence[str]
    initializers: Sequence[str]
    nodes: Sequence[NodeProto]
    outputs: Sequence[str]
    described: Sequence[str] = ()
    is_function: bool = False

    def names(self) -> Iterator[str]:
        """All names that it defines."""
        yield from self.inputs
        yield from self.initializers
        for node in self.nodes:
            yield from node.output


def check_graph_names(graph: GraphProto, path: str, context: Context) -> None:
    """Checks a graph that sees no names around it, and all graphs in it."""
    _Walk(context).check_closed(_graph_body(graph, path), ())


def check_function_names(function: ModelFunction, context: Context) -> None:
    """Checks the body of a function, which sees nothing outside."""
    proto = function.proto
    described = [info.name for info in proto.value_info]
    body = _Body(function.path, list(proto.input), [], proto.node, list(proto.output), described, is_function=True)
    _Walk(context).check_closed(body, ())


def check_joined_names(graph: GraphProto, path: str, main: GraphProto, context: Context) -> None:
    """Checks a graph that is run as if it were appended to the main graph."""
    body, outer = _graph_body(graph, path), dict.fromkeys(_graph_body(main, "main").names())
    _Walk(context).check_closed(body, (outer,), is_joined=True)


def _graph_body(graph: GraphProto, path: str) -> _Body:
    inputs = [info.name for info in graph.input]
    initializers = [tensor.name for tensor in graph.initializer]
    initializers += [tensor.values.name for tensor in graph.sparse_initializer if tensor.HasField("values")]
    described = [info.name for info in graph.value_info]
    return _Body(path, inputs, initializers, graph.node, [info.name for info in graph.output], described)


class _Walk:
    def __init__(self, context: Context) -> None:
        self.findings = context.findings
        self.ir_version = context.ir_version
        self.limits = context.limits

    def check_closed(self, body: _Body, outer: tuple[_Names, ...], *, is_joined: bool = False) -> None:
        """Checks a body that sees no other names than those of `outer`."""
        for name, location in self._check(body, outer, is_joined=is_joined).items():
            if not any(name in names for names in outer):
                self.findings.error("undefined-name", f'"{name}" is used and never defined', location, rule=_RULE)

    def _check(
        self, body: _Body, enclosing: tuple[_Names, ...], seen: _Visible = (), *, is_joined: bool = False
    ) -> Mapping[str, Location]:
        """Checks one body and those inside; the names that it uses and does not define, with their first use.

        `enclosing` is what graphs around it define, `seen` the part of it that is defined before this body.
        """
        if is_joined:
            seen = enclosing
        producers = self._definitions(body)
        here = {**dict.fromkeys(body.inputs), **dict.fromkeys(body.initializers), **dict.fromkeys(producers)}
        self._check_lengths(body, here)
        if is_joined:
            self._check_disjoint(body, here, enclosing)
        else:
            self._check_shadowing(body, here, enclosing, seen)
        if enclosing and not is_joined and self.ir_version >= 4:
            self._check_fed_initializers(body)
        defined = {*body.inputs, *body.initializers}
        free: dict[str, Location] = {}
        late: list[tuple[int, str]] = []
        uses: list[Sequence[str]] = []
        for index, node in enumerate(body.nodes):
            site = Site(body.path, index, node)
            inner = self._inner_names(site, (*enclosing, here), seen, defined)
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
        self._check_outputs(body, defined, () if is_joined else enclosing, free)
        self._check_node_names(body)
        self._check_described(body, (here, *enclosing))
        return free

    def _check_described(self, body: _Body, visible: tuple[_Names, ...]) -> None:
        """Warns of types of values that there are not; names with a colon may be of values within functions."""
        for name in body.described:
            if name and ":" not in name and not any(name in names for names in visible):
                message = f'the type of "{name}" is told, and there is no such value'
                self.findings.warning(
                    "value-info-without-value", message, Location(body.path), rule="ONNX IR, value_info"
                )

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

    def _check_lengths(self, body: _Body, here: _Names) -> None:
        limit = self.limits.name_bytes
        for name in here:
            # No character takes more than four bytes.
            if len(name) * 4 > limit and len(name.encode()) > limit:
                message = (
                    f'the name that begins with "{name[:40]}" has {len(name.encode())} bytes; the limit is {limit}'
                )
                self.findings.error("name-too-long", message, Location(body.path), rule="limits, name_bytes")

    def _check_disjoint(self, body: _Body, here: _Names, enclosing: tuple[_Names, ...]) -> None:
        for name in here:
            if name and any(name in outer for outer in enclosing):
                message = f'"{name}" is defined here and in the main graph, which this graph continues'
                self.findings.error("duplicate-name", message, Location(body.path), rule=_RULE)

    def _check_shadowing(self, body: _Body, here: _Names, enclosing: tuple[_Names, ...], seen: _Visible) -> None:
        for name in here if enclosing else ():
            if name and any(name in names for names in seen):
                message = f'"{name}" is defined here and in a graph around this one'
                self.findings.error("shadowed-name", message, Location(body.path), rule=_SHADOWING_RULE)
            elif name and any(name in outer for outer in enclosing):
                message = f'"{name}" is defined here, and later in a graph around this one; uses here mean this one'
                self.findings.warning("shadowed-name", message, Location(body.path), rule=_SHADOWING_RULE)

    def _check_fed_initializers(self, body: _Body) -> None:
        inputs = frozenset(body.inputs)
        for name in body.initializers:
            if name and name in inputs:
                message = f'"{name}" is an input of a nested graph and an initializer of it'
                self.findings.error("initialized-subgraph-input", message, Location(body.path), rule=_RULE)

    def _check_node_names(self, body: _Body) -> None:
        first: dict[str, int] = {}
        for index, node in enumerate(body.nodes):
            if node.name and first.setdefault(node.name, index) != index:
                message = f"node {first[node.name]} has the same name"
                location = Site(body.path, index, node).location()
                self.findings.warning("duplicate-node-name", message, location, rule=_RULE)

    def _inner_names(
        self, site: Site, enclosing: tuple[_Names, ...], seen: _Visible, defined: Collection[str]
    ) -> Mapping[str, Location]:
        """What the subgraphs of a node use of the names around them."""
        names: dict[str, Location] = {}
        graphs = list(subgraphs(site.node))
        if not graphs or len(enclosing) > self.limits.nesting_depth:
            return names
        before = (*seen, defined)
        for label, graph in graphs:
            inside = self._check(_graph_body(graph, site.inner_path(label)), enclosing, before)
            for name, location in inside.items():
                names.setdefault(name, location)
        return names

    def _check_outputs(
        self, body: _Body, defined: set[str], enclosing: tuple[_Names, ...], free: dict[str, Location]
    ) -> None:
        location, seen = Location(body.path), set()
        for name in body.outputs:
            if not name:
                self.findings.error("empty-name", "an output has no name", location, rule=_RULE)
                continue
            if name in seen and body.is_function:
                message = f'"{name}" is twice among the outputs of a function'
                self.findings.error("duplicate-function-output", message, location, rule=_FUNCTION_RULE)
            elif name in seen:
                self.findings.warning("duplicate-output", f'"{name}" is returned twice', location, rule=_RULE)
            seen.add(name)
            if name in defined:
                continue
            if any(name in outer for outer in enclosing):
                message = f'the output "{name}" is a value of a graph around this one, not of this one'
                self.findings.error("output-from-outside", message, location, rule=_RULE)
                continue
            free.setdefault(name, location)

    def _report_order(
        self, body: _Body, producers: Mapping[str, int], uses: Sequence[Sequence[str]], late: Sequence[tuple[int, str]]
    ) -> None:
        edges = [[producers[name] for name in names if name in producers] for names in uses]
        component = _components(edges)
        members: dict[int, list[int]] = {}
        for node, ordinal in enumerate(component):
            members.setdefault(ordinal, []).append(node)
        for index, name in late:
            location = Site(body.path, index, body.nodes[index]).location()
            producer = producers[name]
            if component[index] != component[producer]:
                message = f'"{name}" is used before node {producer} defines it; `onnxc repair` puts nodes in order'
                self.findings.error("not-topologically-sorted", message, location, rule="ONNX IR, order of nodes")
            elif component[index] in members:
                message = f'"{name}" depends on itself, through node {listed(members.pop(component[index]))}'
                self.findings.error("cycle", message, location, rule="ONNX IR, a graph has no cycles")


def _components(edges: Sequence[Sequence[int]]) -> list[int]:
    """A number for each node, equal for those on a common cycle: Tarjan's algorithm, with a stack of its own."""
    order, low, component = [-1] * len(edges), [0] * len(edges), [-1] * len(edges)
    open_nodes: list[int] = []
    count = components = 0
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
                        component[open_nodes.pop()] = components
                    components += 1
            elif order[successor] < 0:
                order[successor] = low[successor] = count
                count += 1
                open_nodes.append(successor)
                work.append((successor, iter(edges[successor])))
            elif component[successor] < 0:
                low[node] = min(low[node], order[successor])
    return component
