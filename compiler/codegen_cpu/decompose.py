"""Composites that are part of a kernel, replaced by the ops that they are made of."""

from compiler.ir.builder import Builder
from compiler.ir.module import Block, Op, Value
from compiler.ir.primitive import PRIMITIVES
from compiler.planning.kernel_plan import Kernel


def decompose_kernel(kernel: Kernel) -> Kernel:
    """`kernel` with a block without composites."""
    return Kernel(kernel.kind, decompose_block(kernel.block), kernel.symbols, kernel.schedule)


def decompose_block(block: Block) -> Block:
    """`block` with every composite replaced by the ops that it is made of."""
    build = Builder()
    values: dict[Value, Value] = {parameter: parameter for parameter in block.parameters}
    for op in block.ops:
        operands = [values[operand] for operand in op.operands]
        decompose = PRIMITIVES[op.name].decompose
        if decompose is not None:
            moved = Op(op.name, tuple(operands), op.attributes, (), op.result_types)
            results = decompose(moved, build)
        else:
            results = build.op(op.name, operands, op.attributes)
        values.update(zip(op.results, results, strict=True))
    root = values[block.results[0]]
    return build.block(block.parameters, [root])
