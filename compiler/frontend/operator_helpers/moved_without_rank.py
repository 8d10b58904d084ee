"""Elements in the same order under another shape, where only data tells the rank before and the rank after."""

from onnxc.compiler.frontend.joining.squeezed_ones import may_have_any_rank
from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType


def moved_without_rank(
    function: str, node: Node, data: str, vector: str, ir: Builder, **attributes: bool
) -> Value | None:
    """The result, of no rank, of a host function of the inputs `data` and `vector`; None where one rank is known.

    Otherwise there would be a case for each rank with each length, 63 in all.
    """
    x, given = (_tensor(name, node) for name in (data, vector))
    if x is None or given is None or not may_have_any_rank(x) or not _may_have_any_length(given):
        return None
    return ir.host(function, (x, given), (TensorType(x.tensor.dtype, None),), attributes)[0]


def _tensor(name: str, node: Node) -> Value | None:
    """The input of that name, if it is one in this version."""
    names = [formal.name for formal in node.graph_node.schema.inputs]
    return node.host_input(name) if name in names else None


def _may_have_any_length(vector: Value) -> bool:
    if may_have_any_rank(vector):
        return True
    return vector.tensor.shape is not None and vector.rank == 1 and not isinstance(vector.shape[0], int)
