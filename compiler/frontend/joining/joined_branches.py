"""The results of one of two blocks: what If gives, and what cases that are told apart come to."""

from collections.abc import Sequence, Set

from onnxc.compiler.frontend.joining.joined_types import agreed_size, joined
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.capture import close_blocks
from onnxc.compiler.ir.derived_sizes import Truth, truth_elements
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Block, Value, walk
from onnxc.compiler.ir.types import TensorType, type_symbols


def joined_branches(condition: Value, blocks: Sequence[Block], ir: Builder, rule: str) -> tuple[Value, ...]:
    """The results of one of two blocks, which may use values from outside.

    Raises ModelError by `rule` where they cannot be of one type.
    """
    local = _bound_within(blocks[0]) | _bound_within(blocks[1])
    pairs = [*zip(blocks[0].results, blocks[1].results, strict=True)]
    truths = truth_elements(condition)
    truth = None if truths is None else truths.item()
    types = [joined(ir, a, b, local, truth, rule) for a, b in pairs]
    captures, closed = close_blocks(blocks)
    results = ir.if_(condition, captures, closed, types)
    return tuple(
        [_joined_sizes(*pair, local, truth, ir) or result for pair, result in zip(pairs, results, strict=True)]
    )


def _joined_sizes(a: Value, b: Value, local: Set[str], truth: Truth | None, ir: Builder) -> Value | None:
    """The integers that are either `a` or `b`, where sizes tell both of them and which."""
    left, right = (ir.known(value) if isinstance(value.type, TensorType) else None for value in (a, b))
    if left is None or right is None or a.type != b.type or a.dtype != I64:
        return None
    if any(symbols_of(dim) & local for dim in (*left, *right)):
        return None
    agreed = [agreed_size(*each, truth) for each in zip(left, right, strict=True)]
    sizes = [each for each in agreed if each is not None]
    if len(sizes) != len(agreed):
        return None
    return ir.sizes(sizes) if a.rank else ir.size(sizes[0])


def _bound_within(block: Block) -> set[str]:
    """The symbols that ops of a block bind, which mean nothing outside."""
    bound: set[str] = set()
    for op in walk(block):
        if op.name == "bind_sizes":
            bound |= {str(name) for name in op.attributes["symbols"]}  # type: ignore[union-attr]
        if op.name in ("non_zero", "if", "while", "host"):
            bound |= set().union(*(type_symbols(type) for type in op.result_types))
    return bound
