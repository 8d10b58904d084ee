"""Nodes in an order in which each stands behind those whose values it uses."""

import heapq
from collections.abc import MutableSequence, Sequence

from onnxc.compiler.frontend.parts.uses import used_by_node
from onnxc.compiler.frontend.proto.onnxc_pb2 import NodeProto

__all__ = ["sort_nodes"]


def sort_nodes(nodes: MutableSequence[NodeProto]) -> None:
    """Puts the nodes of a graph or function in order.

    Of several orders it is the one nearest to what was: the first node that can come next does. Nodes of a cycle, which
    have no order, stand behind all others, with what depends on them.
    """
    order = _order(nodes)
    if order == sorted(order):
        return
    copies = [NodeProto() for _ in order]
    for copy, index in zip(copies, order, strict=True):
        copy.CopyFrom(nodes[index])
    del nodes[:]
    nodes.extend(copies)


def _order(nodes: Sequence[NodeProto]) -> list[int]:
    """The indices of the nodes, each behind those of the nodes whose values it uses."""
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = [{producers[name] for name in used_by_node(node) if name in producers} for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for index, producing in enumerate(needs):
        for producer in producing:
            users[producer].append(index)
    missing = [len(producing) for producing in needs]
    ready = [index for index, count in enumerate(missing) if count == 0]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for user in users[order[-1]]:
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(ready, user)
    return [*order, *(index for index, count in enumerate(missing) if count)]
