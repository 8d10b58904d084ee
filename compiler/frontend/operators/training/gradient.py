"""Gradient: derivatives of one value of the surrounding graphs, taken where the inputs of the node say."""

from collections.abc import Sequence

from onnxc.compiler.frontend.computation import TRAINING, Computation
from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import NotDifferentiable, carries_gradient, independent
from onnxc.compiler.ir.differentiation.differentiate import gradients
from onnxc.compiler.ir.module import Value

RULE = "ONNX Gradient"


@operator("Gradient", since=(1,), domain=TRAINING)
def gradient(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """inputs: the values of xs, then of zs  ->  for each of xs the gradient of the sum of y, of its type

    The part of the graphs that leads from xs and zs to y is computed again from the inputs. What y depends on besides
    has the value that it has outside of the node.
    Source: https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Gradient.html
    """
    xs, zs, target = node.strings("xs"), node.strings("zs", ()), node.string("y")
    _expect_function((*xs, *zs), xs, target, node)
    given = {name: value for name, value in zip((*xs, *zs), node.operands, strict=True) if value is not None}
    wanted = [name for ordinal, name in enumerate(xs) if node.wants(ordinal)]
    for name in wanted:
        given[name] = independent(_differentiable(name, given[name], node), ir)
    y = _differentiable(target, node.lower_subgraph.compute_again(target, given, ir), node)
    try:
        results = iter(gradients(y, [given[name] for name in wanted], ir))
    except NotDifferentiable as reason:
        node.unsupported(f"{reason.reason}, at {reason.location}")
    return tuple(next(results) if node.wants(ordinal) else None for ordinal in range(node.output_count))


def _differentiable(name: str, value: Value, node: Node) -> Value:
    """The value, which has gradients."""
    tensor = node.tensor_of(value)
    if not carries_gradient(tensor.type):
        node.fail("gradient-type", f'"{name}" is {tensor.type}, and only floats have gradients', rule=f"{RULE}, T2")
    return tensor


def _expect_function(names: Sequence[str], xs: Sequence[str], target: str, node: Node) -> None:
    """Errors where the attributes do not say which function it is, or the node not where to take the gradient."""
    graphs = node.lower_subgraph.enclosing
    for name in (*names, target):
        if not graphs.defines(name):
            node.fail("undefined-name", f'"{name}" is no value of the graphs around', rule=f"{RULE}, attributes")
    if len(set(names)) != len(names):
        node.fail("gradient-names", "xs and zs name a value twice", rule=f"{RULE}, xs, zs")
    if len(names) != len(node.operands) or None in node.operands:
        count = sum(operand is not None for operand in node.operands)
        message = f"xs and zs name {len(names)} values, and the node has {count} inputs"
        node.fail("gradient-inputs", message, rule=f"{RULE}, inputs")
    if node.output_count > len(xs):
        message = f"xs names {len(xs)} values, and the node has {node.output_count} outputs"
        node.fail("gradient-outputs", message, rule=f"{RULE}, outputs")
    _expect_independent(names, xs, target, graphs, node)


def _expect_independent(names: Sequence[str], xs: Sequence[str], target: str, graphs: Computation, node: Node) -> None:
    for name in names:
        others = [other for other in graphs.above(name) if other in names and other != name]
        if others:
            message = f'"{name}" is computed from "{others[0]}", so they are not independent'
            node.fail("gradient-dependence", message, rule=f"{RULE}, xs, zs")
    reached = graphs.above(target, names)
    for name in xs:
        if name not in reached:
            node.fail("gradient-of-constant", f'"{target}" does not depend on "{name}"', rule=f"{RULE}, xs")
