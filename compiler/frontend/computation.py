"""Which nodes a value is computed by, and from which others: what Gradient asks of the graphs around it.

Of the names that a node uses, those in its subgraphs count too. A Gradient also uses what its target is computed from
besides the values that the node is given.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from onnxc.compiler.frontend.graph import Graph, GraphNode
from onnxc.runtime.records import record

TRAINING = "ai.onnx.preview.training"


@record
class Computation:
    """Graphs, each within the one before it.

    `locations` tells where in them a name is defined, (graph, node), `captures` what each Gradient uses besides its
    inputs, by its location.
    """

    graphs: Sequence[Graph]
    locations: Mapping[str, tuple[int, int]]
    captures: Mapping[tuple[int, int], tuple[str, ...]]

    @staticmethod
    def of(graphs: Sequence[Graph]) -> "Computation":
        """The computation that can be seen from within the last of `graphs`."""
        nodes = [((depth, i), node) for depth, graph in enumerate(graphs) for i, node in enumerate(graph.nodes)]
        captures: dict[tuple[int, int], tuple[str, ...]] = {}
        locations = {name: location for location, node in nodes for name in node.outputs}
        computation = Computation(graphs, locations, captures)
        # In order, as the target of one may be the result of another that comes before it.
        for location, node in nodes:
            if (node.domain, node.operator) == (TRAINING, "Gradient"):
                captures[location] = tuple(computation._captured(node))
        return computation

    def defines(self, name: str) -> bool:
        """Whether one of the graphs has a value of that name."""
        fed = (name in {info.name for info in graph.inputs} | graph.initializers.keys() for graph in self.graphs)
        return name in self.locations or any(fed)

    def above(self, result: str, cut: Collection[str] = ()) -> Mapping[str, None]:
        """`result` and the names that it is computed from; those in `cut` are there, but what is above them is not."""
        above: dict[str, None] = {}
        pending = [result]
        while pending:
            name = pending.pop()
            if name in above:
                continue
            above[name] = None
            if name in self.locations and name not in cut:
                pending += reversed([*self._used(self.locations[name])])
        return above

    def between(
        self, result: str, given: Collection[str], known: Collection[str] | None = None
    ) -> Mapping[tuple[int, int], GraphNode]:
        """The nodes that make `result` where names in `given` have other values, in an order of execution.

        Nodes that do not depend on `given` are left out where all that they define is in `known`, or there is none.
        """
        computed = (name for name in self.above(result, given) if name in self.locations and name not in given)
        changed, nodes, at_hand = set(given), {}, None if known is None else set(known)
        for location in sorted({self.locations[name] for name in computed}):
            depth, index = location
            node = self.graphs[depth].nodes[index]
            made = {name for name in node.outputs if name}
            is_known = at_hand is None or made <= at_hand
            if not is_known or not changed.isdisjoint(self._used(location)):
                changed |= made
                nodes[location] = node
        return nodes

    def _used(self, location: tuple[int, int]) -> Iterator[str]:
        depth, index = location
        yield from _used(self.graphs[depth].nodes[index])
        yield from self.captures.get(location, ())

    def _captured(self, gradient: GraphNode) -> Iterator[str]:
        given = {name for attribute in ("xs", "zs") for name in names_in(gradient, attribute)}
        for target in names_in(gradient, "y"):
            nodes = self.between(target, given)
            made = {name for node in nodes.values() for name in node.outputs}
            yield from (name for location in nodes for name in self._used(location) if name not in made | given)


def names_in(node: GraphNode, attribute: str) -> tuple[str, ...]:
    """The texts of an attribute, one or several."""
    value = node.attributes.get(attribute, ())
    return tuple(name for name in (value if isinstance(value, tuple) else (value,)) if isinstance(name, str))


def _used(node: GraphNode) -> Iterator[str]:
    yield from (name for name in node.inputs if name)
    for graph in node.subgraphs():
        yield from _free(graph)


def _free(graph: Graph) -> Iterator[str]:
    """What a subgraph uses of the names around it; of a Gradient there also the name that it differentiates."""
    own = {info.name for info in graph.inputs} | graph.initializers.keys()
    own |= {name for node in graph.nodes for name in node.outputs}
    for node in graph.nodes:
        is_gradient = (node.domain, node.operator) == (TRAINING, "Gradient")
        yield from (name for name in _used(node) if name not in own)
        yield from (name for name in (names_in(node, "y") if is_gradient else ()) if name not in own)
