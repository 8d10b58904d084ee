"""One file per kernel kind, named by the kind; the folder is the list. Each is imported for a kernel of its kind."""

import importlib
import pkgutil

from onnxc.compiler.codegen_cpu.kernel_function import KernelCode
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.target import Target

KINDS = frozenset(info.name for info in pkgutil.iter_modules(__path__))
"""The kernel kinds that there is a code generator for."""


def emit_kernel(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a kernel, whose function gets this name."""
    code: KernelCode = importlib.import_module(f"{__name__}.{kernel.kind}").emit(kernel, name, target)
    return code
