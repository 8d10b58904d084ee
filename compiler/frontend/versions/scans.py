"""Scan between opsets 8 and 9: before, each value had an axis of batches, each of which was scanned for itself."""

from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, GraphProto, NodeProto
from onnxc.compiler.frontend.versions.change import Change, set_attribute

__all__ = ["scan_to_8", "scan_to_9"]


def scan_to_9(change: Change) -> None:
    """A Scan over the batches, whose body is the Scan of one of them."""
    node = change.node
    if change.input(0):
        change.fail("its sequences have lengths of their own")
    values, directions = node.input[1:], change.integers("directions")
    one = NodeProto(op_type="Scan", name=f"{node.name}/batch" if node.name else "")
    one.attribute.extend(attribute for attribute in node.attribute if attribute.name in ("body", "num_scan_inputs"))
    if directions is not None:
        set_attribute(one, "scan_input_directions", directions)
    one.input.extend(change.values.fresh(f"{name}/batch") for name in values)
    # A graph gives all its outputs, those too that the node leaves out.
    one.output.extend(change.values.fresh(f"{name or node.op_type}/batch") for name in node.output)
    node.input[:] = values
    del node.attribute[:]
    set_attribute(node, "num_scan_inputs", len(values))
    node.attribute.add(name="body", type=AttributeProto.GRAPH).g.CopyFrom(_body_of(one))


def _body_of(node: NodeProto) -> GraphProto:
    """The graph of one node."""
    graph = GraphProto(name="batch", node=[node])
    for side, names in ((graph.input, node.input), (graph.output, node.output)):
        for name in names:
            side.add(name=name)
    return graph


def scan_to_8(change: Change) -> None:
    """The Scan of one batch."""
    node, count = change.node, change.integer("num_scan_inputs")
    states = len(node.input) - count
    if any(change.integers("scan_output_directions") or ()):
        change.fail("an output is filled from its end")
    input_axes, output_axes = (change.integers(f"scan_{side}_axes") or () for side in ("input", "output"))
    axes = (*(0,) * states, *(input_axes or (0,) * count))
    if len(axes) != len(node.input):
        change.fail(f"scan_input_axes has {len(input_axes)} entries, and num_scan_inputs is {count}")
    inputs = [_with_batch(change, name, axis) for name, axis in zip(node.input, axes, strict=True)]
    for position in range(len(node.output)):
        axis = output_axes[position - states] if 0 <= position - states < len(output_axes) else 0
        _without_batch(change, position, axis)
    change.behind.reverse()
    node.input[:] = ["", *inputs]
    directions = change.integers("scan_input_directions")
    change.drop("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")
    if directions is not None:
        set_attribute(node, "directions", directions)


def _with_batch(change: Change, name: str, axis: int) -> str:
    """A value with the axis that is scanned ahead, behind one of batches."""
    if axis:
        order = _order(change, name, axis)
        name = change.make("Transpose", [name], {"perm": [order.index(each) for each in range(len(order))]}, name)
    return change.make("Unsqueeze", [name], {"axes": [0]}, f"{name}/batch")


def _without_batch(change: Change, position: int, axis: int) -> None:
    """An output as what is in the one batch, with the axis that is scanned where it belongs; written back to front."""
    name = change.node.output[position]
    if not name:
        return
    if axis:
        change.follow("Transpose", [], {"perm": _order(change, name, axis)}, position)
    change.follow("Squeeze", [], {"axes": [0]}, position)


def _order(change: Change, name: str, axis: int) -> list[int]:
    """The axes of a value whose first axis is to become `axis`."""
    shape = change.shape(name)
    if shape is None:
        change.fail(f"the rank of {name} is not known")
    if not -len(shape) <= axis < len(shape):
        change.fail(f"axis {axis} is outside of {name}, of rank {len(shape)}")
    order = [*range(1, len(shape))]
    order.insert(axis + len(shape) * (axis < 0), 0)
    return order
