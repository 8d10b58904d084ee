"""Running sums and products as a Scan along their axis, and SequenceMap as a Loop over its elements."""

import numpy as np

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, GraphProto, NodeProto, TensorProto
from onnxc.compiler.frontend.versions.change import Change, set_attribute
from onnxc.compiler.frontend.versions.sizes import sizes_of, vector
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.compiler.frontend.versions.upward import Adapter

__all__ = ["running", "sequence_map"]

START = {"Add": -0.0, "Mul": 1.0}
"""What a running sum or product starts from, without changing its first element; -0.0 + -0.0 is -0.0."""


def running(operator: str) -> Adapter:
    """What composes the sums or products of each element with those before it."""

    def adapt(change: Change) -> None:
        at, rank = Steps(change), change.rank(0)
        given = change.input(1)
        if given in change.values.constants or rank == 1:
            axis = change.axis(int(change.scalar(1) or 0)) if rank > 1 else 0
            at.become("Identity", _scanned(at, operator, axis))
            return
        wide = at.cast(given, TensorProto.INT64)
        result = _scanned(at, operator, 0)
        for axis in range(1, rank):
            is_chosen = at("Or", *(at("Equal", wide, at.constant(each, np.int64)) for each in (axis, axis - rank)))
            result = at("Where", is_chosen, _scanned(at, operator, axis), result)
        at.become("Identity", result)

    return adapt


def _scanned(at: Steps, operator: str, axis: int) -> str:
    """The sums or products along an axis."""
    change, element = at.change, at.change.known_element(0)
    is_exclusive = bool(change.integer("exclusive"))
    first = 0.0 if is_exclusive and operator == "Add" else START[operator]
    start = change.tensor(np.array(first).astype(ELEMENT_TYPES[element].dtype.numpy), "start")
    sizes = [size for k, size in enumerate(sizes_of(at, change.input(0))) if k != axis]
    node = NodeProto(op_type="Scan", input=[at("Expand", start, vector(at, sizes)), change.input(0)])
    node.output.extend(change.values.fresh(f"{change.node.output[0]}/{name}") for name in ("last", "running"))
    set_attribute(node, "num_scan_inputs", 1)
    for side in ("input", "output"):
        set_attribute(node, f"scan_{side}_axes", [axis])
        set_attribute(node, f"scan_{side}_directions", [change.integer("reverse")])
    body = _body(change, operator, len(sizes), is_exclusive)
    node.attribute.add(name="body", type=AttributeProto.GRAPH).g.CopyFrom(body)
    change.ahead.append(node)
    return node.output[1]


def _body(change: Change, operator: str, rank: int, is_exclusive: bool) -> GraphProto:
    """One step: what is folded so far, and an element  ->  that with it, and the result of the step."""
    total, x, longer, given = (change.values.fresh(f"{change.node.output[0]}/{n}") for n in ("total", "x", "new", "y"))
    graph = GraphProto(name="step")
    graph.node.add(op_type=operator, input=[total, x], output=[longer])
    graph.node.add(op_type="Identity", input=[total if is_exclusive else longer], output=[given])
    for side, names in ((graph.input, (total, x)), (graph.output, (longer, given))):
        for name in names:
            type = side.add(name=name).type.tensor_type
            type.elem_type = change.element(0)
            type.shape.SetInParent()
            for _ in range(rank):
                type.shape.dim.add()
    return graph


def sequence_map(change: Change) -> None:
    """A Loop that takes an element of each sequence, and appends what the body makes of them to its results."""
    at, node, fresh = Steps(change), change.node, change.values.fresh
    body = next(attribute.g for attribute in node.attribute if attribute.name == "body")
    iteration, condition, goes_on = (fresh(f"{node.output[0]}/{name}") for name in ("iteration", "condition", "on"))
    results = [fresh(f"{node.output[0]}/{info.name}") for info in body.output]
    graph = GraphProto(name=body.name or "element", initializer=body.initializer)
    for name, kind in ((iteration, TensorProto.INT64), (condition, TensorProto.BOOL)):
        info = graph.input.add(name=name)
        info.type.tensor_type.elem_type = kind
        info.type.tensor_type.shape.SetInParent()
    for name, info in zip(node.input, body.input, strict=True):
        is_sequence = change.values.types[name].HasField("sequence_type") if name in change.values.types else False
        graph.node.add(
            op_type="SequenceAt" if is_sequence else "Identity",
            input=[name, iteration] if is_sequence else [name],
            output=[info.name],
        )
    graph.node.extend(body.node)
    graph.value_info.extend(body.value_info)
    graph.node.add(op_type="Identity", input=[condition], output=[goes_on])
    graph.output.add(name=goes_on).type.tensor_type.elem_type = TensorProto.BOOL
    empty = []
    for position, (name, info) in enumerate(zip(results, body.output, strict=True)):
        element = _element_of(change, position, info.type.tensor_type.elem_type)
        before = fresh(f"{name}/before")
        graph.input.add(name=before).type.sequence_type.elem_type.tensor_type.elem_type = element
        graph.node.add(op_type="SequenceInsert", input=[before, info.name], output=[name])
        graph.output.add(name=name).type.sequence_type.elem_type.tensor_type.elem_type = element
        empty.append(at("SequenceEmpty", dtype=element))
    count, true = at("SequenceLength", node.input[0]), change.tensor(np.array(True), "true")
    node.op_type = "Loop"
    node.input[:] = [count, true, *empty]
    del node.attribute[:]
    node.attribute.add(name="body", type=AttributeProto.GRAPH).g.CopyFrom(graph)


def _element_of(change: Change, position: int, declared: int) -> int:
    """The element type of the tensors of a result."""
    name = change.node.output[position] if position < len(change.node.output) else ""
    known = change.values.types.get(name)
    element = declared if known is None else known.sequence_type.elem_type.tensor_type.elem_type or declared
    if not element:
        change.fail(f"the type of what is in its output {name} is not known")
    return element
