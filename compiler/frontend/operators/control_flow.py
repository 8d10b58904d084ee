"""Control flow: If, Loop and Scan, whose graphs become isolated blocks.

A condition that is known chooses its branch while the program is built.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.frontend.operator import Node, RanksDiffer, operator
from compiler.frontend.operators.joined_types import joined
from compiler.frontend.operators.loops import forever, while_loop
from compiler.ir.builder import Builder
from compiler.ir.capture import close_blocks
from compiler.ir.dtypes import I64
from compiler.ir.module import Block, Value, walk
from compiler.ir.types import TensorType, Type, type_symbols


@operator("If", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def if_(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """cond: bool of one element; the outputs of then_branch where it holds, else of else_branch.

    Source: https://onnx.ai/onnx/operators/onnx__If.html
    """
    condition = ir.reshape(node.input("cond"), ())
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
    types = [joined(node, ir, a, b, local) for a, b in zip(blocks[0].results, blocks[1].results, strict=True)]
    captures, closed = close_blocks(blocks)
    return ir.if_(condition, captures, closed, types)


def cases_of_rank(value: Value, blocks: Mapping[int, Block], node: Node, ir: Builder) -> tuple[Value, ...]:
    """The results of the block for the rank that a value has; of the last one where it is none of the others."""
    (rank, first), *others = blocks.items()
    (found,) = ir.host("rank_of", (value,), (TensorType(I64, ()),), {})
    if len(others) == 1:
        last = others[0][1]
    else:
        nested = ir.nested()
        last = nested.block((), cases_of_rank(value, dict(others), node, nested))
    return joined_branches(ir.equal(found, rank), (first, last), node, ir)


def expect_case(condition: Value, is_true: bool, reason: str, ir: Builder) -> None:
    """At the call: an InputError unless the condition is the case that can be; `reason` speaks against the other."""
    (found,) = ir.read_sizes(ir.reshape(ir.cast(condition, I64), (1,)), "condition")
    ir.guard(found, int(is_true), "equal", f"the condition of an If cannot be {not is_true}: {reason}")


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
    trips = trips if limit is None else ir.reshape(limit, ())
    going = going if condition is None else ir.reshape(condition, ())
    initial = [value for value in node.operands[2:] if value is not None]
    body = node.graph("body")

    def build(nested: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        true = nested.constant(np.array(True))
        kept, *results = node.lower_subgraph(body, (iteration, true, *carried), nested)
        return nested.reshape(kept, ()), *results

    return while_loop(node, ir, trips, going, initial, build)


@operator("Scan", since=(9, 11, 16, 19, 21, 23, 24, 25))
def scan(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """carried..., scanned inputs...; body(carried..., elements...) -> carried..., scanned outputs...

    Source: https://onnx.ai/onnx/operators/onnx__Scan.html
    """
    body, count = node.graph("body"), node.int("num_scan_inputs")
    values = node.variadic()
    initial, scanned = values[: len(values) - count], values[len(values) - count :]
    if not scanned:
        node.fail("scan-inputs", "there is no scanned input", rule="ONNX Scan, num_scan_inputs")
    directions = node.ints("scan_input_directions", [0] * count)
    given = node.ints("scan_input_axes", [0] * count)
    axes = [node.axes_list([axis], value.rank)[0] for axis, value in zip(given, scanned, strict=True)]
    length = scanned[0].shape[axes[0]]
    for axis, value in zip(axes[1:], scanned[1:], strict=True):
        length = ir.require_equal(length, value.shape[axis], "the scanned inputs differ in length", "scan-length")

    def build(nested: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        elements = []
        for value, axis, backwards in zip(scanned, axes, directions, strict=True):
            place = nested.sub(nested.size(length - 1), iteration) if backwards else iteration
            elements.append(nested.gather(value, place, axis))
        results = node.lower_subgraph(body, (*carried, *elements), nested)
        return nested.constant(np.array(True)), *results

    results = while_loop(node, ir, ir.size(length), ir.constant(np.array(True)), initial, build)
    stacked = results[len(initial) :]
    return *results[: len(initial)], *_placed(node, ir, stacked)


def _placed(node: Node, ir: Builder, stacked: Sequence[Value]) -> list[Value]:
    """The scanned outputs in the directions and along the axes that the node asks for."""
    directions = node.ints("scan_output_directions", [0] * len(stacked))
    axes = node.ints("scan_output_axes", [0] * len(stacked))
    placed = []
    for value, backwards, axis in zip(stacked, directions, axes, strict=True):
        place = node.axes_list([axis], value.rank)[0]
        x = ir.reverse(value, 0) if backwards else value
        order = [*range(1, place + 1), 0, *range(place + 1, value.rank)]
        placed.append(ir.transpose(x, order))
    return placed
