"""Code of callers on the host, in its other form, where it is not for CPUs."""

from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.primitives.native import host_form, no_llvm
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def host_triton_calls(module: Module) -> Module:
    """Makes calls of code that is not for CPUs calls of the functions on the host that mean the same.

    Raises UnsupportedError for one that has none.
    """
    return rewrite(module, [on_host])


@rule("native_call")
def on_host(op: Op, build: Rewriter) -> Outcome:
    """native_call(x) = host(x)"""
    why = no_llvm(op)
    if not why:
        return None
    return build.host("custom_operator", op.operands, op.result_types, host_form(op, "a CPU", why))
