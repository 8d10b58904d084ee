"""Code of callers on the host, in its other form, where it is not for GPUs."""

from collections.abc import Callable

from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.primitives.native import host_form, no_triton
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, Rule, rewrite, rule


def host_native_calls(module: Module) -> Module:
    """Makes calls of code that is not for GPUs calls of the functions on the host that mean the same.

    Raises UnsupportedError for one that has none.
    """
    return rewrite(module, [calls_on_host(no_triton, "a GPU")])


def calls_on_host(why_not: Callable[[Op], str], target: str) -> Rule:
    """The rule for a kind of target; `why_not` says what keeps code from being for it, and nothing where it is."""

    @rule("native_call")
    def on_host(op: Op, build: Rewriter) -> Outcome:
        """native_call(x) = host(x)"""
        why = why_not(op)
        if not why:
            return None
        return build.host("custom_operator", op.operands, op.result_types, host_form(op, target, why))

    return on_host
