"""Images: the object code of a program, linked with what all of them may need."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from onnxc.compiler.codegen_host.builtin_function import builtin_function
from onnxc.compiler.codegen_host.compile_objects import compile_objects
from onnxc.compiler.codegen_host.conversions import conversion_functions
from onnxc.compiler.codegen_host.effort import marked
from onnxc.compiler.codegen_host.heap import heap_functions
from onnxc.compiler.codegen_host.linking.link import link_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.peak import peak_function
from onnxc.compiler.codegen_host.threads.pool import POOL_EXPORTS, pool_functions
from onnxc.compiler.target import Target
from onnxc.runtime.native.builtin_function import BUILTIN
from onnxc.runtime.profiling.limits import MULTIPLY_ADDS


def build_image(objects: Sequence[bytes], exports: Sequence[str], target: Target, folder: Path | None = None) -> bytes:
    """A shared library for runtime/cpu.py to load; the objects may use `onnxc_parallel_for` and 16-bit floats.

    folder: where object code is kept, None for nowhere.
    """
    return link_image([*objects, *support_objects(target, folder)], [*exports, *POOL_EXPORTS, BUILTIN, MULTIPLY_ADDS])


@cache
def support_objects(target: Target, folder: Path | None = None) -> tuple[bytes, ...]:
    """The object code of the thread pool, the heap and the call from Python, and that of what loops are made of.

    The first are gone through once for a loop or a call, and a call of 1.08 us takes the same time whatever LLVM does
    for them, which is 4 ms or 21.
    """
    once = (*pool_functions(target), *heap_functions(), builtin_function())
    often = (*conversion_functions(), peak_function(target))
    return compile_objects([marked(_text(once), "least"), marked(_text(often), "plain")], target, folder)


def _text(functions: Iterable[FunctionBuilder]) -> str:
    module = ModuleBuilder()
    for function in functions:
        module.add(function)
    return module.text()
