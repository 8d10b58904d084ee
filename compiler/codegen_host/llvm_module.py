"""Modules of LLVM IR as text: functions, constants and declarations.

text = ModuleBuilder().add(f).text()
"""

from collections.abc import Callable, Mapping, Sequence

from onnxc.compiler.codegen_host.effort import EFFORTS, Effort, marked
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, scalar_literal

__all__ = ["MODULE_LENGTH", "ModuleBuilder", "ModuleStream"]

MODULE_LENGTH = 5_000
"""Instructions that LLVM gets at once: about half a second of its time, which can be shared by processes.

ResNet-50 is 29 000 instructions.
"""

FIRST_LENGTH = 500
"""The first module has no more, so that LLVM begins soon; each may have twice as many as the one before."""


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

    def text(self) -> str:
        """All of it as one module."""
        known = {name: function.declaration for name, function in self._functions.items()}
        return _text(self._functions, known, self._constants, self._declarations)


class ModuleStream:
    """Functions that become modules to be linked: each goes to `write` as text when it is full.

    A module has at most `length` instructions or one function, the first ones less; all in one take the same effort.
    Functions must be known to each other's modules: none is internal.
    """

    def __init__(self, write: Callable[[str], None], length: int = MODULE_LENGTH) -> None:
        self._write = write
        self._most = length
        self._limit = min(FIRST_LENGTH, length)
        self._open: dict[Effort, dict[str, FunctionBuilder]] = {}
        self._known: dict[str, str] = {}
        self.length = 0

    def add(self, functions: Sequence[FunctionBuilder]) -> None:
        """Functions that may take the addresses of each other, and of all that were added before."""
        for function in functions:
            assert function.name not in self._known, f"function {function.name} is there already"
            self._known[function.name] = function.declaration
            self.length += function.length
        for function in functions:
            group = self._open.setdefault(function.effort, {})
            if group and sum(other.length for other in group.values()) + function.length > self._limit:
                self._hand_on(function.effort)
            self._open[function.effort][function.name] = function

    def close(self) -> None:
        """Hands on what is not full."""
        for effort in EFFORTS:
            if self._open.get(effort):
                self._hand_on(effort)

    def _hand_on(self, effort: Effort) -> None:
        functions, self._open[effort] = self._open[effort], {}
        self._limit = min(2 * self._limit, self._most)
        self._write(marked(_text(functions, self._known, (), {}), effort))


def _text(
    functions: Mapping[str, FunctionBuilder],
    known: Mapping[str, str],
    constants: Sequence[str],
    declarations: Mapping[str, str],
) -> str:
    """A module of functions, which may take the addresses of those `known` by their declarations."""
    declared = dict(declarations)
    for function in functions.values():
        declared.update(function.declarations)
        declared.update((name, known[name]) for name in function.addresses if name in known)
    needed = [line for name, line in declared.items() if name not in functions]
    own = dict(item for function in functions.values() for item in function.constants.items())
    return "\n".join([*constants, *own.values(), *(f.text() for f in functions.values()), *needed, ""])
