"""Constants of bytes that are multiplied, with the axis that is summed last: tensor cores read bytes along it alone.

A product of i8 [512, 768] by [768, 3072] shuffled single bytes between loading and multiplying (32 STS.U8 in the loop
of sm_90), by [3072, 768] none.
"""

import numpy as np

from onnxc.compiler.ir.makers import constant_of
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.rewriter import Rewriter, rewrite, rule

BYTE = 8


def depth_last(module: Module) -> Module:
    """Turns constants of bytes that are multiplied."""
    return rewrite(module, [turn])


@rule("dot")
def turn(op: Op, build: Rewriter) -> Value | None:
    """dot(x, w, "mk,kn->mn") = dot(x, transposed w, "mk,nk->mn"), for w a constant of bytes that nothing else reads"""
    *terms, result = parse_equation(op.text("equation"))
    operands = list(op.operands)
    for ordinal, operand in enumerate(op.operands):
        array, letters = constant_of(operand), terms[ordinal]
        summed = [letter for letter in letters if letter not in result]
        is_bytes = operand.dtype.bits == BYTE and len(summed) == 1 and letters[-1] not in summed
        if array is not None and is_bytes and build.uses(operand) == 1:
            terms[ordinal] = letters.replace(summed[0], "") + summed[0]
            turned = array.transpose([letters.index(letter) for letter in terms[ordinal]])
            operands[ordinal] = build.constant(np.ascontiguousarray(turned))
    if operands == list(op.operands):
        return None
    left, right = operands
    return build.dot(left, right, f"{terms[0]},{terms[1]}->{result}", op.dtype())
