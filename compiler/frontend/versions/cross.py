"""A node of one opset of ai.onnx as nodes of another: it crosses every change of its operator on the way, one by one.

What an adapter makes goes on in the same way, so that it need only know its own version.
"""

from dataclasses import replace

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.proto.onnxc_pb2 import NodeProto
from onnxc.compiler.frontend.same_operator import keeps_meaning
from onnxc.compiler.frontend.schemas import normal_domain, schema, versions
from onnxc.compiler.frontend.versions.change import Change, Values
from onnxc.compiler.frontend.versions.downward import DOWNWARD
from onnxc.compiler.frontend.versions.fit import fit
from onnxc.compiler.frontend.versions.made_types import learn_made_types
from onnxc.compiler.frontend.versions.upward import UPWARD

__all__ = ["cross"]


def cross(node: NodeProto, version: int, target: int, location: Location, values: Values) -> list[NodeProto]:
    """The nodes of opset `target` that a node of opset `version` becomes; of other domains, itself.

    Raises ModelError for a node that the target version cannot say.
    """
    crossed = None if normal_domain(node.domain) else _next_change(node, version, target)
    if crossed is None:
        return [node]
    is_up = target > version
    reached = crossed if is_up else crossed - 1
    before, after = schema("", node.op_type, version), schema("", node.op_type, reached)
    assert before is not None, node
    copied = NodeProto()
    copied.CopyFrom(node)
    change = Change(copied, before, after, reached, values, replace(location, operator=before.identity))
    adapter = (UPWARD if is_up else DOWNWARD).get((node.op_type, crossed))
    if adapter is not None:
        adapter(change)
        change.after = schema("", copied.op_type, reached)
        if reached != target:
            learn_made_types(change)
    if change.is_gone:
        return []
    older, newer = (before, after) if is_up else (after, before)
    if adapter is None and is_up and older is not None and newer is not None and keeps_meaning(older, newer):
        return cross(copied, reached, target, location, values)
    # Upwards an operator only takes more types: those of the version on the way say nothing of the last one.
    is_last = _next_change(copied, reached, target) is None
    fit(change, are_types_checked=is_last or not is_up)
    return [each for part in change.parts() for each in cross(part, reached, target, location, values)]


def _next_change(node: NodeProto, version: int, target: int) -> int | None:
    """The first version in which the operator of a node changes, on the way from one opset to another."""
    known = versions("", node.op_type)
    if target > version:
        return min((each for each in known if version < each <= target), default=None)
    return max((each for each in known if target < each <= version), default=None)
