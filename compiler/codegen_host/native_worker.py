"""The program of a process that makes callers' modules of LLVM IR fit beside ours.

`python -m onnxc.compiler.codegen_host.native_worker FD` answers one `NativeJob` after another over the connection of
that descriptor.
"""

import hashlib
import re
from collections.abc import Sequence

import llvmlite.binding as llvm

from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.linking.elf_object import parse_object
from onnxc.compiler.codegen_host.machine import compile_object, optimized
from onnxc.compiler.codegen_host.native_module import NativeJob, NativeModule
from onnxc.compiler.jobs.answer_jobs import answer_jobs
from onnxc.compiler.jobs.job import Failed

IDLE_SECONDS = 30.0
"""Starting again takes half a second; until then a process keeps some 100 MB."""

_VISIBILITIES = frozenset(("dso_local", "hidden", "protected"))
"""What may stand before the type that the entry returns: all else says how it is linked or called."""

_PASSED_OTHERWISE = frozenset(
    ("byref", "byval", "inalloca", "inreg", "nest", "preallocated", "sret", "swiftasync", "swifterror", "swiftself")
)
"""Attributes of parameters that are not where C has them."""


def fit(job: NativeJob) -> NativeModule | Failed:
    """The module, optimised, with one name that is seen from outside; or what is wrong with it."""
    try:
        made = _fitted(job)
        code = compile_object(made.text, job.target)
        _expect_alone(code, made.entry)
        # What nothing but linking shows: symbols that nobody defines, and forms that images have not.
        build_image([code], [made.entry], job.target)
    except _Refused as problem:
        return Failed(str(problem))
    except RuntimeError as problem:
        return Failed(f"LLVM refuses it: {problem}")
    except AssertionError as problem:
        return Failed(f"it cannot be linked, as only libm, memcpy and its like are there: {problem}")
    return made


class _Refused(Exception):
    """What is wrong with a module, for people."""


def _fitted(job: NativeJob) -> NativeModule:
    module = llvm.parse_assembly(job.text, context=llvm.create_context())
    try:
        module.verify()
        digest = hashlib.sha256(f"{job.target}\n{job.text}".encode()).hexdigest()[:32]
        _expect_constant(module)
        _make_entry(module, job.parameters, f"native_{digest}")
        return NativeModule(optimized(module, job.target), f"native_{digest}")
    finally:
        # Its context must not end before it, whatever holds them.
        module.close()


def _expect_constant(module: llvm.ModuleRef) -> None:
    """Refuses what calls would share, or what would run before them."""
    for variable in module.global_variables:
        if not re.match(r"@\S+ = (?:[a-z_]+(?:\([^)]*\))? )*constant ", str(variable)):
            raise _Refused(f"@{variable.name} is a variable, and only constants may be outside of functions")
    if re.search(r"^module asm ", str(module), re.MULTILINE):
        raise _Refused("it has assembly outside of functions")


def _make_entry(module: llvm.ModuleRef, parameters: Sequence[str], name: str) -> None:
    """Names the entry; all else that is defined becomes internal, as other modules may have the same names."""
    defined = [value for value in (*module.functions, *module.global_variables) if not value.is_declaration]
    inner = (llvm.Linkage.internal, llvm.Linkage.private)
    visible = [value for value in defined if value.is_function and value.linkage not in inner]
    if len(visible) != 1:
        listed = ", ".join(f"@{function.name}" for function in visible) or "none"
        raise _Refused(f"it must have one function that is not internal, and has {listed}")
    (entry,) = visible
    _expect_signature(entry, parameters)
    for value in defined:
        value.linkage = llvm.Linkage.external if value == entry else llvm.Linkage.internal
    entry.name = name


def _expect_signature(entry: llvm.ValueRef, parameters: Sequence[str]) -> None:
    """Refuses a function that C would not call as void(parameters)."""
    head = next(line for line in str(entry).splitlines() if line.startswith("define "))
    before, _, behind = head.partition(f"@{entry.name}(")
    *words, returned = before.split()[1:]
    arguments = tuple(entry.arguments)
    given = [str(argument.type) for argument in arguments] + ["..."] * bool(re.search(r"\.\.\.\)", behind))
    if given != list(parameters) or returned != "void":
        listed = f"void @{entry.name}({', '.join(parameters)})"
        raise _Refused(f"its function is {returned} @{entry.name}({', '.join(given)}), expected {listed}")
    attributes = {word.decode().split("(")[0] for argument in arguments for word in argument.attributes}
    odd = sorted({*words} - _VISIBILITIES | attributes & _PASSED_OTHERWISE)
    if odd:
        raise _Refused(f"its function is {', '.join(odd)}, expected one that is called and linked as those of C")


def _expect_alone(code: bytes, entry: str) -> None:
    """Refuses what would be seen beside the entry, as an alias is."""
    symbols = (symbol for symbol in parse_object(code).symbols if symbol.is_global and symbol.section is not None)
    others = sorted(f"@{symbol.name}" for symbol in symbols if symbol.name != entry)
    if others:
        raise _Refused(f"it has {', '.join(others)} beside its function, which other modules would see")


if __name__ == "__main__":
    answer_jobs(fit, IDLE_SECONDS)
