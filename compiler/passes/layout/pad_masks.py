"""Constants that attention adds to its scores have rows of whole vectors: a row of 49 keys takes the memory of 64.

Neighbouring keys are one load only where every row begins at a multiple of it and ends at one. The kernel reads what
fills a row up, and hides it as it hides keys that there are not. Kernels of windows of 7 x 7 pixels had 25 loads of a
byte or a float for each thread, for sm_90, and have 2 or 7 of 16 bytes.
"""

import numpy as np

from onnxc.compiler.ir.capture import replace_operands
from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.op_facts import values_along_last
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable

VECTOR = 16
"""The elements of a row that are one load: 16 bytes of bools, and several such vectors of wider numbers."""

MOST_GROWTH = 2
"""How many times the memory of a constant its rows may take: shorter ones are a few loads of any width."""


def pad_masks(module: Module) -> Module:
    """Fills rows of constants that attention adds to its scores up to whole vectors of elements."""
    return map_bodies(module, _padded)


def _padded(block: Block, symbols: SymbolTable) -> Block:
    attentions = [op for op in block.ops if op.name == "attention" and len(op.operands) > 3]
    masks = {value for op in attentions for value in values_along_last(op.operands[3])}
    users = {*attentions, *(value.op for value in masks)}
    build, filled, values = PassBuilder(symbols), dict[Value, Value](), dict[Value, Value]()
    for op in block.ops:
        known = filled | values if op in users else values
        (copy,), made = replace_operands([op], {operand: known[operand] for operand in op.operands if operand in known})
        build.ops.append(copy)
        values.update({result: made[result] for result in op.results if result in made})
        if not masks.isdisjoint(op.results) and _is_uneven(op):
            with build.at(op.location):
                filled[op.result] = _filled(op.array(), build)
    if not filled:
        return block
    return prune(build.block(block.parameters, [values.get(result, result) for result in block.results]))


def _is_uneven(op: Op) -> bool:
    """Whether an op is a constant whose rows are to be filled up."""
    shape = op.array().shape if op.name == "constant" else ()
    return bool(shape) and 0 < -shape[-1] % VECTOR <= (MOST_GROWTH - 1) * shape[-1]


def _filled(array: np.ndarray, build: PassBuilder) -> Value:
    """A constant, as a part of one with longer rows."""
    whole = build.constant(np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % VECTOR)]))
    ones, zeros = (1,) * array.ndim, (0,) * array.ndim
    return build.op("slice", [whole], {"starts": zeros, "shape": array.shape, "steps": ones})[0]
