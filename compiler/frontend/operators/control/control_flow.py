"""Control flow: If, Loop and Scan, whose graphs become isolated blocks.

A condition that is known chooses its branch while the program is built.
"""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.graph import Graph, ValueInfo
from onnxc.compiler.frontend.joining.joined_branches import joined_branches
from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.loops import forever, while_loop
from onnxc.compiler.frontend.operator_helpers.shape_inputs import only_element
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType, Type


@operator("If", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def if_(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """cond: bool of one element; the outputs of then_branch where it holds, else of else_branch.

    Source: https://onnx.ai/onnx/operators/onnx__If.html
    """
    condition = only_element(node.input("cond"), "cond", node, ir)
    known = ir.known(condition)
    case = known[0] if known is not None and isinstance(known[0], int) else node.assumed
    if case is not None:
        return node.lower_subgraph(node.graph("then_branch" if case else "else_branch"), (), ir)
    blocks = []
    for name in ("then_branch", "else_branch"):
        nested = ir.nested()
        blocks.append(nested.block((), node.lower_subgraph(node.graph(name), (), nested)))
    then, otherwise = (block.results for block in blocks)
    if len(then) != len(otherwise):
        node.fail("branch-outputs", f"the branches have {len(then)} and {len(otherwise)} outputs", rule="ONNX If")
    if node.may_split and any(_ranks_differ(a.type, b.type) for a, b in zip(then, otherwise, strict=True)):
        node.split_by_condition(condition)
    return joined_branches(condition, blocks, ir, "ONNX If")


def _ranks_differ(a: Type, b: Type) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.shape is None or b.shape is None:
        return False
    return len(a.shape) != len(b.shape)


@operator("Loop", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def loop(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """M: i64?, cond: bool?, carried...; body(iteration, cond, carried...) -> cond, carried..., scans...

    Without cond the condition that body gives is ignored, as the text says. Without M too it ends the loop: by the
    text nothing would. A body may declare its iteration and condition as vectors of one element, as tf2onnx writes
    them; they come as it declares them.
    Source: https://onnx.ai/onnx/operators/onnx__Loop.html
    """
    limit, condition = node.optional("M"), node.optional("cond")
    trips, going = forever(ir)
    trips = trips if limit is None else only_element(limit, "M", node, ir)
    going = going if condition is None else only_element(condition, "cond", node, ir)
    initial = [value for value in node.operands[2:] if value is not None]
    body = node.graph("body")

    def build(nested: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        true = nested.constant(np.array(True))
        own = [
            _one_as_declared(value, info, nested) for value, info in zip((iteration, true), body.inputs, strict=False)
        ]
        kept, *results = node.lower_subgraph(body, (*own, *carried), nested, (iteration,))
        if condition is None and limit is not None:
            _truth(kept, node)
            return true, *results
        return only_element(_truth(kept, node), "the condition that body gives", node, nested), *results

    return while_loop(node, ir, trips, going, initial, build)


@operator("Scan", since=(9, 11, 16, 19, 21, 23, 24, 25))
def scan(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """carried..., scanned inputs...; body(carried..., elements...) -> carried..., scanned outputs...

    Source: https://onnx.ai/onnx/operators/onnx__Scan.html
    """
    body, count = node.graph("body"), node.int("num_scan_inputs")
    values = scan_operands(node.operands, count, 1, node)
    initial, scanned = values[: len(values) - count], values[len(values) - count :]
    directions = _flags("scan_input_directions", count, node)
    given = _per_value("scan_input_axes", count, node)
    axes = [node.axes_list([axis], value.rank)[0] for axis, value in zip(given, scanned, strict=True)]
    length = scanned[0].shape[axes[0]]
    for axis, value in zip(axes[1:], scanned[1:], strict=True):
        length = ir.require_equal(length, value.shape[axis], "the scanned inputs differ in length", "scan-length")

    def build(nested: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        elements = []
        for value, axis, backwards in zip(scanned, axes, directions, strict=True):
            at = nested.sub(nested.size(length - 1), iteration) if backwards else iteration
            elements.append(nested.gather(value, at, axis))
        expect_declared_shapes(body, (*carried, *elements), node)
        results = node.lower_subgraph(body, (*carried, *elements), nested, (iteration,))
        return nested.constant(np.array(True)), *with_kept_shapes(carried, results, node, nested)

    results = while_loop(node, ir, ir.size(length), ir.constant(np.array(True)), initial, build)
    stacked = results[len(initial) :]
    return *results[: len(initial)], *_arranged(node, ir, stacked)


def _one_as_declared(value: Value, info: ValueInfo, ir: Builder) -> Value:
    """A scalar, or a vector of it where an input of the body is declared to be one."""
    if not isinstance(info.type, TensorType) or info.type.shape is None or len(info.type.shape) != 1:
        return value
    size = info.type.shape[0]
    return value if isinstance(size, int) and size != 1 else ir.reshape(value, (1,))


def _truth(value: Value, node: Node) -> Value:
    """The condition that the body gives, a bool."""
    if not isinstance(value.type, TensorType) or not value.dtype.is_bool:
        message = f"the condition that body gives is {value.type}, not a bool"
        node.fail("loop-condition", message, rule=f"ONNX {node.operator}, attribute body")
    return value


def scan_operands(operands: Sequence[Value | None], count: int, axes: int, node: Node) -> tuple[Value, ...]:
    """The states and the `count` scanned inputs of a Scan as tensors, which have so many axes more than in its body.

    Where only data tells a rank, it is the one that an input of the body declares. (Scan-8 has the batch besides.)
    """
    given = [value for value in operands if value is not None]
    if not 0 < count <= len(given):
        message = f"num_scan_inputs is {count}, of {len(given)} inputs"
        node.fail("scan-inputs", message, rule="ONNX Scan, num_scan_inputs")
    batch = axes - 1
    more = [batch] * (len(given) - count) + [axes] * count
    declared = [info.type for info in node.graph("body").inputs]
    known = [type.shape if isinstance(type, TensorType) else None for type in declared]
    shapes = [*known, *[None] * (len(given) - len(known))]
    return tuple(
        node.tensor_of(value, None if shape is None else len(shape) + extra)
        for value, shape, extra in zip(given, shapes, more, strict=False)
    )


def expect_declared_shapes(body: Graph, given: Sequence[Value], node: Node) -> None:
    """ModelError where an input of the body certainly has not the shape that it declares."""
    for info, value in zip(body.inputs, given, strict=False):
        if info.type is not None and _have_other_shapes(info.type, value.type):
            message = f"input {info.name} of body is declared {info.type}, and the node gives {value.type}"
            node.fail("subgraph-input-type", message, rule=f"ONNX {node.operator}, attribute body")


def with_kept_shapes(before: Sequence[Value], after: Sequence[Value], node: Node, ir: Builder) -> tuple[Value, ...]:
    """What the body of a Scan gives, its states in the shapes that they had, as the standard requires.

    Raises ModelError where one certainly has another; where only the call tells, it raises InputError.
    """
    kept = [_with_kept_shape(ordinal, *pair, node, ir) for ordinal, pair in enumerate(zip(before, after, strict=False))]
    return *kept, *after[len(before) :]


def _with_kept_shape(ordinal: int, old: Value, new: Value, node: Node, ir: Builder) -> Value:
    if not isinstance(old.type, TensorType) or not isinstance(new.type, TensorType) or old.dtype != new.dtype:
        return new
    message = f"state {ordinal} is {old.type} before an iteration and {new.type} after"
    if _have_other_shapes(old.type, new.type):
        node.fail("carried-shape", message, rule=f"ONNX {node.operator}, attribute body")
    if old.type.shape is None or new.type.shape is None:
        return new
    for size, wanted in zip(new.shape, old.shape, strict=True):
        ir.require_equal(size, wanted, message, "carried-shape")
    return ir.with_shape(new, old.shape)


def _have_other_shapes(left: Type, right: Type) -> bool:
    """Whether two tensors certainly differ in rank or in a size."""
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return False
    if left.shape is None or right.shape is None:
        return False
    sizes = [pair for pair in zip(left.shape, right.shape, strict=False) if all(isinstance(size, int) for size in pair)]
    return len(left.shape) != len(right.shape) or any(a != b for a, b in sizes)


def _per_value(name: str, count: int, node: Node) -> tuple[int, ...]:
    """An attribute of one integer for each scanned value, by default 0."""
    values = node.ints(name, (0,) * count)
    if len(values) != count:
        message = f"{name} has {len(values)} entries for {count} values"
        node.fail("attribute-length", message, rule=f"ONNX {node.operator}, attribute {name}")
    return values


def _flags(name: str, count: int, node: Node) -> tuple[int, ...]:
    values = _per_value(name, count, node)
    if not set(values) <= {0, 1}:
        message = f"{name} is {list(values)}, not all 0 or 1"
        node.fail("attribute-range", message, rule=f"ONNX {node.operator}, attribute {name}")
    return values


def _arranged(node: Node, ir: Builder, stacked: Sequence[Value]) -> list[Value]:
    """The scanned outputs in the directions and along the axes that the node asks for."""
    directions = _flags("scan_output_directions", len(stacked), node)
    axes = _per_value("scan_output_axes", len(stacked), node)
    arranged = []
    for value, backwards, axis in zip(stacked, directions, axes, strict=True):
        if not axis and not backwards:
            arranged.append(value)
            continue
        target = node.axes_list([axis], node.tensor_of(value).rank)[0]
        x = ir.reverse(value, 0) if backwards else value
        order = [*range(1, target + 1), 0, *range(target + 1, value.rank)]
        arranged.append(ir.transpose(x, order))
    return arranged
