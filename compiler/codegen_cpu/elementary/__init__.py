"""Elementary functions of f32 and f64 registers, scalars and vectors alike; 16-bit floats arrive as f32.

f32, and the commonest of f64, are computed in vector code of our own; the rest of f64 by the C library, lane by lane.
A lane's result depends on its operands alone: not on the other lanes, their number or its position.
"""

from collections.abc import Callable, Mapping

from onnxc.compiler.codegen_cpu.elementary.error_function import erf
from onnxc.compiler.codegen_cpu.elementary.exponential import cosh, exp, normal_exp, sigmoid, sinh, tanh
from onnxc.compiler.codegen_cpu.elementary.gelu import gelu, gelu_by_tanh
from onnxc.compiler.codegen_cpu.elementary.inverse_trigonometric import acos, asin, atan
from onnxc.compiler.codegen_cpu.elementary.library import call_per_lane
from onnxc.compiler.codegen_cpu.elementary.logarithm import acosh, asinh, atanh, log
from onnxc.compiler.codegen_cpu.elementary.power import pow
from onnxc.compiler.codegen_cpu.elementary.remainder import rem, rem_f64
from onnxc.compiler.codegen_cpu.elementary.trigonometric import cos, sin, tan
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg

Emit = Callable[..., Reg]

_F32: Mapping[str, Emit] = {
    "exp": exp, "log": log, "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan,
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": asinh, "acosh": acosh, "atanh": atanh, "erf": erf,
    "pow": pow, "rem": rem,
}  # fmt: skip
_F64: Mapping[str, Emit] = {
    "exp": exp, "log": log, "tanh": tanh, "erf": erf, "sin": sin, "cos": cos, "rem": rem_f64
}  # fmt: skip


def _emitter(name: str) -> Emit:
    def emit(f: FunctionBuilder, *operands: Reg) -> Reg:
        table = _F32 if operands[0].element == "float" else _F64
        if name in table:
            return table[name](f, *operands)
        return call_per_lane(f, name, *operands)

    return emit


ELEMENTARY: dict[str, Emit] = {name: _emitter(name) for name in _F32}

__all__ = ["ELEMENTARY", "gelu", "gelu_by_tanh", "normal_exp", "sigmoid"]
