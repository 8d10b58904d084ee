"""Which loops are recurrences: cells over rows [B, H] whose rounds one kernel can compute, whatever their formula.

In every round each element (b, h) of a state is made of what has the same (b, h), and of products of rows with
matrices that are the same in all rounds: the cells of RNN, GRU and LSTM, and what people write like them.
"""

from dataclasses import dataclass, field

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, I32, I64
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.loops.counted_loops import CountedLoop

MOST_UNITS = 2048
"""Cells of more units stay loops. An estimate: their products fill a card by themselves, and a launch for each takes
little of what reading 32 MiB of weights does."""

_STATES = (F32, F16, BF16)
_ELEMENTS = (*_STATES, BOOL, I32, I64)
_KINDS = ("pointwise", "movement", "generator", "indexed")


def is_recurrence(loop: CountedLoop) -> bool:
    """Whether one kernel can compute all rounds of a loop."""
    if not loop.states or not all(_is_state(value) for value in loop.states):
        return False
    shape = loop.states[0].shape
    if any(value.shape != shape for value in (*loop.carried, *loop.scanned)):
        return False
    cell = _Cell(shape, set(loop.states), {loop.body.parameters[0]})
    return all(cell.takes(op) for op in loop.body.ops) and any(op.name == "dot" for op in loop.body.ops)


def _is_state(value: Value) -> bool:
    if value.rank != 2 or value.dtype not in _STATES:
        return False
    units = value.shape[1]
    return isinstance(units, int) and 1 <= units <= MOST_UNITS


@dataclass
class _Cell:
    """A body gone through op by op.

    own: values whose element (b, h) is made of states at (b, h): wanted there only. varying: values that differ from
    round to round, but may be wanted at any index: what a product gives, what is read for the round.
    """

    shape: tuple[Dim, ...]
    own: set[Value]
    varying: set[Value] = field(default_factory=set)

    def takes(self, op: Op) -> bool:
        """Whether a kernel can compute the op, whose results are noted."""
        types = (*(value.type for value in op.operands), *op.result_types)
        if not all(isinstance(type, TensorType) and type.dtype in _ELEMENTS for type in types):
            return False
        if op.name == "dot":
            self.varying.add(op.result)
            return self._is_product(op)
        primitive = PRIMITIVES[op.name]
        if not primitive.recomputable or primitive.kind not in _KINDS:
            return False
        if not self.own.isdisjoint(op.operands):
            self.own.add(op.result)
            return primitive.kind == "pointwise" and op.result.shape == self.shape
        if not self.varying.isdisjoint(op.operands):
            self.varying.add(op.result)
        return True

    def _is_product(self, op: Op) -> bool:
        """Whether rows [B, H] are multiplied by a matrix that is the same in all rounds."""
        left, right, result = parse_equation(op.attributes["equation"])
        rows, matrix = op.operands
        if rows.shape != self.shape or matrix.rank != 2 or rows.dtype != matrix.dtype or rows.dtype not in _STATES:
            return False
        is_constant = matrix not in self.own and matrix not in self.varying
        return (
            is_constant and len(result) == 2 and result[0] == left[0] and sorted(right) == sorted(left[1] + result[1])
        )
