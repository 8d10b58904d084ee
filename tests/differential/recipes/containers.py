"""Sequences, optionals, and control flow with its subgraphs."""

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper, numpy_helper
from onnx.defs import get_schema

from tests.differential.draw import Draw, Parameter, Parts
from tests.differential.kinds import NAMES_TO_NUMBERS, inside, kind_of, type_proto
from tests.differential.recipes.registry import recipe

# The types that the operators on sequences take.
SEQUENCE_ELEMENTS = frozenset(get_schema("SequenceConstruct", 28).type_constraints[0].allowed_type_strs)


def sequence(d: Draw, kind: str, least: int = 0) -> list[np.ndarray]:
    rank = d.int(0, 3)
    shape = d.shape(rank, rank)
    return [d.tensor(inside(kind), d.shape(rank, rank) if d.flag(0.3) else shape) for _ in range(d.int(least, 4))]


def position(d: Draw, low: int, high: int) -> Parameter:
    return Parameter(np.array(d.int(low, high), d.dtype("I")))


@recipe("SequenceAt")
def sequence_at(d: Draw) -> Parts:
    values = sequence(d, d.types["S"], 1)
    kind = d.types["S"]
    return Parts([values, position(d, -len(values), len(values) - 1)], kinds={0: inside(kind)}, input_kinds={0: kind})


@recipe("SequenceConstruct")
def sequence_construct(d: Draw) -> Parts:
    shape = d.shape(0, 3)
    kind = d.types["T"]
    return Parts([d.tensor(kind, shape) for _ in range(d.int(1, 4))], kinds={0: f"seq({kind})"})


@recipe("SequenceEmpty")
def sequence_empty(d: Draw) -> Parts:
    if d.flag(0.2):
        return Parts([], kinds={0: "seq(tensor(float))"})
    return Parts([], {"dtype": NAMES_TO_NUMBERS[d.dtype("S")]})


@recipe("SequenceErase")
def sequence_erase(d: Draw) -> Parts:
    kind = d.types["S"]
    values = sequence(d, kind, 1)
    at = [position(d, -len(values), len(values) - 1)] if d.flag(0.7) else []
    return Parts([values, *at], input_kinds={0: kind})


@recipe("SequenceInsert")
def sequence_insert(d: Draw) -> Parts:
    kind = d.types["S"]
    values = sequence(d, kind)
    new = d.tensor(inside(kind), values[0].shape if values else (2,))
    at = [position(d, -len(values), len(values))] if d.flag(0.7) else []
    return Parts([values, new, *at], input_kinds={0: kind})


@recipe("SequenceLength")
def sequence_length(d: Draw) -> Parts:
    kind = d.types["S"]
    return Parts([sequence(d, kind)], input_kinds={0: kind})


@recipe("ConcatFromSequence")
def concat_from_sequence(d: Draw) -> Parts:
    kind = d.types["S"]
    shape = d.shape(1, 3)
    new_axis = d.int(0, 1)
    axis = d.int(-len(shape) - new_axis, len(shape) + new_axis - 1)
    values = []
    for _ in range(d.int(1, 4)):
        sizes = list(shape)
        if not new_axis and d.flag(0.5):
            sizes[axis] = d.size()
        values.append(d.tensor(inside(kind), sizes))
    named = {"axis": axis} | ({"new_axis": new_axis} if new_axis or d.flag() else {})
    return Parts([values], named, kinds={0: inside(kind)}, input_kinds={0: kind})


@recipe("SplitToSequence")
def split_to_sequence(d: Draw) -> Parts:
    shape = list(d.shape(1, 3, empty=False))
    axis = d.axis(len(shape), since=1)
    named: dict[str, object] = {"axis": axis} if axis or d.flag() else {}
    kind = d.types["T"]
    kinds = {0: f"seq({kind})"}
    if d.flag(0.35):
        return Parts([d.tensor("T", shape)], named | d.attributes(keepdims=d.int(0, 1)), kinds=kinds)
    if d.flag():
        return Parts([d.tensor("T", shape), Parameter(np.array(d.int(1, 3), d.dtype("I")))], named, kinds=kinds)
    sizes = [d.size() for _ in range(d.int(1, 3))]
    shape[axis] = sum(sizes)
    return Parts([d.tensor("T", shape), Parameter(np.array(sizes, d.dtype("I")))], named, kinds=kinds)


def any_value(d: Draw, kind: str) -> object:
    """A value of a tensor or sequence type."""
    return sequence(d, kind, 1) if kind.startswith("seq(") else d.tensor(kind, d.shape(0, 3))


@recipe("Optional")
def optional(d: Draw) -> Parts:
    kind = d.types["V"]
    if kind.startswith("optional"):
        kind = inside(kind)
    kinds = {0: f"optional({kind})"}
    if d.flag(0.2):
        return Parts([], {"type": type_proto(kind)}, kinds=kinds)
    return Parts([any_value(d, kind)], kinds=kinds, input_kinds={0: kind})


@recipe("OptionalGetElement", "OptionalHasElement")
def of_optional(d: Draw) -> Parts:
    kind = d.types["O"]
    inner = inside(kind) if kind.startswith("optional") else kind
    if d.schema.name == "OptionalHasElement":
        if d.since >= 18 and d.flag(0.1):
            return Parts([])
        return Parts([any_value(d, inner)], input_kinds={0: kind})
    return Parts([any_value(d, inner)], kinds={0: inner}, input_kinds={0: kind})


def graph(nodes: list[NodeProto], inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


def info(name: str, kind: str) -> ValueInfoProto:
    return helper.make_value_info(name, type_proto(kind))


def literal(value: np.ndarray, name: str) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, f"{name}_value"))


def tensor_type(d: Draw) -> str:
    """A tensor type of constraint V; the drawn one may be a sequence or an optional."""
    kind = d.types["V"]
    while not kind.startswith("tensor"):
        kind = inside(kind)
    return kind


def constant_type(d: Draw) -> str:
    """A tensor type that the Constant of the opset has."""
    kind = tensor_type(d)
    return kind if d.opset >= 9 or kind in ("tensor(float)", "tensor(double)", "tensor(float16)") else "tensor(float)"


@recipe("If")
def branch(d: Draw) -> Parts:
    kind = d.types["V"]
    condition = np.array(d.flag()) if d.since >= 13 or d.flag() else np.array([d.flag()])
    if kind.startswith("seq(") and d.opset >= 13 and inside(kind) in SEQUENCE_ELEMENTS:
        return Parts(
            [condition], {name: sequence_branch(d, kind) for name in ("then_branch", "else_branch")}, kinds={0: kind}
        )
    kind = constant_type(d)
    if d.flag(0.4):
        x = d.tensor(kind, d.shape(0, 3))
        taken = [helper.make_node("Identity", ["captured"], [f"{side}_0"]) for side in ("then", "else")]
        other = literal(d.tensor(kind, x.shape), "else_0")
        nodes = {"then_branch": taken[0], "else_branch": other if d.flag() else taken[1]}
        graphs = {name: graph([node], [], [info(node.output[0], kind)]) for name, node in nodes.items()}
        return Parts([condition], dict(graphs), kinds={0: kind}, captured={"captured": x})
    shapes = [d.shape(0, 3) for _ in range(2)]
    if d.flag(0.6):
        shapes[1] = shapes[0]
    count = d.int(1, 2)
    branches = {}
    for name, shape in zip(("then_branch", "else_branch"), shapes, strict=True):
        nodes = [literal(d.tensor(kind, shape), f"{name}_{i}") for i in range(count)]
        branches[name] = graph(nodes, [], [info(f"{name}_{i}", kind) for i in range(count)])
    return Parts([condition], branches, count, kinds=dict.fromkeys(range(count), kind))


def sequence_branch(d: Draw, kind: str) -> GraphProto:
    prefix = f"b{d.int(0, 10**6)}"
    nodes = [literal(d.tensor(inside(kind), (2,)), f"{prefix}_{i}") for i in range(d.int(1, 2))]
    nodes.append(helper.make_node("SequenceConstruct", [node.output[0] for node in nodes], [f"{prefix}_seq"]))
    return graph(nodes, [], [info(f"{prefix}_seq", kind)])


@recipe("Loop")
def loop(d: Draw) -> Parts:
    """A carried tensor that passes through, one counted up, and both scanned; or a sequence that grows."""
    kind = d.types["V"]
    trips = Parameter(np.array(d.int(0, 4))) if d.flag(0.8) else None
    condition = None if trips is not None and d.flag(0.3) else Parameter(np.array(d.flag(0.85)))
    limit = d.int(0, 5) if trips is None or d.flag(0.4) else 99
    counted = (
        [literal(np.array(limit), "limit"), helper.make_node("Less", ["iteration", "limit"], ["go"])]
        if d.opset >= 9
        else []
    )
    keep = "go" if counted else "condition"
    if not counted and trips is None:
        trips = Parameter(np.array(d.int(0, 4)))
    iteration = [info("iteration", "tensor(int64)"), info("condition", "tensor(bool)")]
    if kind.startswith("seq(") and d.opset >= 13 and inside(kind) in SEQUENCE_ELEMENTS:
        one = literal(d.tensor(inside(kind), (2,)), "one")
        nodes = [*counted, one, helper.make_node("SequenceInsert", ["carried", "one"], ["grown"])]
        nodes.append(helper.make_node("Identity", [keep], ["again"]))
        body = graph(nodes, [*iteration, info("carried", kind)], [info("again", "tensor(bool)"), info("grown", kind)])
        return Parts([trips, condition, sequence(d, kind)], {"body": body}, kinds={0: kind}, input_kinds={2: kind})
    kind = tensor_type(d)
    shape = d.shape(0, 3)
    nodes = [
        *counted, helper.make_node("Identity", [keep], ["again"]), helper.make_node("Identity", ["carried"], ["next"]),
        helper.make_node("Identity", ["carried"], ["scanned"]), helper.make_node("Identity", ["iteration"], ["counts"]),
    ]  # fmt: skip
    captured = {}
    if d.flag(0.4):
        captured = {"captured": d.tensor(kind, d.shape(0, 2))}
        nodes[-2] = helper.make_node("Identity", ["captured"], ["scanned"])
    given = [*iteration, info("carried", kind)]
    results = [
        info("again", "tensor(bool)"),
        info("next", kind),
        info("scanned", kind),
        info("counts", "tensor(int64)"),
    ]
    kinds = {0: kind, 1: kind, 2: "tensor(int64)"}
    return Parts(
        [trips, condition, d.tensor(kind, shape)],
        {"body": graph(nodes, given, results)},
        3,
        kinds=kinds,
        captured=captured,
    )


@recipe("Scan")
def scan(d: Draw) -> Parts:
    """A state that passes through, and scanned inputs that come out again; floats are added up in the state."""
    kind = tensor_type(d)
    is_number = kind in ("tensor(float)", "tensor(double)", "tensor(int64)", "tensor(int32)")
    element = d.shape(0, 2, empty=False)
    length, count = d.int(1, 4), d.int(1, 2)
    update = (
        helper.make_node("Add", ["state", "part0"], ["next"])
        if is_number
        else helper.make_node("Identity", ["state"], ["next"])
    )
    nodes = [update, *(helper.make_node("Identity", [f"part{i}"], [f"piece{i}"]) for i in range(count))]
    given = [info("state", kind), *(info(f"part{i}", kind) for i in range(count))]
    results = [info("next", kind), *(info(f"piece{i}", kind) for i in range(count))]
    named: dict[str, object] = {"body": graph(nodes, given, results), "num_scan_inputs": count}
    kinds = dict.fromkeys(range(1 + count), kind)
    directions = [d.int(0, 1) for _ in range(count)]
    if d.since == 8:
        batch = d.int(1, 2)
        lengths = Parameter(np.array([d.int(1, length) for _ in range(batch)], np.int64)) if d.flag(0.4) else None
        named |= {"directions": directions} if d.flag() else {}
        parts = [d.tensor(kind, (batch, length, *element)) for _ in range(count)]
        return Parts([lengths, d.tensor(kind, (batch, *element)), *parts], named, 1 + count, kinds=kinds)
    axes = [d.int(0, len(element)) for _ in range(count)] if d.flag() else None
    if axes:
        named["scan_input_axes"] = [a - len(element) - 1 if d.since >= 11 and d.flag() else a for a in axes]
    if d.flag(0.4):
        named["scan_output_axes"] = [d.int(0, len(element)) for _ in range(count)]
    named |= {"scan_input_directions": directions} if d.flag(0.4) else {}
    named |= {"scan_output_directions": [d.int(0, 1) for _ in range(count)]} if d.flag(0.4) else {}
    parts = []
    for i in range(count):
        axis = axes[i] if axes else 0
        parts.append(d.tensor(kind, (*element[:axis], length, *element[axis:])))
    return Parts([d.tensor(kind, element), *parts], named, 1 + count, kinds=kinds)


@recipe("SequenceMap")
def sequence_map(d: Draw) -> Parts:
    kind = d.types["S"]
    tensor = inside(kind)
    has_other = d.flag()
    nodes = [helper.make_node("Identity", ["other" if has_other and d.flag() else "element"], ["result"])]
    values = sequence(d, kind, 1)
    given = [info("element", tensor)] + ([info("other", tensor)] if has_other else [])
    body = graph(nodes, given, [info("result", tensor)])
    inputs: list[object] = [values]
    kinds = {0: kind}
    if has_other:
        inputs.append([d.tensor(tensor, (2,)) for _ in values] if d.flag() else d.tensor(tensor, (2,)))
        kinds[1] = kind_of(inputs[1])
    return Parts(inputs, {"body": body}, input_kinds=kinds)
