"""The scratch memory of the suppression of boxes on a CPU: what one class of one image needs, in bytes."""

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.place_buffers import aligned
from onnxc.runtime.records import record

COLUMNS = 5
"""What is kept of a box that stays: four corners and its area."""


@record
class BoxMemory:
    """Scores and indices of the candidates, then the columns of those that stay, each with room for whole vectors."""

    scores: Dim
    indices: Dim
    column: Dim

    @property
    def total(self) -> Dim:
        return self.scores + self.indices + COLUMNS * self.column


def box_memory(op: Op, lanes: int) -> BoxMemory:
    """The memory for one unit of work."""
    boxes, count = op.operands[1].shape[2], op.dim("count")
    return BoxMemory(aligned(4 * boxes), aligned(8 * boxes), aligned(4 * (count + lanes)))
