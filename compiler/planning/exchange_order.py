"""What comes before a collective, and what is left for the time that it takes."""

from collections.abc import Collection, Iterable, Mapping

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES

__all__ = ["leading_to_exchange"]

# What is worth a step of its own. All else is little beside an exchange, and one step of it has fewer buffers than two.
_LONG = frozenset(("contraction", "convolution", "attention", "block_product", "recurrence"))


def leading_to_exchange(
    ready: dict[Op, None], exchanges: Iterable[Op], exists: Collection[Value], *, is_under_way: bool
) -> dict[Op, None]:
    """Of native ops that one step could make, in order, those that the first collective behind them waits for.

    All of them, where what would be left takes no time worth mentioning, and where no collective waits for any of them.
    But none, where they take no time and others are under way: these are made with what reads the next result of those.
    """
    maker = {value: op for op in ready for value in op.results}
    first = next((op for op in exchanges if _is_within(op, maker, exists)), None)
    if first is None:
        return {} if is_under_way and not _takes_long(ready) else ready
    needed: set[Op] = set()
    asked = list(first.operands)
    while asked:
        op = maker.get(asked.pop())
        if op is not None and op not in needed:
            needed.add(op)
            asked += op.operands
    is_worth_it = _takes_long(op for op in ready if op not in needed)
    return dict.fromkeys(op for op in ready if op in needed) if is_worth_it else ready


def _takes_long(ops: Iterable[Op]) -> bool:
    return any(PRIMITIVES[op.name].anchor in _LONG for op in ops)


def _is_within(exchange: Op, maker: Mapping[Value, Op], exists: Collection[Value]) -> bool:
    """Whether the collective waits for the ops that make these values, and for nothing else."""
    made = [operand in maker for operand in exchange.operands]
    there = [operand in exists for operand in exchange.operands]
    return any(made) and all(a or b for a, b in zip(made, there, strict=True))
