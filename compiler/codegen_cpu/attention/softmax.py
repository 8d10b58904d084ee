"""The steps of a softmax that is corrected as it goes, on registers of any number of lanes.

Where nothing but a scale stands between products and weights, the scale has log2 e in it, and weights are powers of 2.
A mask is added as it is: some are the least number, of which log2 e would make an infinity.
"""

from math import inf

from onnxc.compiler.codegen_cpu.elementary import ELEMENTARY
from onnxc.compiler.codegen_cpu.elementary.exponential import LOG2_E, normal_exp, normal_exp2
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.ir.module import Op


def has_powers_of_two(op: Op) -> bool:
    """Whether the weights of an attention are 2 to the power of its scores, less the greatest, and not e."""
    return len(op.operands) <= 3 and op.float("softcap") == 0


def scale_of(op: Op) -> float:
    """What queries are multiplied by."""
    return op.float("scale") * (LOG2_E if has_powers_of_two(op) else 1.0)


def changes_scores(op: Op) -> bool:
    """Whether anything but a scale stands between the products of an attention and its softmax."""
    return len(op.operands) > 3 or op.flag("causal") or op.float("softcap") != 0


def capped(f: FunctionBuilder, score: Reg, op: Op) -> Reg:
    """softcap * tanh(score / softcap), where the attention has one."""
    cap = op.float("softcap")
    return score if cap == 0 else f.fmul(ELEMENTARY["tanh"](f, f.fdiv(score, cap)), cap)


def masked(f: FunctionBuilder, score: Reg, bias: Reg) -> Reg:
    """The score with its bias. Not a sum alone: of a key that the mask closes, infinity or NaN would be NaN."""
    return f.select(f.fcmp("oeq", bias, -inf), -inf, f.fadd(score, bias))


def larger(f: FunctionBuilder, score: Reg, peak: Reg) -> Reg:
    """The larger of the two, the peak where the score is NaN."""
    return f.select(f.fcmp("ogt", score, peak), score, peak)


def subtracted(f: FunctionBuilder, peak: Reg) -> Reg:
    """What is taken off the scores: the peak, but of a query of which nothing has been seen yet no infinity."""
    return f.select(f.fcmp("oeq", peak, -inf), 0.0, peak)


def weight_of(f: FunctionBuilder, score: Reg, peak: Reg, op: Op) -> Reg:
    """2^(score - peak), or e^(score - peak), and 0 below the least normal number."""
    power = normal_exp2 if has_powers_of_two(op) else normal_exp
    return power(f, f.fsub(score, peak))


def share_of(f: FunctionBuilder, weight: Reg) -> Reg:
    """What a sum of values is multiplied by: 1 over the sum of the weights; 1 where a query sees nothing."""
    return f.fdiv(1.0, f.select(f.fcmp("oeq", weight, 0.0), 1.0, weight))
