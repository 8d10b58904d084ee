"""What follows a normalisation is computed before its result is turned, so that one kernel does both.

Where channels lie last, groups of them are read and written with their axes turned. The scale, the bias and the
activation behind that read each element once; what else they read is repeated, or in memory, where any order is a view.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.capture import replace_operands
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.op_facts import writes_as_it_reads
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies, rewrite
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.passes.analysis.movements import moved, moved_back
from onnxc.compiler.passes.simplify.rules.broadcasts import transpose_broadcast
from onnxc.compiler.passes.simplify.rules.reshapes import reshape_broadcast
from onnxc.runtime.records import record

NORMS = ("layer_norm", "rms_norm")


def compute_before_turning(module: Module) -> Module:
    """Computes what follows a normalisation in the order in which that reads, and turns the result."""
    turned = map_bodies(module, lambda body, symbols: _Turning(body, symbols).run())
    return rewrite(turned, [reshape_broadcast, transpose_broadcast])


@record
class _Turned:
    """A value of the old block as movements of one in the new block, the first of them first."""

    inner: Value
    movements: tuple[Op, ...]


class _Turning:
    """One block. `values` are the values of the old block in the new one, `turned` those that are not moved yet."""

    def __init__(self, block: Block, symbols: SymbolTable) -> None:
        self.block, self.build = block, PassBuilder(symbols)
        self.ordinal_of = {op: ordinal for ordinal, op in enumerate(block.ops)}
        self.users: dict[Value, list[Op]] = {}
        for op in block.ops:
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
        self.values: dict[Value, Value] = {}
        self.turned: dict[Value, _Turned] = {}
        self.followers: set[Op] = set()

    def run(self) -> Block:
        """The block rewritten; itself where no normalisation is turned."""
        if not any(self._is_first_turn(op) for op in self.block.ops):
            return self.block
        for op in self.block.ops:
            with self.build.at(op.location):
                self._visit(op)
        return prune(self.build.block(self.block.parameters, [self._moved(result) for result in self.block.results]))

    def _visit(self, op: Op) -> None:
        if self._is_first_turn(op) or self._goes_on(op):
            (operand,) = op.operands
            before = self.turned.get(operand, _Turned(self._moved(operand), ()))
            self.turned[op.result] = _Turned(before.inner, (*before.movements, op))
            self.followers.update(self._following(op.result))
        elif op in self.followers:
            self.turned[op.result] = self._computed(op)
        else:
            (copy,), made = replace_operands([op], {operand: self._moved(operand) for operand in op.operands})
            self.build.ops.append(copy)
            self.values.update({result: made.get(result, result) for result in op.results})

    def _is_first_turn(self, op: Op) -> bool:
        """Whether an op turns what a normalisation makes as that reads, and alone uses it."""
        norm = op.operands[0].op if op.name == "transpose" else None
        return norm is not None and norm.name in NORMS and self._is_alone(op) and writes_as_it_reads(norm, op)

    def _goes_on(self, op: Op) -> bool:
        """Whether an op moves once more what is turned, and alone uses it."""
        return op.name in ("transpose", "reshape") and op.operands[0] in self.turned and self._is_alone(op)

    def _is_alone(self, op: Op) -> bool:
        return self.users[op.operands[0]] == [op] and op.operands[0] not in self.block.results

    def _following(self, value: Value) -> Sequence[Op]:
        """The elementwise ops that use a value, up to the last result that all the others lead to."""
        following: list[Op] = []
        settled = 0
        waiting: set[Op] = set()
        known = {value}
        while value not in self.block.results:
            waiting.update(self.users.get(value, ()))
            op = min(waiting, key=self.ordinal_of.__getitem__, default=None)
            if op is None or not self._is_computed_there(op, known):
                break
            waiting.remove(op)
            following.append(op)
            value = op.result
            known.add(value)
            settled = settled if waiting else len(following)
        return following[:settled]

    def _is_computed_there(self, op: Op, known: set[Value]) -> bool:
        """Whether an op is elementwise, and all that it reads is `known`, repeated, or in memory."""
        others = [operand for operand in op.operands if operand not in known]
        return PRIMITIVES[op.name].elementwise and all(map(_is_read_in_any_order, others))

    def _computed(self, op: Op) -> _Turned:
        """The result of an op, computed before the movements."""
        movements = next(self.turned[operand].movements for operand in op.operands if operand in self.turned)
        operands = [
            self.turned[operand].inner
            if operand in self.turned
            else moved_back(self._moved(operand), movements, self.build)
            for operand in op.operands
        ]
        return _Turned(self.build.op(op.name, operands, op.attributes)[0], movements)

    def _moved(self, value: Value) -> Value:
        """A value of the old block in the new one, where what is turned is moved now, once for all that use it."""
        if value in self.turned and value not in self.values:
            turned = self.turned[value]
            self.values[value] = moved(turned.inner, turned.movements, self.build)
        return self.values.get(value, value)


def _is_read_in_any_order(value: Value) -> bool:
    """Whether a value is repeated, or written by a kernel of its own."""
    op = value.op
    return op is None or made_by(value, "broadcast", "constant") is not None or PRIMITIVES[op.name].anchor is not None
