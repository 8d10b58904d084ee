"""Movements at the leaves: what a pointwise kernel moves is what it reads, and never what it has computed.

movement(f(x, y)) = f(movement(x), movement(y)). So an access is a strided view of a buffer wherever it can be, and code
generators see in which order memory is gone through. A reshape of the result is left out, as what is written is dense.
"""

from dataclasses import replace

from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.kernel_plan import Kernel


def sink_movements(kernel: Kernel) -> Kernel:
    """`kernel` with its strided movements before its pointwise ops."""
    return replace(kernel, block=sink_block(kernel.block))


def sink_block(block: Block) -> Block:
    """`block` with its strided movements before its pointwise ops."""
    sinker = _Sinker()
    results = [sinker.moved(result, _units_left_out(result)) for result in map(_before_reshapes, block.results)]
    return Block(block.parameters, tuple(sinker.ops), tuple(results))


def _before_reshapes(result: Value) -> Value:
    """What is written under another shape: in the memory of a dense result both are the same."""
    while result.op is not None and result.op.name == "reshape":
        result = result.op.operands[0]
    return result


def _units_left_out(result: Value) -> tuple[Op, ...]:
    """The reshape that leaves out axes of one element behind the last of others, along which vectors go.

    Where indices pick columns, axes are not merged: vectors had one element. Bilinear Resize of 80 x 80 pixels of one
    channel, channels last, to 160 x 160 took 64 us, and takes 5 so.
    """
    kept = max((axis for axis, size in enumerate(result.shape) if size != 1), default=-1) + 1
    if kept in (0, result.rank):
        return ()
    shape = result.shape[:kept]
    return (Op("reshape", (result,), {"shape": shape}, (), (TensorType(result.dtype, shape),)),)


class _Sinker:
    """Builds the ops of the new block, each once for each chain of movements that is asked of it."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.known: dict[tuple[Value, tuple[Op, ...]], Value] = {}

    def moved(self, value: Value, chain: tuple[Op, ...]) -> Value:
        """`value` after the movements of `chain`, the first of them first."""
        key = (value, chain)
        if key not in self.known:
            self.known[key] = self._moved(value, chain)
        return self.known[key]

    def _moved(self, value: Value, chain: tuple[Op, ...]) -> Value:
        op = value.op
        if op is not None and PRIMITIVES[op.name].is_view:
            return self.moved(op.operands[0], (op, *chain))
        if op is not None and PRIMITIVES[op.name].kind == "pointwise":
            operands = tuple(self.moved(operand, chain) for operand in op.operands)
            return self._add(Op(op.name, operands, op.attributes, (), (_type(value, chain),)))
        if op is not None:
            operands = tuple(self.moved(operand, ()) for operand in op.operands)
            copied = Op(op.name, operands, op.attributes, (), op.result_types)
            self.ops.append(copied)
            self.known.update({(old, ()): new for old, new in zip(op.results, copied.results, strict=True)})
            value = copied.results[value.index]
        for movement in chain:
            value = self._add(Op(movement.name, (value,), movement.attributes, (), (_type(value, (movement,)),)))
        return value

    def _add(self, op: Op) -> Value:
        self.ops.append(op)
        return op.results[0]


def _type(value: Value, chain: tuple[Op, ...]) -> TensorType:
    """The type of `value` after the movements."""
    return TensorType(value.dtype, chain[-1].results[0].shape if chain else value.shape)
