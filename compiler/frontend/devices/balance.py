"""Nodes in order as pipeline stages that hold about as many bytes of weights each, with little between them."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from onnxc.compiler.frontend.proto.onnxc_pb2 import NodeProto

__all__ = ["balanced_stages"]

SLACK = 0.05
"""By how much of all weights a stage may end earlier or later, for fewer values to send; an estimate.

Of BERT base with two stages it is half of a layer, so that cuts lie between the layers.
"""


def balanced_stages(nodes: Sequence[NodeProto], weight_bytes: Mapping[str, int], count: int) -> tuple[int, ...]:
    """The stage of each node, never below that of a node before; `weight_bytes` are those of the initializers."""
    held = _held_before(nodes, weight_bytes)
    crossing = _crossing(nodes)
    starts = [0]
    for stage in range(1, count):
        # Every stage has a node, those that follow too.
        possible = range(starts[-1] + 1, len(nodes) - (count - stage) + 1)
        ideal = held[-1] * stage / count
        near = [at for at in possible if abs(held[at] - ideal) <= SLACK * held[-1]]
        nearest = min(possible, key=lambda at: abs(held[at] - ideal))
        starts.append(min(near or [nearest], key=lambda at: (crossing[at], abs(held[at] - ideal))))
    return tuple(sum(start <= node for start in starts[1:]) for node in range(len(nodes)))


def _held_before(nodes: Sequence[NodeProto], weight_bytes: Mapping[str, int]) -> list[int]:
    """For each node the bytes of weights that nodes before it read; then of all. What several read is of the first."""
    left = dict(weight_bytes)
    return [0, *accumulate(sum(left.pop(name, 0) for name in node.input) for node in nodes)]


def _crossing(nodes: Sequence[NodeProto]) -> list[int]:
    """For each node how many values that nodes before it made are read by it or behind it."""
    made = {name: index for index, node in enumerate(nodes) for name in node.output}
    last = {name: index for index, node in enumerate(nodes) for name in node.input}
    changes = [0] * (len(nodes) + 2)
    for name, index in made.items():
        if last.get(name, -1) > index:
            changes[index + 1] += 1
            changes[last[name] + 1] -= 1
    return list(accumulate(changes))
