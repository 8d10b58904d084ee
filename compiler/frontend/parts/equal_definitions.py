"""Names that two constants define alike, or a constant beside an input: what is left is one definition."""

from collections.abc import Collection

from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, NodeProto, TensorProto
from onnxc.compiler.frontend.schemas import normal_domain
from onnxc.compiler.frontend.versions.constants import constant_of

__all__ = ["merge_equal_definitions", "named_constant"]


def merge_equal_definitions(graph: GraphProto, inputs: Collection[str]) -> None:
    """Leaves the first of the initializers and Constants that give equal tensors one name.

    inputs: those that may have a default, which a Constant of their name becomes.
    """
    defined: dict[str, TensorProto] = {}
    again = [index for index, tensor in enumerate(graph.initializer) if _is_defined(tensor, defined)]
    for index in reversed(again):
        del graph.initializer[index]
    superfluous: list[int] = []
    for index, node in enumerate(graph.node):
        constant = named_constant(node)
        if constant is None:
            continue
        is_default = constant.name in inputs and constant.name not in defined
        if is_default:
            graph.initializer.append(constant)
        if _is_defined(constant, defined) or is_default:
            superfluous.append(index)
    for index in reversed(superfluous):
        del graph.node[index]


def _is_defined(tensor: TensorProto, defined: dict[str, TensorProto]) -> bool:
    """Whether an equal tensor has come before under this name; the first of a name is noted."""
    first = defined.setdefault(tensor.name, tensor)
    return first is not tensor and first == tensor


def named_constant(node: NodeProto) -> TensorProto | None:
    """The tensor that a Constant gives, under the name of its output; None for what is no Constant or a sparse one."""
    if node.op_type != "Constant" or normal_domain(node.domain):
        return None
    tensor = constant_of(node)
    if tensor is None or not node.output:
        return None
    named = TensorProto()
    named.CopyFrom(tensor)
    named.name = node.output[0]
    return named
