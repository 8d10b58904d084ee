"""Modules of LLVM IR as text: functions, constants and declarations, in parts that LLVM gets one by one.

text = ModuleBuilder().add(f).text()
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.codegen_host.effort import EFFORTS, marked
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, scalar_literal

__all__ = ["MODULE_LENGTH", "ModuleBuilder"]

MODULE_LENGTH = 5_000
"""Instructions that LLVM gets at once: about half a second of its time, which can be shared by processes.

ResNet-50 is 29 000 instructions.
"""


class ModuleBuilder:
    """Functions, constants and declarations; the text lists them in the order they were added."""

    def __init__(self) -> None:
        self._constants: list[str] = []
        self._functions: dict[str, FunctionBuilder] = {}
        self._declarations: dict[str, str] = {}

    def add(self, function: FunctionBuilder) -> "ModuleBuilder":
        assert function.name not in self._functions, f"function {function.name} is there already"
        self._functions[function.name] = function
        return self

    def declare(self, name: str, returns: str, parameters: Sequence[str]) -> None:
        """Names a function of another object, where its address is used; calls declare on their own."""
        self._declarations[name] = f"declare {returns} @{name}({', '.join(parameters)})"

    def declare_constant(self, name: str) -> None:
        """Names constant bytes of another object."""
        self._constants.append(f"@{name} = external constant i8")

    def global_constant(self, name: str, type: str, values: Sequence[float] | bytes, align: int = 64) -> Reg:
        """The address of an array of elements of `type`, given as scalars or as the bytes in memory (type i8)."""
        if isinstance(values, bytes):
            assert type == "i8", f"bytes are i8, not {type}"
            data = 'c"' + "".join(f"\\{byte:02X}" for byte in values) + '"'
        else:
            data = "[" + ", ".join(f"{type} {scalar_literal(type, value)}" for value in values) + "]"
        self._constants.append(
            f"@{name} = internal unnamed_addr constant [{len(values)} x {type}] {data}, align {align}"
        )
        return Reg(f"@{name}", "ptr")

    @property
    def length(self) -> int:
        """About how many instructions its functions have."""
        return sum(function.length for function in self._functions.values())

    def text(self) -> str:
        """All of it as one module."""
        return self._text(self._functions)

    def texts(self, length: int = MODULE_LENGTH) -> tuple[str, ...]:
        """The same as modules to be linked, each of at most `length` instructions or of one function.

        All in one take the same effort. Functions must be known to each other's modules: none is internal.
        """
        return tuple(
            marked(self._text(group), effort)
            for effort in EFFORTS
            for group in _groups({name: f for name, f in self._functions.items() if f.effort == effort}, length)
        )

    def _text(self, functions: Mapping[str, FunctionBuilder]) -> str:
        declarations = dict(self._declarations)
        for function in functions.values():
            declarations.update(function.declarations)
            for name in function.addresses:
                if name in self._functions:
                    declarations[name] = self._functions[name].declaration
        needed = [line for name, line in declarations.items() if name not in functions]
        constants = dict(item for function in functions.values() for item in function.constants.items())
        lines = [*self._constants, *constants.values(), *(f.text() for f in functions.values()), *needed, ""]
        return "\n".join(lines)


def _groups(functions: Mapping[str, FunctionBuilder], length: int) -> list[dict[str, FunctionBuilder]]:
    """Functions in their order, in groups of so many instructions or of one function."""
    groups: list[dict[str, FunctionBuilder]] = []
    room = 0
    for name, function in functions.items():
        if function.length > room:
            groups.append({})
            room = length
        groups[-1][name] = function
        room -= function.length
    return groups
