"""Composites that are part of a kernel, replaced by the ops that they are made of."""

from collections.abc import Callable, Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.composites.decompositions import DECOMPOSITIONS, decompose
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.kernel_plan import Kernel


class _PlainBuilder(Builder):
    """Makes each op as it is asked for: planning has decided what is read from memory and what is computed."""

    def may_fold(self, name: str, operands: Sequence[Value]) -> bool:
        """Never."""
        return False


def decompose_kernel(kernel: Kernel, keeps: Callable[[Op], bool] = lambda op: False) -> Kernel:
    """`kernel` with a block without composites, but for the one that the kernel is for, and what is kept.

    Reductions fold what a composite is made of; all other kinds know their composites.
    """

    def is_kept(op: Op) -> bool:
        return PRIMITIVES[op.name].anchor == kernel.kind != "reduction" or keeps(op)

    return Kernel(kernel.kind, decompose_block(kernel.block, is_kept), kernel.symbols, kernel.schedule)


def decompose_block(block: Block, keeps: Callable[[Op], bool] = lambda op: False) -> Block:
    """`block` with every composite that is not kept replaced by the ops that it is made of."""
    build = _PlainBuilder()
    values: dict[Value, Value] = {parameter: parameter for parameter in block.parameters}
    for op in block.ops:
        moved = Op(
            op.name, tuple(values[operand] for operand in op.operands), op.attributes, op.blocks, op.result_types
        )
        if op.name not in DECOMPOSITIONS or keeps(op):
            build.ops.append(moved)
            values.update(zip(op.results, moved.results, strict=True))
        else:
            values.update(zip(op.results, decompose(moved, build), strict=True))
    return build.block(block.parameters, [values[result] for result in block.results])
