"""What a profile holds kernels against: as many multiply-adds as a core makes, of vectors in registers alone."""

from collections.abc import Sequence

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.target import Target
from onnxc.runtime.profiling.limits import MULTIPLY_ADDS

__all__ = ["peak_function"]

SUMS = 12
"""So many sums at once hide that one takes 4 or 5 cycles where two begin in a cycle; with their two operands they fit
into 16 registers."""


def peak_function(target: Target) -> FunctionBuilder:
    """i64 onnxc_multiply_adds(i64 rounds): how many operations of f32 it has done."""
    f = FunctionBuilder(MULTIPLY_ADDS, [("i64", "rounds")], returns="i64", effort="plain")
    (rounds,) = f.parameters
    lanes = target.vector_bits // 32
    half, zero = (f.splat(f.constant("float", value), lanes) for value in (0.5, 0.0))

    def add_halves(_: Reg, *sums: Reg) -> Sequence[Reg]:
        return [f.multiply_add(each, half, half) for each in sums]

    total, *others = f.loop(0, rounds, 1, add_halves, [zero] * SUMS)
    for other in others:
        total = f.fadd(total, other)
    first = f.extract(total, 0)
    # Nothing is computed whose result nobody reads; sums of halves are at most 1.
    is_wrong = f.fcmp("ugt", first, f.constant("float", SUMS))
    f.ret(f.select(is_wrong, f.constant("i64", 0), f.mul(rounds, 2 * lanes * SUMS)))
    return f
