"""Control flow: If, Loop and Scan, whose graphs become isolated blocks.

A condition that is known chooses its branch while the program is built.
"""

from collections.abc import Callable, Sequence

import numpy as np

from compiler.frontend.operator import Node, operator
from compiler.ir.builder import Builder
from compiler.ir.capture import close_blocks
from compiler.ir.dims import Dim, Size, maximum
from compiler.ir.dtypes import BOOL, I64
from compiler.ir.module import Block, Value, walk
from compiler.ir.types import TensorType, Type, type_symbols

BodyBuilder = Callable[[Builder, Value, Sequence[Value]], tuple[Value, ...]]
"""Builds a body from (builder, iteration, carried values): (condition, carried values..., scanned elements...)."""

LONGEST_LOOP = 2**63 - 1
GENERALISATIONS = 4
"""How often the types of carried values are widened before a loop is given up: each time at least one size is."""


@operator("If", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def if_(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """cond: bool of one element; the outputs of then_branch where it holds, else of else_branch.

    Source: https://onnx.ai/onnx/operators/onnx__If.html
    """
    condition = ir.reshape(node.input("cond"), ())
    known = ir.known(condition)
    if known is not None and isinstance(known[0], int):
        return node.lower_subgraph(node.graph("then_branch" if known[0] else "else_branch"), (), ir)
    blocks = []
    for name in ("then_branch", "else_branch"):
        nested = ir.nested()
        blocks.append(nested.block((), node.lower_subgraph(node.graph(name), (), nested)))
    then, otherwise = (block.results for block in blocks)
    if len(then) != len(otherwise):
        node.fail("branch-outputs", f"the branches have {len(then)} and {len(otherwise)} outputs", rule="ONNX If")
    local = _bound_within(blocks[0]) | _bound_within(blocks[1])
    types = [_joined(node, ir, a.type, b.type, local) for a, b in zip(then, otherwise, strict=True)]
    captures, closed = close_blocks(blocks)
    return ir.if_(condition, captures, closed, types)


def _joined(node: Node, ir: Builder, a: Type, b: Type, local: set[str]) -> Type:
    """The type of a value that may come from either branch: a size that differs is known at run time only."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        if a != b:
            node.fail("branch-types", f"the branches give {a} and {b}", rule="ONNX If")
        return a
    if a.dtype != b.dtype:
        node.fail("branch-types", f"the branches give {a} and {b}", rule="ONNX If")
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorType(a.dtype, None)
    sizes = (_agreed(ir, left, right, local) for left, right in zip(a.shape, b.shape, strict=True))
    return TensorType(a.dtype, tuple(sizes))


def _agreed(ir: Builder, a: Dim, b: Dim, local: set[str]) -> Dim:
    return a if a == b and not _names(a) & local else ir.fresh_symbol("branch")


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
    """M: i64 or absent, cond: bool or absent, carried...; body(iteration, cond, carried...) -> cond, carried..., scans...

    Source: https://onnx.ai/onnx/operators/onnx__Loop.html
    """
    limit, condition = node.optional("M"), node.optional("cond")
    trips = ir.constant(np.array(LONGEST_LOOP)) if limit is None else ir.reshape(limit, ())
    going = ir.constant(np.array(True)) if condition is None else ir.reshape(condition, ())
    initial = [value for value in node.operands[2:] if value is not None]
    body = node.graph("body")

    def build(nested: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        true = nested.constant(np.array(True))
        kept, *results = node.lower_subgraph(body, (iteration, true, *carried), nested)
        return nested.reshape(kept, ()), *results

    return _while(node, ir, trips, going, initial, build, len(body.outputs) - 1 - len(initial))


def _while(
    node: Node,
    ir: Builder,
    limit: Value,
    condition: Value,
    initial: Sequence[Value],
    build: BodyBuilder,
    scan_count: int,
) -> tuple[Value, ...]:
    """A `while` whose carried types are widened until the body gives what it takes."""
    types, loose = [value.type for value in initial], set[Dim]()
    for _ in range(GENERALISATIONS * max(len(initial), 1)):
        nested = ir.nested()
        iteration = nested.parameter("iteration", TensorType(I64, ()))
        carried = [nested.parameter(f"carried{place}", type) for place, type in enumerate(types)]
        results = build(nested, iteration, carried)
        given = [result.type for result in results[1 : 1 + len(initial)]]
        widened = [_widened(node, ir, before, after, loose) for before, after in zip(types, given, strict=True)]
        if widened == types:
            break
        types = widened
    else:
        node.unsupported("the types of its carried values do not settle")
    block = nested.block((iteration, *carried), results)
    captures, (closed,) = close_blocks([block])
    inner = {name for parameter in carried for name in type_symbols(parameter.type)}
    outer = {name for value in (*initial, *captures) for name in type_symbols(value.type)}
    symbol = ir.symbols.fresh("trips")
    trips = _known_trips(ir, limit, condition, results[0], symbol)
    scans = [_stacked(node, ir, result.type, trips, inner - outer, outer) for result in results[1 + len(initial) :]]
    assert len(scans) == scan_count, (len(scans), scan_count)
    after = [_outside(ir, type, inner - outer) for type in types]
    return ir.while_(limit, condition, initial, captures, closed, [*after, *scans], symbol)


def _known_trips(ir: Builder, limit: Value, condition: Value, kept: Value, symbol: str) -> Dim:
    """How often the body runs: the limit where the condition always holds, else known at run time only."""
    known = ir.known(limit)
    if known is not None and known != (LONGEST_LOOP,) and _is_true(ir, condition) and _is_true(ir, kept):
        return maximum(known[0], 0)
    return Size.symbol(symbol)


def _is_true(ir: Builder, value: Value) -> bool:
    return ir.known(value) == (1,)


def _widened(node: Node, ir: Builder, before: Type, after: Type, loose: set[Dim]) -> Type:
    """A type for what is `before` first and `after` then: a size that changes gets a symbol of its own, once."""
    if before == after:
        return before
    if not isinstance(before, TensorType) or not isinstance(after, TensorType) or before.dtype != after.dtype:
        node.fail("carried-type", f"a carried value is {before} before and {after} after", rule="ONNX Loop, body")
    if before.shape is None or after.shape is None or len(before.shape) != len(after.shape):
        node.unsupported(f"the rank of a carried value changes from {before} to {after}")
    sizes = zip(before.shape, after.shape, strict=True)
    kept = [a if a == b or a in loose else ir.fresh_symbol("carried") for a, b in sizes]
    loose.update(a for a, b in zip(kept, before.shape, strict=True) if a != b)
    return TensorType(before.dtype, tuple(kept))


def _outside(ir: Builder, type: Type, inner: set[str]) -> Type:
    """A type with the symbols of the body replaced by ones that the op binds."""
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    return TensorType(type.dtype, tuple(_fresh_if(ir, dim, bool(_names(dim) & inner)) for dim in type.shape))


def _stacked(node: Node, ir: Builder, type: Type, trips: Dim, inner: set[str], outer: set[str]) -> Type:
    """The type of one scan output: its elements along a new first axis."""
    if not isinstance(type, TensorType) or type.shape is None:
        node.unsupported(f"a scan output has elements of type {type}")
    sizes = (_fresh_if(ir, dim, bool(_names(dim) & inner) or not _names(dim) <= outer) for dim in type.shape)
    return TensorType(type.dtype, (trips, *sizes))


def _fresh_if(ir: Builder, dim: Dim, is_inner: bool) -> Dim:
    return ir.fresh_symbol("loop") if is_inner else dim


def _names(dim: Dim) -> frozenset[str]:
    return type_symbols(TensorType(BOOL, (dim,)))


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

    true, outputs = ir.constant(np.array(True)), len(body.outputs) - len(initial)
    results = _while(node, ir, ir.size(length), true, initial, build, outputs)
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
