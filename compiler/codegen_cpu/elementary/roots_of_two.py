"""The powers of 2 of sixteenths, which a register of AVX-512 holds and one of its instructions looks up.

What is left of an exponent is then so near 0 that three coefficients do where six or seven did: a weight of a softmax
takes 4.4 cycles of Zen 5 for 16 lanes in place of 6.0, as a power of two 4.3 in place of 4.8.
Source of the method: P. Tang, "Table-driven implementation of the exponential function", ACM TOMS 15 (1989).
"""

import struct

from onnxc.compiler.codegen_cpu.elementary.lanes import FLOAT, from_bits
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, vector_type

ROOT_BITS = 4
"""The bits of an exponent behind the point that choose a root."""

_LANES = 2**ROOT_BITS
"""Of the vector that has them."""


def has_roots(f: FunctionBuilder, x: Reg) -> bool:
    """Whether powers of two are computed so: of f32, in any number of lanes, where there is the instruction."""
    return x.element == FLOAT.name and "avx512f" in f.features


def root_of_two(f: FunctionBuilder, n: Reg) -> Reg:
    """2^(k / 16) for the integers k in the low bits of the i32 of `n`, of which the result is a normal number."""
    # The low bits of k, shifted with the others, are taken off the roots beforehand.
    step = 1 << (FLOAT.mantissa_bits - ROOT_BITS)
    roots = [struct.unpack("<i", struct.pack("<f", 2 ** (k / _LANES)))[0] - k * step for k in range(_LANES)]
    root = _looked_up(f, f.constant(vector_type(n.element, _LANES), roots), n)
    return from_bits(f, f.add(root, f.shl(n, FLOAT.mantissa_bits - ROOT_BITS)))


def _looked_up(f: FunctionBuilder, table: Reg, n: Reg) -> Reg:
    """The element of the table that the low bits of each lane name, in vectors as wide as the table."""
    lanes = n.lanes
    if lanes > _LANES:
        halves = (f.shuffle(n, None, range(first, first + lanes // 2)) for first in (0, lanes // 2))
        low, high = (_looked_up(f, table, half) for half in halves)
        return f.shuffle(low, high, range(lanes))
    wide = f.splat(n, _LANES) if lanes == 1 else f.shuffle(n, None, [*range(lanes), *[-1] * (_LANES - lanes)])
    root = f.call("llvm.x86.avx512.permvar.si.512", table.type, table, wide)
    return root if lanes == _LANES else f.shuffle(root, None, range(lanes))
