"""Control flow: If, Loop and Scan, whose graphs become isolated blocks.

A condition that is known chooses its branch while the program is built.
"""

from collections.abc import Mapping, Sequence, Set

import numpy as np

from onnxc.compiler.frontend.graph import Graph
from onnxc.compiler.frontend.operator import Node, RanksDiffer, RankUnknown, operator
from onnxc.compiler.frontend.operator_helpers.joined_types import agreed_size, joined
from onnxc.compiler.frontend.operator_helpers.loops import forever, while_loop
from onnxc.compiler.frontend.operator_helpers.shape_inputs import only_element
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.capture import close_blocks
from onnxc.compiler.ir.derived_sizes import Truth, truth_elements
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Block, Value, walk
from onnxc.compiler.ir.types import TensorType, Type, type_symbols


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
        raise RanksDiffer(condition)
    return joined_branches(condition, blocks, node, ir)


def joined_branches(condition: Value, blocks: Sequence[Block], node: Node, ir: Builder) -> tuple[Value, ...]:
    """The results of one of two blocks, which may use values from outside."""
    local = _bound_within(blocks[0]) | _bound_within(blocks[1])
    pairs = [*zip(blocks[0].results, blocks[1].results, strict=True)]
    truths = truth_elements(condition)
    truth = None if truths is None else truths.item()
    types = [joined(node, ir, a, b, local, truth) for a, b in pairs]
    captures, closed = close_blocks(blocks)
    results = ir.if_(condition, captures, closed, types)
    return tuple(
        [_joined_sizes(*pair, local, truth, ir) or result for pair, result in zip(pairs, results, strict=True)]
    )


def _joined_sizes(a: Value, b: Value, local: Set[str], truth: Truth | None, ir: Builder) -> Value | None:
    """The integers that are either `a` or `b`, where sizes decide both of them and which."""
    left, right = (ir.known(value) if isinstance(value.type, TensorType) else None for value in (a, b))
    if left is None or right is None or a.type != b.type or a.dtype != I64:
        return None
    if any(symbols_of(dim) & local for dim in (*left, *right)):
        return None
    agreed = [agreed_size(*each, truth) for each in zip(left, right, strict=True)]
    sizes = [each for each in agreed if each is not None]
    if len(sizes) != len(agreed):
        return None
    return ir.sizes(sizes) if a.rank else ir.size(sizes[0])


def cases_of_rank(unknown: RankUnknown, blocks: Mapping[int, Block], node: Node, ir: Builder) -> tuple[Value, ...]:
    """The results of the block for the rank or size that is unknown; of the last one where it is none of the others."""
    (rank, first), *others = blocks.items()
    if unknown.axis is None:
        (actual,) = ir.host("rank_of", (unknown.value,), (TensorType(I64, ()),), {})
    else:
        actual = ir.size(unknown.value.shape[unknown.axis])
    if len(others) == 1:
        last = others[0][1]
    else:
        nested = ir.nested()
        last = nested.block((), cases_of_rank(unknown, dict(others), node, nested))
    return joined_branches(ir.equal(actual, rank), (first, last), node, ir)


def expect_case(condition: Value, is_true: bool, reason: str, ir: Builder) -> None:
    """At the call: an InputError unless the condition is the case that can be; `reason` speaks against the other."""
    (actual,) = ir.read_sizes(ir.reshape(ir.cast(condition, I64), (1,)), "condition")
    ir.guard(actual, int(is_true), "equal", f"the condition of an If cannot be {not is_true}: {reason}")


def _ranks_differ(a: Type, b: Type) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.shape is None or b.shape is None:
        return False
    return len(a.shape) != len(b.shape)


def _bound_within(block: Block) -> set[str]:
    """The symbols that ops of a block bind, which mean nothing outside."""
    bound: set[str] = set()
    for op in walk(block):
        if op.name == "bind_sizes":
            bound |= {str(name) for name in op.attributes["symbols"]}  # type: ignore[union-attr]
        if op.name in ("non_zero", "if", "while", "host"):
            bound |= set().union(*(type_symbols(type) for type in op.result_types))
    return bound


@operator("Loop", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def loop(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """M: i64?, cond: bool?, carried...; body(iteration, cond, carried...) -> cond, carried..., scans...

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
        kept, *results = node.lower_subgraph(body, (iteration, true, *carried), nested)
        return only_element(_truth(kept, node), "the condition that body gives", node, nested), *results

    return while_loop(node, ir, trips, going, initial, build)


@operator("Scan", since=(9, 11, 16, 19, 21, 23, 24, 25))
def scan(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """carried..., scanned inputs...; body(carried..., elements...) -> carried..., scanned outputs...

    Source: https://onnx.ai/onnx/operators/onnx__Scan.html
    """
    body, count = node.graph("body"), node.int("num_scan_inputs")
    values = node.variadic()
    initial, scanned = values[: len(values) - count], values[len(values) - count :]
    if not 0 < count <= len(values):
        message = f"num_scan_inputs is {count}, of {len(values)} inputs"
        node.fail("scan-inputs", message, rule="ONNX Scan, num_scan_inputs")
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
        results = node.lower_subgraph(body, (*carried, *elements), nested)
        _expect_kept_shapes(carried, results, node)
        return nested.constant(np.array(True)), *results

    results = while_loop(node, ir, ir.size(length), ir.constant(np.array(True)), initial, build)
    stacked = results[len(initial) :]
    return *results[: len(initial)], *_arranged(node, ir, stacked)


def _truth(value: Value, node: Node) -> Value:
    """The condition that the body gives, a bool."""
    if not isinstance(value.type, TensorType) or not value.dtype.is_bool:
        message = f"the condition that body gives is {value.type}, not a bool"
        node.fail("loop-condition", message, rule=f"ONNX {node.operator}, attribute body")
    return value


def expect_declared_shapes(body: Graph, given: Sequence[Value], node: Node) -> None:
    """ModelError where an input of the body certainly has not the shape that it declares."""
    for info, value in zip(body.inputs, given, strict=False):
        if info.type is not None and _have_other_shapes(info.type, value.type):
            message = f"input {info.name} of body is declared {info.type}, and the node gives {value.type}"
            node.fail("subgraph-input-type", message, rule=f"ONNX {node.operator}, attribute body")


def _expect_kept_shapes(before: Sequence[Value], after: Sequence[Value], node: Node) -> None:
    """ModelError where a state certainly changes its shape from one iteration to the next."""
    for ordinal, (old, new) in enumerate(zip(before, after, strict=False)):
        if _have_other_shapes(old.type, new.type) and old.dtype == new.dtype:
            message = f"state {ordinal} is {old.type} before an iteration and {new.type} after"
            node.fail("carried-shape", message, rule=f"ONNX {node.operator}, attribute body")


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
        target = node.axes_list([axis], value.rank)[0]
        x = ir.reverse(value, 0) if backwards else value
        order = [*range(1, target + 1), 0, *range(target + 1, value.rank)]
        arranged.append(ir.transpose(x, order))
    return arranged
