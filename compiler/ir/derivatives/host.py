"""Functions of the host, and code of callers, have no derivatives; this says which one stands in the way."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import Gradients, NotDifferentiable, Step, derivative


@derivative("host")
def host(step: Step, build: Builder) -> Gradients:
    """None"""
    raise NotDifferentiable(step.op, f"host function {step.op.text('function')} has no derivative")


@derivative("native_call")
def native_call(step: Step, build: Builder) -> Gradients:
    """None"""
    raise NotDifferentiable(step.op, f"the native code of {step.op.text('operator')} has no derivative")
