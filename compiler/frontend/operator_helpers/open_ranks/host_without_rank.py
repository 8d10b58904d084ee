"""Results of no rank, each of one host function, where cases of several ranks would be too many to tell apart."""

from onnxc.compiler.frontend.joining.squeezed_ones import may_have_any_rank
from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType


def moved_without_rank(
    function: str, node: Node, data: str, vector: str, ir: Builder, **attributes: bool
) -> Value | None:
    """Elements in the same order under another shape, of the inputs `data` and `vector`; None where one rank is known.

    Otherwise there would be a case for each rank with each length, 63 in all.
    """
    x, given = (_tensor(name, node) for name in (data, vector))
    if x is None or given is None or not may_have_any_rank(x) or not _may_have_any_length(given):
        return None
    return ir.host(function, (x, given), (TensorType(x.tensor.dtype, None),), attributes)[0]


def indexed_without_rank(function: str, node: Node, ir: Builder, **attributes: int | str) -> Value | None:
    """The result, of no rank, of a host function of all operands, the first of which is data.

    None where the rank of one operand at most is open. Otherwise there would be a case for each rank of each operand,
    and in these one for each number of coordinates.
    """
    operands = [value for value in node.operands if value is not None]
    if sum(map(may_have_any_rank, operands)) < 2:
        return None
    return ir.host(function, operands, (TensorType(operands[0].tensor.dtype, None),), attributes)[0]


def _tensor(name: str, node: Node) -> Value | None:
    """The input of that name, if it is one in this version."""
    names = [formal.name for formal in node.graph_node.schema.inputs]
    return node.host_input(name) if name in names else None


def _may_have_any_length(vector: Value) -> bool:
    if may_have_any_rank(vector):
        return True
    return vector.tensor.shape is not None and vector.rank == 1 and not isinstance(vector.shape[0], int)
