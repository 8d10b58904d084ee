"""One file per kernel kind, named by the kind; the folder is the list."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping

from onnxc.compiler.codegen_gpu.source.composites import COMPOSITES
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.loaded_sizes import with_counted_sizes
from onnxc.compiler.ir.dtypes import BF16, F16, F32
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.decompose import decompose_kernel
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.target import Target

_modules = {info.name: importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)}

EMITTERS: Mapping[str, Callable[[Kernel, Target], KernelCode]] = {
    kind: module.emit for kind, module in _modules.items() if hasattr(module, "emit")
}
"""The code generator of each kernel kind."""

FOLLOWED = ("contraction", "convolution", "block_product")
"""Kinds whose results go through pointwise ops in registers, where nothing asks what a composite is made of."""


def emit_kernel(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a kernel, which loads what it has to load.

    Composites are taken apart, but those that are one expression behind a product.
    """

    def keeps(op: Op) -> bool:
        return op.name in COMPOSITES and kernel.kind in FOLLOWED and op.operands[0].dtype in (F32, F16, BF16)

    return with_counted_sizes(EMITTERS[kernel.kind](decompose_kernel(kernel, keeps), target), kernel.loads)
