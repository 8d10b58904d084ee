"""Adagrad, Adam and Momentum: one step of an optimizer, for any number of tensors at once.

R: F[], T: i64[], then all tensors, all their gradients, and all of each kind of state  ->  the new tensors and states.
Learning rates are computed in f64.

Source: https://onnx.ai/onnx/operators/index.html#ai-onnx-preview-training
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.frontend.joining.squeezed_ones import may_have_any_rank
from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import (
    rank_of,
    with_leading_ones,
    without_leading_ones,
)
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F64
from onnxc.compiler.ir.module import Value

TRAINING = "ai.onnx.preview.training"

Step = Callable[[Value, Value, Sequence[Value]], Sequence[Value]]
"""The new tensor and states, from (tensor, gradient, states)."""


def _updated(node: Node, ir: Builder, states: int, step: Step) -> tuple[Value, ...]:
    """The outputs, tensor after tensor, then each kind of state."""
    tensors = [value for value in node.operands[2:] if value is not None]
    count, rest = divmod(len(tensors), 2 + states)
    if rest or not count:
        message = f"{len(tensors)} tensors are not {2 + states} of each kind"
        node.fail("optimizer-inputs", message, rule=f"ONNX {node.operator}, inputs")
    if node.output_count > count * (1 + states):
        message = f"the node has {node.output_count} outputs, {count} tensors give {count * (1 + states)}"
        node.fail("optimizer-outputs", message, rule=f"ONNX {node.operator}, outputs")
    groups = [tensors[ordinal::count] for ordinal in range(count)]
    results = [_updated_one(ordinal, group, node, ir, step) for ordinal, group in enumerate(groups)]
    return tuple(value for column in zip(*results, strict=True) for value in column)


def _updated_one(ordinal: int, group: Sequence[Value], node: Node, ir: Builder, step: Step) -> Sequence[Value]:
    """The new tensor and states of the tensor of this ordinal, from it, its gradient and its states.

    Where only data tells the ranks of all of them they are computed at one rank: several tensors would be a case for
    each combination of their ranks.
    """
    is_open = all(may_have_any_rank(value) for value in group)
    if is_open:
        ranks = [ir.read_sizes(rank_of(value, ir), "rank")[0] for value in group]
        for rank in ranks[1:]:
            message = f"tensor {ordinal} and what belongs to it differ in rank"
            ir.require_equal(ranks[0], rank, message, "optimizer-shapes")
        first, *others = [with_leading_ones(value, ir) for value in group]
    else:
        known = next((value.rank for value in group if value.tensor.shape is not None), None)
        first = node.tensor_of(group[0], known)
        others = [node.tensor_of(value, first.rank) for value in group[1:]]
    for other in others:
        _expect_alike(ordinal, first, other, node, ir)
    gradient, *states = others
    results = step(first, gradient, states)
    return [without_leading_ones(result, rank_of(group[0], ir), ir) for result in results] if is_open else results


def _expect_alike(ordinal: int, x: Value, other: Value, node: Node, ir: Builder) -> None:
    """Raises ModelError, or guards, where what belongs to a tensor has another type."""
    if x.rank != other.rank or x.dtype != other.dtype:
        message = f"tensor {ordinal} is {x.type}, what belongs to it {other.type}"
        node.fail("optimizer-shapes", message, rule=f"ONNX {node.operator}, inputs")
    for left, right in zip(x.shape, other.shape, strict=True):
        message = f"tensor {ordinal} and what belongs to it differ in shape"
        ir.require_equal(left, right, message, "optimizer-shapes")


def _scalars(node: Node, ir: Builder) -> tuple[Value, Value]:
    """R and T as f64[]."""
    rate, count = (as_scalar(node.input(name), name, node, ir) for name in ("R", "T"))
    return ir.cast(rate, F64), ir.cast(count, F64)


def _regularized(x: Value, gradient: Value, node: Node, ir: Builder) -> Value:
    """norm_coefficient * X + G"""
    return ir.add(ir.mul(x, node.float("norm_coefficient")), gradient)


@operator("Adagrad", since=(1,), domain=TRAINING)
def adagrad(node: Node, ir: Builder) -> tuple[Value, ...]:
    """X -= R / (1 + T decay_factor) G / (sqrt(H) + epsilon), H += G^2

    Source: https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adagrad.html
    """
    rate, count = _scalars(node, ir)
    rate = ir.div(rate, ir.add(ir.mul(count, node.float("decay_factor")), 1))

    def step(x: Value, gradient: Value, states: Sequence[Value]) -> Sequence[Value]:
        (squares,) = states
        gradient = _regularized(x, gradient, node, ir)
        squares = ir.add(squares, ir.square(gradient))
        scale = ir.add(ir.sqrt(squares), node.float("epsilon"))
        return ir.sub(x, ir.div(ir.mul(ir.cast(rate, x.dtype), gradient), scale)), squares

    return _updated(node, ir, 1, step)


@operator("Adam", since=(1,), domain=TRAINING)
def adam(node: Node, ir: Builder) -> tuple[Value, ...]:
    """V and H average G and G^2; X -= R sqrt(1 - beta^T) / (1 - alpha^T) V / (sqrt(H) + epsilon)

    Source: https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html
    """
    alpha, beta = node.float("alpha"), node.float("beta")
    rate, count = _scalars(node, ir)
    kept = [ir.sub(1, ir.pow(ir.scalar(base, F64), count)) for base in (alpha, beta)]
    corrected = ir.div(ir.mul(rate, ir.sqrt(kept[1])), kept[0])
    rate = ir.select(ir.less(0, count), corrected, rate)

    def step(x: Value, gradient: Value, states: Sequence[Value]) -> Sequence[Value]:
        mean, squares = states
        gradient = _regularized(x, gradient, node, ir)
        mean = ir.add(ir.mul(mean, alpha), ir.mul(gradient, 1 - alpha))
        squares = ir.add(ir.mul(squares, beta), ir.mul(ir.square(gradient), 1 - beta))
        scale = ir.add(ir.sqrt(squares), node.float("epsilon"))
        moved = ir.sub(x, ir.mul(ir.cast(rate, x.dtype), ir.div(mean, scale)))
        return ir.mul(moved, 1 - node.float("norm_coefficient_post")), mean, squares

    return _updated(node, ir, 2, step)


@operator("Momentum", since=(1,), domain=TRAINING)
def momentum(node: Node, ir: Builder) -> tuple[Value, ...]:
    """V = alpha V + beta G, at the first step alpha V + G; X -= R V, or by Nesterov X -= R (G + alpha V)

    Source: https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Momentum.html
    """
    alpha, is_nesterov = node.float("alpha"), node.choice("mode", ("nesterov", "standard")) == "nesterov"
    rate, count = _scalars(node, ir)
    share = ir.select(ir.less(0, count), ir.scalar(node.float("beta"), F64), 1)

    def step(x: Value, gradient: Value, states: Sequence[Value]) -> Sequence[Value]:
        gradient = _regularized(x, gradient, node, ir)
        velocity = ir.add(ir.mul(states[0], alpha), ir.mul(ir.cast(share, x.dtype), gradient))
        change = ir.add(gradient, ir.mul(velocity, alpha)) if is_nesterov else velocity
        return ir.sub(x, ir.mul(ir.cast(rate, x.dtype), change)), velocity

    return _updated(node, ir, 1, step)
