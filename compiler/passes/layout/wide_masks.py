"""Masks of keys that an index picks are picked as words: attention reads a mask in the loop that multiplies.

Such a mask is written once and read by the kernels of all layers, which load a byte for each key and each thread; a
thread that multiplies has neighbouring keys, whose words are one load. For sm_90 the loop of gpt2_decode had 32 loads
of bytes where a tile has 128 queries, and has none.
"""

from collections.abc import Collection, Iterator

from onnxc.compiler.ir.capture import replace_operands
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BOOL, I32
from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable

PICKS = ("gather", "gather_along", "gather_nd")
"""What is too much work to be done again in each kernel that reads it, so that it is in memory."""

MOVEMENTS = ("broadcast", "reshape", "transpose")


def wide_masks(module: Module) -> Module:
    """Makes masks of keys that an index picks words, which are compared with 0 where attention reads them."""
    return map_bodies(module, _widened)


def _widened(block: Block, symbols: SymbolTable) -> Block:
    picked = {op for attention in block.ops if attention.name == "attention" for op in _picked_masks(attention)}
    return _Widening(block, symbols, picked).run() if picked else block


class _Widening:
    """One block. `values` are the values of the old block in the new one, `words` those of bools that are words."""

    def __init__(self, block: Block, symbols: SymbolTable, picked: Collection[Op]) -> None:
        self.block, self.build, self.picked = block, PassBuilder(symbols), picked
        self.values: dict[Value, Value] = {}
        self.words: dict[Value, Value] = {}

    def run(self) -> Block:
        for op in self.block.ops:
            with self.build.at(op.location):
                self._visit(op)
        return prune(self.build.block(self.block.parameters, [self._bool(result) for result in self.block.results]))

    def _visit(self, op: Op) -> None:
        if op in self.picked:
            source, *indices = map(self._bool, op.operands)
            operands = [self.build.cast(source, I32), *indices]
        elif op.name in MOVEMENTS and op.operands[0] in self.words:
            # What is repeated is what is written: the words, and not the bools that they are compared to.
            operands = [self.words[op.operands[0]]]
        else:
            (copy,), made = replace_operands([op], {operand: self._bool(operand) for operand in op.operands})
            self.build.ops.append(copy)
            self.values.update({result: made.get(result, result) for result in op.results})
            return
        (self.words[op.result],) = self.build.op(op.name, operands, op.attributes)

    def _bool(self, value: Value) -> Value:
        """A value of the old block in the new one, where words are compared with 0 once for all that use them."""
        if value in self.words and value not in self.values:
            self.values[value] = self.build.cast(self.words[value], BOOL)
        return self.values.get(value, value)


def _picked_masks(attention: Op) -> Iterator[Op]:
    """The ops that pick what a mask of keys is computed of."""
    _, k, _, *masks = attention.operands
    # With an axis of queries or heads a mask has more bytes than the keys, which words would make four times as many.
    batch, keys = attention.operands[0].shape[0], k.shape[2]
    waiting, seen = [*masks], set[Value]()
    while waiting:
        value = waiting.pop()
        op = value.op
        if op is None or value in seen:
            continue
        seen.add(value)
        if op.name in PICKS:
            if value.dtype == BOOL and _is_of_keys(value.shape, batch, keys):
                yield op
        elif PRIMITIVES[op.name].recomputable:
            waiting += op.operands


def _is_of_keys(shape: Collection[Dim], batch: Dim, keys: Dim) -> bool:
    """Whether a shape is that of a key of each sequence, or of all of them."""
    *outer, last = shape or (1,)
    return last == keys and all(size in (1, batch) for size in outer)
