"""What attention adds to its scores has rows of whole vectors: a row of 49 keys takes the memory of 64.

Neighbouring keys are one load only where every row begins at a multiple of it and ends at one. The kernel reads what
fills a row up, and hides it as it hides keys that there are not. So it is for constants, and for narrow numbers that an
index picks, as biases of relative positions, which a kernel of their own writes. Kernels of windows of 7 x 7 pixels had
25 loads of a byte or a float for each thread, for sm_90, and have 2 or 7 of 16 bytes; those of t5_small_encoder had 64
of two bytes, where only a call tells the keys, and have 32 of four.
"""

import numpy as np

from onnxc.compiler.ir.capture import replace_operands
from onnxc.compiler.ir.dims import Dim, at_least, floordiv, product
from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.op_facts import operands_along_last, values_along_last
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable

VECTOR = 16
"""The elements of a row that are one load: 16 bytes of bools, and several such vectors of wider numbers."""

MOST_GROWTH = 2
"""How many times the memory of a constant its rows may take: shorter ones are a few loads of any width."""

NARROW_BYTES = 2
"""What numbers take of which single ones are slow to load, so that it pays to write more of them."""

PICKS = ("gather", "gather_along", "gather_nd")
MOVEMENTS = ("broadcast", "reshape", "transpose")


def pad_masks(module: Module) -> Module:
    """Fills rows that attention adds to its scores, constants or picked, up to whole vectors of elements."""
    return map_bodies(module, _padded)


def _padded(block: Block, symbols: SymbolTable) -> Block:
    attentions = [op for op in block.ops if op.name == "attention" and len(op.operands) > 3]
    rows = {value for op in attentions for value in _rows_to_fill(op)}
    users = {*attentions, *(value.op for op in attentions for value in values_along_last(op.operands[3]))}
    build, filled, values = PassBuilder(symbols), dict[Value, Value](), dict[Value, Value]()
    for op in block.ops:
        known = filled | values if op in users else values
        (copy,), made = replace_operands([op], {operand: known[operand] for operand in op.operands if operand in known})
        build.ops.append(copy)
        values.update({result: made[result] for result in op.results if result in made})
        if not rows.isdisjoint(op.results):
            with build.at(op.location):
                filled[op.result] = _filled(values.get(op.result, op.result), build)
    if not filled:
        return block
    return prune(build.block(block.parameters, [values.get(result, result) for result in block.results]))


def _rows_to_fill(attention: Op) -> list[Value]:
    """Of what the mask is made of along the keys, that whose rows are filled up.

    Of what is picked that is one bias for all sequences: others are put together by the kernel that writes them.
    """
    q, k, _, mask = attention.operands
    values = values_along_last(mask)
    picked = [value for value in values if _is_picked(value)]
    of_one_sequence = product((*q.shape[1:3], k.shape[2]))
    if len(picked) > 1 or not all(at_least(of_one_sequence, product(value.shape)) for value in picked):
        picked = []
    constants = [value for value in values if value.op is not None and value.op.name == "constant"]
    return [value for value in (*constants, *picked) if value.rank and _is_uneven(value.shape[-1])]


def _is_picked(value: Value) -> bool:
    """Whether a kernel of its own writes narrow numbers that an index picks, with this last axis."""
    if value.dtype.itemsize > NARROW_BYTES or operands_along_last(value) is not None:
        return False
    op = value.op
    while op is not None and op.name in MOVEMENTS:
        op = op.operands[0].op
    return op is not None and op.name in PICKS


def _is_uneven(length: Dim) -> bool:
    """Whether rows of so many elements are to be filled up."""
    missing = _whole(length) - length
    if not isinstance(missing, int) or not isinstance(length, int):
        return True
    return 0 < missing <= (MOST_GROWTH - 1) * length


def _whole(length: Dim) -> Dim:
    return floordiv(length + VECTOR - 1, VECTOR) * VECTOR


def _filled(rows: Value, build: PassBuilder) -> Value:
    """The same rows, each as the beginning of a longer one."""
    missing = _whole(rows.shape[-1]) - rows.shape[-1]
    if rows.op is not None and rows.op.name == "constant":
        assert isinstance(missing, int), rows
        array = rows.op.array()
        whole = build.constant(np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)]))
    else:
        whole = build.pad(rows, [0] * rows.rank, [*[0] * (rows.rank - 1), missing])
    zeros, ones = (0,) * rows.rank, (1,) * rows.rank
    return build.op("slice", [whole], {"starts": zeros, "shape": rows.shape, "steps": ones})[0]
