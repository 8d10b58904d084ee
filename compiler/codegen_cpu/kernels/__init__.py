"""One file per kernel kind, named by the kind; the folder is the list."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping

from onnxc.compiler.codegen_cpu.kernel_function import KernelCode
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.target import Target

_modules = {info.name: importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)}

EMITTERS: Mapping[str, Callable[[Kernel, str, Target], KernelCode]] = {
    kind: module.emit for kind, module in _modules.items() if hasattr(module, "emit")
}
"""The code generator of each kernel kind."""
