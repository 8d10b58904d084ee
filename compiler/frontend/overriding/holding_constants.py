"""The constants near a node that hold a size which options override: what a refusal names beside the node."""

from collections.abc import Iterator, Sequence
from math import prod

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.graph import Graph, GraphNode, Tensor, all_nodes
from onnxc.compiler.ir.dims import Dim

__all__ = ["holding_constants"]

MOST_SHOWN, MOST_ELEMENTS = 3, 1024
"""How many constants are named, and how many integers of one are looked at: lists of sizes have some ten."""


def holding_constants(graph: Graph, location: Location, overridden: Sequence[tuple[Dim, Dim]]) -> tuple[str, ...]:
    """For people: constants that may hold an old size, the nearest to the node first.

    Those that reach the node by way of constants alone, in whose shape it is or among whose integers: what meets them
    follows from an input. If there are none, those with integers.
    """
    node = next((node for node in all_nodes(graph) if node.location == location), None)
    sizes = {old for old, _ in overridden if isinstance(old, int) and old > 1}
    if node is None or not sizes:
        return ()
    near = _Surroundings(graph)
    apart = [name for name in node.inputs if near.is_constant(name)]
    alone = [text for name, tensor in near.constants_behind(apart) for text in _held(name, tensor, tensor.shape, sizes)]
    mixed = [text for name, tensor in near.constants_behind(node.inputs) for text in _held(name, tensor, (), sizes)]
    return tuple((alone or mixed)[:MOST_SHOWN])


class _Surroundings:
    """What makes each value of a model, graphs within included."""

    def __init__(self, graph: Graph) -> None:
        self.makers: dict[str, GraphNode] = {}
        self.tensors: dict[str, Tensor] = {}
        for inner in (graph, *(part for node in all_nodes(graph) for part in node.subgraphs())):
            self.tensors |= inner.initializers
            self.makers |= {name: node for node in inner.nodes for name in node.outputs}

    def behind(self, names: Sequence[str]) -> Iterator[str]:
        """These values and all that they are made of, the nearest first."""
        seen = dict.fromkeys(names)
        waiting = [*seen]
        while waiting:
            name = waiting.pop(0)
            yield name
            maker = self.makers.get(name)
            further = [] if maker is None else [other for other in maker.inputs if other and other not in seen]
            seen |= dict.fromkeys(further)
            waiting += dict.fromkeys(further)

    def is_constant(self, name: str) -> bool:
        """Whether a value is made of constants alone."""
        return all(other in self.makers or other in self.tensors for other in self.behind([name]))

    def constants_behind(self, names: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
        """The constants that values are made of."""
        for name in self.behind(names):
            tensor, maker = self.tensors.get(name), self.makers.get(name)
            if tensor is None and maker is not None and maker.operator == "Constant":
                tensor = next((value for value in maker.attributes.values() if isinstance(value, Tensor)), None)
            if tensor is not None:
                yield name, tensor


def _held(name: str, tensor: Tensor, shape: Sequence[int], sizes: set[int]) -> Iterator[str]:
    """For people: an old size in the shape of a constant, or among its integers."""
    is_short = tensor.dtype.is_integer and prod(tensor.shape) <= MOST_ELEMENTS
    integers = map(int, tensor.array().flat) if is_short else ()
    held = [size for size in (*shape, *integers) if size in sizes]
    if held:
        yield f'the constant "{name}" : {tensor} has the number {held[0]}, which is an old size'
