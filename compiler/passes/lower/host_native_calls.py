"""Native code of callers on the host, in its other form, for targets that it is not for."""

from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.primitives.native import host_form
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def host_native_calls(module: Module) -> Module:
    """Makes calls of native code calls of the functions on the host that mean the same.

    Raises UnsupportedError for one that has none.
    """
    return rewrite(module, [on_host])


@rule("native_call")
def on_host(op: Op, build: Rewriter) -> Outcome:
    """native_call(x) = host(x)"""
    return build.host("custom_operator", op.operands, op.result_types, host_form(op, "a GPU"))
