"""Modules of LLVM IR that a caller wrote: checked, made to fit beside ours, and optimised."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm

from onnxc.compiler.codegen_host.conversions import conversion_functions
from onnxc.compiler.codegen_host.elf_object import parse_object
from onnxc.compiler.codegen_host.link import is_library_function
from onnxc.compiler.codegen_host.machine import compile_object, optimized, parsed
from onnxc.compiler.target import Target
from onnxc.runtime.errors import InputError

__all__ = ["NativeModule", "native_module"]

_CONSTANT = re.compile(r"@\S+ = (?:[a-z_]+(?:\([^)]*\))? )*constant ")


@dataclass(frozen=True)
class NativeModule:
    """The text of a module, and the name that its one visible function has."""

    text: str
    entry: str


def native_module(text: str, parameters: Sequence[str], operator: str, target: Target) -> NativeModule:
    """The module whose one function that is not internal takes `parameters`, types of LLVM, and returns nothing.

    Its functions get names that no others have. Raises InputError for what LLVM refuses, for another signature, for
    variables, whose values calls in several threads would share, and for functions that no library here has.
    """
    try:
        with parsed(text) as module:
            made = _fitted(module, text, parameters, operator, target)
    except RuntimeError as problem:
        raise _wrong(operator, f"LLVM refuses it: {' '.join(str(problem).split())}") from None
    _expect_known(made, operator, target)
    return made


def _fitted(
    module: llvm.ModuleRef, text: str, parameters: Sequence[str], operator: str, target: Target
) -> NativeModule:
    function = _entry(module, operator)
    given = [str(argument.type) for argument in function.arguments]
    returned, name = _returned(function), function.name
    if given != list(parameters) or returned != "void":
        listed = f"void @{name}({', '.join(parameters)})"
        raise _wrong(operator, f"its function is {returned} @{name}({', '.join(given)}), expected {listed}")
    for variable in module.global_variables:
        if not _CONSTANT.match(str(variable)):
            raise _wrong(operator, f"@{variable.name} is a variable, and only constants may be outside of functions")
    if re.search(r"^module asm", text, re.MULTILINE):
        raise _wrong(operator, "it has assembly outside of functions")
    digest = hashlib.sha256(f"{target}\n{text}".encode()).hexdigest()[:32]
    _keep_inside(module, name)
    function.name = entry = f"native_{digest}"
    return NativeModule(optimized(module, target), entry)


def _wrong(operator: str, message: str) -> InputError:
    return InputError(f"the native code of {operator}: {message}", code="native-code")


def _entry(module: llvm.ModuleRef, operator: str) -> llvm.ValueRef:
    visible = [
        function
        for function in module.functions
        if not function.is_declaration and function.linkage not in (llvm.Linkage.internal, llvm.Linkage.private)
    ]
    if len(visible) != 1:
        listed = ", ".join(f"@{function.name}" for function in visible) or "none"
        raise _wrong(operator, f"it must have one function that is not internal, and has {listed}")
    return visible[0]


def _returned(function: llvm.ValueRef) -> str:
    """The type that a function returns, as its definition says it."""
    matched = re.search(r"^define .*?(\S+) @", str(function), re.MULTILINE)
    return matched[1] if matched else "?"


def _keep_inside(module: llvm.ModuleRef, entry: str) -> None:
    """Makes all that has a definition internal, but the entry: objects of other modules may have the same names."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != entry:
            value.linkage = llvm.Linkage.internal


def _expect_known(module: NativeModule, operator: str, target: Target) -> None:
    """Refuses functions of others, which nobody would define: those of libm and the few of libc are there."""
    ours = {function.name for function in conversion_functions()}
    symbols = parse_object(compile_object(module.text, target)).symbols
    wanted = {symbol.name for symbol in symbols if symbol.is_global and symbol.section is None}
    unknown = [name for name in wanted - ours if not is_library_function(name)]
    if unknown:
        message = (
            f"it calls {', '.join(sorted(unknown))}, and only the functions of libm and memcpy and its like are there"
        )
        raise _wrong(operator, message)
