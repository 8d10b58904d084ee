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
        moved = Op(op.name, tuple(values[operand] for operand in op.operands), op.attributes, (), op.result_types)
        decompose = PRIMITIVES[op.name].decompose
        if decompose is None:
            # Made as it is: the builder would fold what planning has decided to compute.
            build.ops.append(moved)
            values.update(zip(op.results, moved.results, strict=True))
        else:
            values.update(zip(op.results, decompose(moved, build), strict=True))
    root = values[block.results[0]]
    return build.block(block.parameters, [root])
