"""Elementary functions of f32 and f64 registers, scalars and vectors alike, by calls into the C library per lane."""

from collections.abc import Callable

from compiler.codegen_host.llvm_ir import FunctionBuilder
from compiler.codegen_host.llvm_values import Reg

_LIBRARY_NAMES = {
    "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "pow": "pow", "rem": "fmod",
}  # fmt: skip


def _call_per_lane(name: str) -> Callable[..., Reg]:
    def emit(f: FunctionBuilder, *operands: Reg) -> Reg:
        first = operands[0]
        function = name + ("f" if first.element == "float" else "")
        if first.lanes == 1:
            return _reg(f.call(function, first.type, *operands))
        result = f.constant(first.type, 0.0)
        for lane in range(first.lanes):
            scalars = [f.extract(operand, lane) for operand in operands]
            result = f.insert(result, _reg(f.call(function, first.element, *scalars)), lane)
        return result

    return emit


def _reg(value: Reg | None) -> Reg:
    assert value is not None
    return value


ELEMENTARY: dict[str, Callable[..., Reg]] = {name: _call_per_lane(library) for name, library in _LIBRARY_NAMES.items()}
