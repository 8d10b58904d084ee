"""Blocks as in Megatron: products whose columns are divided, up to products whose rows are, with no exchange between.

They are found by the axes rules, not by patterns: from the columns of all products that read one value the division is
followed through the program, until products contract it away. Attention and MLPs of any form are blocks so.

Source: Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism, 2019.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from onnxc.compiler.ir.dims import at_least
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.sharding.factors import Factor, factors_of, may_divide
from onnxc.runtime.records import record

__all__ = ["ParallelBlock", "Program", "is_constant"]


@record
class ParallelBlock:
    """Products whose columns are divided, and those whose rows are."""

    columns: tuple[Op, ...]
    rows: tuple[Op, ...]


def is_constant(value: Value) -> bool:
    """Whether the model holds the value."""
    return value.op is not None and value.op.name == "constant"


@record
class Program:
    """The ops of a block with their factors, each computed once; `shards` is into how many shards axes are divided."""

    body: Block
    shards: int

    @cached_property
    def factors(self) -> Mapping[Op, tuple[Factor, ...]]:
        """The factors of each op."""
        return {op: factors_of(op) for op in self.body.ops}

    @cached_property
    def products(self) -> tuple[Op, ...]:
        """The products of a value and a matrix of the model, [..., K] times [K, N] or its transpose, in order."""
        return tuple(op for op in self.body.ops if _is_product(op))

    def blocks(self) -> Iterator[ParallelBlock]:
        """The blocks; no product is in two of them."""
        taken: set[Op] = set()
        groups: dict[Value, list[Op]] = {}
        for product in self.products:
            groups.setdefault(product.operands[0], []).append(product)
        for group in groups.values():
            rows = () if taken & set(group) else self._rows(group)
            if rows and not taken & set(rows):
                taken.update(group, rows)
                yield ParallelBlock(tuple(group), rows)

    def _rows(self, columns: Sequence[Op]) -> tuple[Op, ...]:
        """The products in which the divided columns all end; none where an op needs them whole, or full blocks of them.

        Nor where there are fewer columns than shards.
        """
        if not all(at_least(each.result.shape[-1], self.shards) for each in columns):
            return ()
        divided = {each.result: each.result.rank - 1 for each in columns}
        rows = []
        for op in self.body.ops:
            if op in columns or not any(operand in divided for operand in op.operands):
                continue
            factor = self._common_factor(op, divided)
            if factor is None or (factor.combine and op not in self.products):
                return ()
            if factor.combine:
                rows.append(op)
            divided |= {
                result: axis for result, axis in zip(op.results, factor.results, strict=True) if axis is not None
            }
        return tuple(rows)

    def _common_factor(self, op: Op, divided: Mapping[Value, int]) -> Factor | None:
        """The factor of the op that all its divided operands are divided along."""
        for factor in self.factors[op]:
            pairs = zip(op.operands, factor.operands, strict=True)
            if all(divided[operand] == axis for operand, axis in pairs if operand in divided):
                return factor if may_divide(factor, op, self.shards) else None
        return None


def _is_product(op: Op) -> bool:
    if op.name != "dot" or not is_constant(op.operands[1]) or op.operands[1].rank != 2:
        return False
    left, _, rest = op.text("equation").partition(",")
    right, _, result = rest.partition("->")
    contracted = left[-1:]
    return contracted in right and result == left[:-1] + right.replace(contracted, "")
