"""One file per kernel kind, named by the kind; the folder is the list."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from compiler.codegen_cpu.kernel_function import KernelCode
from compiler.planning.kernel_plan import Kernel
from compiler.target import Target

_modules = {info.name: importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)}

EMITTERS: Mapping[str, Callable[[Kernel, str, Target], KernelCode]] = {
    kind: module.emit for kind, module in _modules.items() if hasattr(module, "emit")
}
"""The code generator of each kernel kind."""

PACKED_SHAPES: Mapping[str, Callable[[Sequence[str | int]], tuple[int, ...]]] = {
    kind: module.packed_shape for kind, module in _modules.items() if hasattr(module, "packed_shape")
}
"""The shape of a constant in a layout of a kernel kind; a layout begins with the kind."""

PACKERS: Mapping[str, Callable[[np.ndarray, Sequence[str | int], np.ndarray], None]] = {
    kind: module.pack_weight for kind, module in _modules.items() if hasattr(module, "pack_weight")
}
"""What writes a constant in a layout of a kernel kind to an array of the packed shape."""
