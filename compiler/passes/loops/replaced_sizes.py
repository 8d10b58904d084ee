"""Blocks in which sizes take the place of symbols that nothing binds any more."""

from collections.abc import Sequence

from onnxc.compiler.ir.copy_block import BlockCopy
from onnxc.compiler.ir.module import Op, Value


class ReplacedSizes(BlockCopy):
    """A block on its way: ops are made again from the first size on that is replaced, with the names they bind."""

    def op(self, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
        if not op.blocks and not self.sizes and tuple(operands) == op.operands:
            self.build.ops.append(op)
            return op.results
        results = super().op(op, operands)
        is_same = op.name == "reshape" and results[0].type == operands[0].type
        return (operands[0],) if is_same else results

    def fresh(self, name: str) -> str:
        """The name itself: there is no other copy."""
        return name
