"""Constants that are multiplied, with what is summed last: tensor cores read all but 16-bit numbers along it.

A product of i8 [512, 768] by [768, 3072] shuffled single bytes between loading and multiplying (32 STS.U8 in the loop
of sm_90), by [3072, 768] none. Of f32 a kernel has a constant laid out so itself, but only where it makes one product:
those that may be made together, of the same rows by two constants, are turned here.
"""

from collections.abc import Collection, Iterator

import numpy as np

from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.makers import constant_of
from onnxc.compiler.ir.module import Module, Op, Value, walk
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.rewriter import Rewriter, Rule, rewrite
from onnxc.runtime.records import record

BYTE = 8


def depth_last(module: Module) -> Module:
    """Turns constants that are multiplied: of bytes, and of f32 by which the same rows are multiplied."""
    turning = _Turning(frozenset(_multiplied_together(module)))
    return rewrite(module, [Rule("turn", ("dot",), turning.turn)])


def _multiplied_together(module: Module) -> Iterator[Op]:
    """Constants of f32, of one shape, by which a product multiplies what another one multiplies by another of them."""
    first: dict[tuple[object, ...], Op] = {}
    for function in module.functions:
        for op in walk(function.body):
            w = op.operands[1].op if op.name == "dot" and op.operands[1].dtype == F32 else None
            if w is None or w.name != "constant":
                continue
            other = first.setdefault((op.operands[0], op.text("equation"), w.result.tensor), w)
            if other is not w:
                yield from (other, w)


@record
class _Turning:
    """The rule, and the constants of f32 that it turns."""

    together: Collection[Op]

    def turn(self, op: Op, build: Rewriter) -> Value | None:
        """dot(x, w, "mk,kn->mn") = dot(x, transposed w, "mk,nk->mn"), for w a constant that nothing else reads"""
        *terms, result = parse_equation(op.text("equation"))
        operands = list(op.operands)
        for ordinal, operand in enumerate(op.operands):
            array, letters = constant_of(operand), terms[ordinal]
            summed = [letter for letter in letters if letter not in result]
            is_wanted = operand.dtype.bits == BYTE or operand.op in self.together
            is_turned = is_wanted and len(summed) == 1 and letters[-1] not in summed
            if array is not None and is_turned and build.uses(operand) == 1:
                terms[ordinal] = letters.replace(summed[0], "") + summed[0]
                turned = array.transpose([letters.index(letter) for letter in terms[ordinal]])
                operands[ordinal] = build.constant(np.ascontiguousarray(turned))
        if operands == list(op.operands):
            return None
        left, right = operands
        return build.dot(left, right, f"{terms[0]},{terms[1]}->{result}", op.dtype())
