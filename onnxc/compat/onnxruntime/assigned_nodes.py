"""Which node is run by which provider, as ONNX Runtime tells it: there is one provider, and each node is a part."""

from collections.abc import Mapping, Sequence

from onnxc.compat.onnxruntime.status import Fail
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.runtime.records import record

__all__ = ["OrtEpAssignedNode", "OrtEpAssignedSubgraph", "assigned_nodes"]

_RECORDED = "session.record_ep_graph_assignment_info"


@record
class OrtEpAssignedNode:
    """A node of the model as it was read."""

    name: str
    domain: str
    op_type: str


@record
class OrtEpAssignedSubgraph:
    """Nodes that one provider runs."""

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        return [*self.nodes]


def assigned_nodes(model: ModelProto, entries: Mapping[str, str]) -> Sequence[OrtEpAssignedSubgraph]:
    """The nodes of the main graph. Raises Fail unless the options ask for it, as ONNX Runtime wants it."""
    if entries.get(_RECORDED) != "1":
        raise Fail(f"Session configuration entry '{_RECORDED}' must be set to \"1\" to retrieve this information.")
    return [
        OrtEpAssignedSubgraph("CPUExecutionProvider", (OrtEpAssignedNode(node.name, node.domain, node.op_type),))
        for node in model.graph.node
    ]
