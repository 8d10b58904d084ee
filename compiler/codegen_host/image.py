"""Images: the object code of a program, linked with what all of them may need."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from onnxc.compiler.codegen_host.builtin_function import builtin_function
from onnxc.compiler.codegen_host.compile_objects import compile_objects
from onnxc.compiler.codegen_host.conversions import conversion_functions
from onnxc.compiler.codegen_host.heap import heap_functions
from onnxc.compiler.codegen_host.linking.link import link_image
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.threads.pool import POOL_EXPORTS, pool_functions
from onnxc.compiler.target import Target
from onnxc.runtime.native.builtin_function import BUILTIN


def build_image(objects: Sequence[bytes], exports: Sequence[str], target: Target, folder: Path | None = None) -> bytes:
    """A shared library for runtime/cpu.py to load; the objects may use `onnxc_parallel_for` and 16-bit floats.

    folder: where object code is kept, None for nowhere.
    """
    return link_image([*objects, support_object(target, folder)], [*exports, *POOL_EXPORTS, BUILTIN])


@cache
def support_object(target: Target, folder: Path | None = None) -> bytes:
    """The object code of the thread pool, the conversions, the heap and the call from Python."""
    module = ModuleBuilder()
    for function in (*pool_functions(target), *conversion_functions(), *heap_functions(), builtin_function()):
        module.add(function)
    (support,) = compile_objects([module.text()], target, folder)
    return support
