"""Code of callers on the host, in its other form, where it is not for CPUs."""

from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.primitives.native import no_llvm
from onnxc.compiler.ir.rewriter import rewrite
from onnxc.compiler.passes.lower.host_native_calls import calls_on_host


def host_triton_calls(module: Module) -> Module:
    """Makes calls of code that is not for CPUs calls of the functions on the host that mean the same.

    Raises UnsupportedError for one that has none.
    """
    return rewrite(module, [calls_on_host(no_llvm, "a CPU")])
