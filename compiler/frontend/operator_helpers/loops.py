"""Loops whose body is built by a function: the types of what it carries are widened until they settle."""

from collections.abc import Callable, Sequence

import numpy as np

from onnxc.compiler.frontend.joining.joined_types import is_never_filled, known_inside, refilled, widened
from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.capture import close_blocks
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType, Type, type_symbols
from onnxc.compiler.limits import limits_in_force

BodyBuilder = Callable[[Builder, Value, Sequence[Value]], tuple[Value, ...]]
"""Builds a body from (builder, iteration, carried values): (condition, carried values..., scanned elements...)."""

LONGEST_LOOP = 2**63 - 1
GENERALISATIONS = 4
"""How often the types of carried values are widened before a loop is given up: each time at least one size is.
An estimate: sizes that depend on each other in longer chains are in no model that is known here."""


def while_loop(
    node: Node,
    ir: Builder,
    limit: Value,
    condition: Value,
    initial: Sequence[Value],
    build: BodyBuilder,
) -> tuple[Value, ...]:
    """The last carried values and the stacked scanned elements, for a limit i64[] and a condition bool[].

    A body that sees a sequence which starts empty is built once with the empty one: that shows what fills it.
    """
    known_outside = frozenset(ir.symbols.ranges)
    types, loose = [value.type for value in initial], set[Dim]()
    unfilled = [is_never_filled(value) for value in initial]
    for _ in range(GENERALISATIONS * (len(initial) + 1)):
        node.lower_subgraph.forget()
        nested = ir.nested()
        iteration = nested.parameter("iteration", TensorType(I64, ()))
        parameters = [nested.parameter(f"carried{ordinal}", type) for ordinal, type in enumerate(types)]
        carried = [
            refilled(value, nested) if empty else parameter
            for value, empty, parameter in zip(initial, unfilled, parameters, strict=True)
        ]
        results = build(nested, iteration, carried)
        given = results[1 : 1 + len(initial)]
        wider, still = [], []
        for before, after, empty in zip(types, given, unfilled, strict=True):
            if empty and not is_never_filled(after):
                wider.append(known_inside(after.type, known_outside))
            else:
                wider.append(widened(ir, before, after.type, loose, known_outside))
            still.append(empty and is_never_filled(after))
        if wider == types and still == unfilled:
            break
        types, unfilled = wider, still
    else:
        node.unsupported("the types of its carried values do not settle")
    block = nested.block((iteration, *parameters), results)
    captures, (closed,) = close_blocks([block])
    inner = {name for parameter in parameters for name in type_symbols(parameter.type)}
    outer = {name for value in (*initial, *captures) for name in type_symbols(value.type)}
    symbol = ir.symbols.fresh("trips")
    scans = [_stacked(node, ir, result.type, symbol, inner - outer, outer) for result in results[1 + len(initial) :]]
    after_types = [_outside(ir, type, inner - outer) for type in types]
    entering = [refilled(v, ir, t) if is_never_filled(v) else v for v, t in zip(initial, types, strict=True)]
    bounded = _bounded(limit, ir)
    made = ir.while_(bounded, condition, entering, captures, closed, [*after_types, *scans], symbol)
    if bounded is not limit:
        most = limits_in_force().loop_rounds
        message = f"the loop goes on after {most} rounds, the most that the limit loop_rounds allows"
        ir.guard(most, Size.symbol(symbol), "at_least", message)
    trips = _known_trips(ir, limit, condition, results[0])
    if trips is None:
        return made
    stacked = [_of_trips(ir, value, trips) for value in made[len(initial) :]]
    return *made[: len(initial)], *stacked


def _of_trips(ir: Builder, stacked: Value, trips: Dim) -> Value:
    """The stack of as many elements; one of unknown rank as it is."""
    return stacked if stacked.tensor.shape is None else ir.with_shape(stacked, (trips, *stacked.shape[1:]))


def _bounded(limit: Value, ir: Builder) -> Value:
    """The limit of a loop, or one more than the rounds that any loop may run."""
    known, most = ir.known(limit), limits_in_force().loop_rounds
    if known is not None and isinstance(known[0], int) and known[0] <= most:
        return limit
    return ir.min(limit, most + 1)


def _known_trips(ir: Builder, limit: Value, condition: Value, kept: Value) -> Dim | None:
    """How often the body runs, where that is decided by a known limit and a condition that always holds."""
    known = ir.known(limit)
    if known is None or known == (LONGEST_LOOP,) or ir.known(condition) != (1,) or ir.known(kept) != (1,):
        return None
    return maximum(known[0], 0)


def _outside(ir: Builder, type: Type, inner: set[str]) -> Type:
    """A type with the symbols of the body replaced by ones that the op binds."""
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    return TensorType(type.dtype, tuple(_fresh_if(ir, dim, bool(symbols_of(dim) & inner)) for dim in type.shape))


def _stacked(node: Node, ir: Builder, type: Type, trips: str, inner: set[str], outer: set[str]) -> Type:
    """The type of one scan output: its elements along a new first axis, where their rank is known."""
    if not isinstance(type, TensorType):
        message = f"a scan output has elements of type {type}, and only tensors are stacked"
        node.fail("scan-output-type", message, rule=f"ONNX {node.operator}, scan outputs")
    if type.shape is None:
        return type
    sizes = (_fresh_if(ir, dim, bool(symbols_of(dim) & inner or not symbols_of(dim) <= outer)) for dim in type.shape)
    return TensorType(type.dtype, (Size.symbol(trips), *sizes))


def _fresh_if(ir: Builder, dim: Dim, is_inner: bool) -> Dim:
    return ir.fresh_symbol("loop") if is_inner else dim


def forever(ir: Builder) -> tuple[Value, Value]:
    """A limit that is never reached, and a condition that holds."""
    return ir.constant(np.array(LONGEST_LOOP)), ir.constant(np.array(True))
