"""What RNN, GRU and LSTM share: directions, layouts, lengths of sequences, and the loop over time.

X: T[L, B, I], W: T[D, G*H, I], R: T[D, G*H, H], B: T[D, 2*G*H], sequence_lens: i32[B], initial states: T[D, B, H]
->  Y: T[L, D, B, H], then the last states T[D, B, H]. With layout 1 the batch is the first axis of all but W, R, B.

16-bit floats are computed in f32 and rounded at the end. A sequence that has ended keeps its states; beyond its end Y
is 0. A sequence of no steps has no last state: that is 0.
"""

from collections.abc import Callable, Sequence

import numpy as np

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.loops import while_loop
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.recurrent_activations import Activation, read_activations
from onnxc.compiler.frontend.operator_helpers.shape_inputs import known_integers, of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

# "foward" is how the schemas of version 1 spell their default.
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True), "foward": (False,)}
CODE = "recurrent-shape"


@record
class Direction:
    """The parameters of one direction: W[G*H, I], R[G*H, H], Wb[G*H], Rb[G*H], and what the operator has besides."""

    ordinal: int
    input_weights: Value
    weights: Value
    input_bias: Value | None
    bias: Value | None
    peepholes: Value | None
    activations: tuple[Activation, ...]
    hidden: Dim
    clip: float | None
    backwards: bool

    def activate(self, index: int, x: Value, ir: Builder) -> Value:
        """Activation `index` of a gate, whose argument is clipped."""
        if self.clip is not None:
            x = ir.clamp(x, -self.clip, self.clip)
        return self.activations[index](x, ir)

    def gates(self, packed: Value, first: int, count: int, ir: Builder) -> Value:
        """`count` gates of what has all of them packed along its last axis."""
        return ir.slice_axis(packed, packed.rank - 1, first * self.hidden, count * self.hidden)

    def gate_weights(self, first: int, count: int, ir: Builder) -> Value:
        """The rows of R that belong to `count` gates."""
        return ir.slice_axis(self.weights, 0, first * self.hidden, count * self.hidden)


Cell = Callable[[Direction, Value, Sequence[Value], Builder], tuple[Value, ...]]
"""The states [B, H] after one step, from (direction, X W' + biases of that step: [B, G*H], the states before)."""

OuterBias = Callable[[Direction, Builder], Value | None]
"""What is added to X W' for all steps together."""


ByWeights = Callable[[str, Direction, Value, Builder], Value]
"""T[..., K] -> T[..., G*H]: rows by the weights of a direction, W or R."""


def of_floats(name: str, direction: Direction, rows: Value, ir: Builder) -> Value:
    """Rows [L, B, I] by W, or [B, H] by R, as they are."""
    weights = direction.input_weights if name == "W" else direction.weights
    return ir.dot(rows, weights, "tbk,gk->tbg" if rows.rank == 3 else "bk,gk->bg")


@record
class Kind:
    """A recurrent operator: its gates, the inputs that are initial states, the default activations, and one step.

    by_weights: how inputs are multiplied by W.
    """

    gates: int
    states: tuple[str, ...]
    activations: tuple[str, ...]
    cell: Cell
    outer_bias: OuterBias
    by_weights: ByWeights = of_floats


def both_biases(direction: Direction, ir: Builder) -> Value | None:
    """Wb + Rb"""
    if direction.input_bias is None or direction.bias is None:
        return None
    return ir.add(direction.input_bias, direction.bias)


def lower_recurrent(kind: Kind, node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """Y and the last states."""
    x, dtype = _sequence(node, ir), node.input("X").dtype
    directions = _directions(kind, x, node, ir)
    initial = [_initial(name, x, directions, node, ir) for name in kind.states]
    lengths = _lengths(x, node, ir)
    outputs, last = [], []
    for ordinal, direction in enumerate(directions):
        states = [_at(value, ordinal, ir) for value in initial]
        *after, output = _run(kind, direction, x, lengths, states, node, ir)
        outputs.append(output)
        last.append(after)
    y = ir.concatenate([ir.unsqueeze(output, (1,)) for output in outputs], 1)
    finals = [
        ir.concatenate([ir.unsqueeze(states[ordinal], (0,)) for states in last], 0) for ordinal in range(len(initial))
    ]
    if _is_batch_first(node):
        y, finals = ir.transpose(y, (2, 0, 1, 3)), [ir.transpose(value, (1, 0, 2)) for value in finals]
    return tuple(ir.cast(value, dtype) for value in (y, *finals))


# Operands


def _is_batch_first(node: Node) -> bool:
    layout = node.int("layout", 0)
    if layout not in (0, 1):
        message = f"layout is {layout}, not 0 or 1"
        node.fail("attribute-range", message, rule=f"ONNX {node.operator}, attribute layout")
    return layout == 1


def _sequence(node: Node, ir: Builder) -> Value:
    """X as [L, B, I] in the type that is computed in."""
    # W is a constant as a rule, and as such cannot be of symbolic size.
    width = of_shape(node.input("W"), (None, None, None), "W", node, ir, CODE).shape[2]
    x = of_shape(node.input("X"), (None, None, width), "X", node, ir, CODE)
    wide = ir.cast(x, wide_type(x.dtype))
    return ir.transpose(wide, (1, 0, 2)) if _is_batch_first(node) else wide


def _directions(kind: Kind, x: Value, node: Node, ir: Builder) -> list[Direction]:
    backwards = DIRECTIONS[node.choice("direction", tuple(DIRECTIONS))]
    activations = read_activations(node, kind.activations, len(backwards))
    recurrent = of_shape(node.input("R"), (None, None, None), "R", node, ir, CODE)
    hidden: Dim = node.int("hidden_size") if node.has("hidden_size") else recurrent.shape[2]
    packed_rows = node.input("W").shape[1]
    if not isinstance(hidden, int) and isinstance(packed_rows, int):
        hidden = packed_rows // kind.gates
    count, packed = len(backwards), kind.gates * hidden
    weights = _parameter("W", (count, packed, x.shape[2]), x, node, ir)
    recurrent_weights = _parameter("R", (count, packed, hidden), x, node, ir)
    biases = _parameter("B", (count, 2 * packed), x, node, ir)
    peepholes = _parameter("P", (count, 3 * hidden), x, node, ir) if kind.gates == 4 else None
    clip = _clip(node)
    assert weights is not None
    assert recurrent_weights is not None
    directions = []
    for ordinal, is_backwards in enumerate(backwards):
        bias = None if biases is None else _at(biases, ordinal, ir)
        directions.append(
            Direction(
                ordinal,
                _at(weights, ordinal, ir),
                _at(recurrent_weights, ordinal, ir),
                None if bias is None else ir.slice(bias, (0,), (packed,)),
                None if bias is None else ir.slice(bias, (packed,), (packed,)),
                None if peepholes is None else _at(peepholes, ordinal, ir),
                activations[ordinal],
                hidden,
                clip,
                is_backwards,
            )
        )
    return directions


def _clip(node: Node) -> float | None:
    clip = node.float("clip") if node.has("clip") else None
    if clip is not None and not clip >= 0:
        node.fail("recurrent-clip", f"clip is {clip:g}, below 0", rule=f"ONNX {node.operator}, attribute clip")
    return clip


def _parameter(name: str, shape: Sequence[Dim], x: Value, node: Node, ir: Builder) -> Value | None:
    value = node.optional(name)
    return None if value is None else ir.cast(of_shape(value, shape, name, node, ir, CODE), x.dtype)


def _initial(name: str, x: Value, directions: Sequence[Direction], node: Node, ir: Builder) -> Value:
    """T[D, B, H]: the states before the first step, 0 where they are not given."""
    count, batch, hidden = len(directions), x.shape[1], directions[0].hidden
    value = node.optional(name)
    if value is None:
        return ir.full((count, batch, hidden), 0, x.dtype)
    if not _is_batch_first(node):
        return ir.cast(of_shape(value, (count, batch, hidden), name, node, ir, CODE), x.dtype)
    swapped = of_shape(value, (batch, count, hidden), name, node, ir, CODE)
    return ir.cast(ir.transpose(swapped, (1, 0, 2)), x.dtype)


def _lengths(x: Value, node: Node, ir: Builder) -> Value | None:
    """i64[B, 1]: the number of steps of each sequence, or None where all have as many as X."""
    value = node.optional("sequence_lens")
    if value is None:
        return None
    value = of_shape(value, (x.shape[1],), "sequence_lens", node, ir, CODE)
    for length in known_integers(value, ir) or ():
        if length < 0 or at_least(length, x.shape[0] + 1):
            message = f"sequence_lens has {length}, X has {x.shape[0]} steps"
            node.fail("recurrent-lengths", message, rule=f"ONNX {node.operator}, sequence_lens")
    return ir.unsqueeze(ir.cast(value, I64), (1,))


def _at(value: Value, ordinal: int, ir: Builder) -> Value:
    """Element `ordinal` along the first axis."""
    return ir.squeeze(ir.slice_axis(value, 0, ordinal, 1), (0,))


# The loop


def _run(
    kind: Kind,
    direction: Direction,
    x: Value,
    lengths: Value | None,
    initial: Sequence[Value],
    node: Node,
    ir: Builder,
) -> tuple[Value, ...]:
    """The last states [B, H] of one direction, then its outputs [L, B, H]."""
    length = x.shape[0]
    rounds = _rounds(length, lengths, ir)
    seen = ir.slice(x, (0, 0, 0), (rounds, *x.shape[1:]))
    projected = kind.by_weights("W", direction, seen, ir)
    bias = kind.outer_bias(direction, ir)
    if bias is not None:
        projected = ir.add(projected, bias)

    def build(nested: Builder, iteration: Value, before: Sequence[Value]) -> tuple[Value, ...]:
        ordinal = nested.sub(nested.size(rounds - 1), iteration) if direction.backwards else iteration
        after = kind.cell(direction, nested.gather(projected, ordinal, 0), before, nested)
        output = after[0]
        if lengths is not None:
            runs = nested.less(ordinal, lengths)
            after = tuple(nested.select(runs, new, old) for new, old in zip(after, before, strict=True))
            output = nested.select(runs, output, 0)
        return nested.constant(np.array(True)), *after, output

    *last, outputs = while_loop(node, ir, ir.size(rounds), ir.constant(np.array(True)), initial, build)
    if direction.backwards:
        outputs = ir.reverse(outputs, 0)
    if lengths is not None:
        outputs = ir.pad(outputs, (0, 0, 0), (length - outputs.shape[0], 0, 0))
    return *(_of_some_steps(state, length, lengths, ir) for state in last), outputs


def _rounds(length: Dim, lengths: Value | None, ir: Builder) -> Dim:
    """The steps that are made: of the longest sequence, which may be far fewer than X has."""
    if lengths is None:
        return length
    longest = ir.reduce(ir.concatenate([lengths, ir.full((1, 1), 0, I64)], 0), "max", (0, 1))
    (steps,) = ir.read_sizes(longest, "rounds", at_most=length)
    return minimum(maximum(steps, 0), length)


def _of_some_steps(state: Value, length: Dim, lengths: Value | None, ir: Builder) -> Value:
    """`state`, or 0 where there was no step."""
    if lengths is not None:
        return ir.select(ir.less(0, lengths), state, 0)
    return state if at_least(length, 1) else ir.select(ir.less(0, ir.size(length)), state, 0)
