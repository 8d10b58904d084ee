"""The scratch memory of the suppression of boxes on a CPU: what one class of one image needs, in bytes."""

from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.place_buffers import aligned
from onnxc.runtime.records import record

COLUMNS = 5
"""What is kept of a box that stays: four corners and its area."""


@record
class BoxMemory:
    """Keys of the candidates, two numbers for each block of them, the ordinals of the vectors that they are in.

    Then the columns of those that stay; each of these with room for whole vectors.
    """

    keys: Dim
    tops: Dim
    ordinals: Dim
    column: Dim

    @property
    def total(self) -> Dim:
        return self.keys + 2 * self.tops + self.ordinals + COLUMNS * self.column


def box_memory(op: Op, lanes: int) -> BoxMemory:
    """The memory for one unit of work."""
    vectors, count = floordiv(op.operands[1].shape[2] + lanes - 1, lanes), op.dim("count")
    return BoxMemory(
        keys=aligned(4 * lanes * vectors),
        tops=aligned(4 * (vectors + lanes)),
        ordinals=aligned(8 * vectors),
        column=aligned(4 * (count + lanes)),
    )
