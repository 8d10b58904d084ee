"""A part of a model, between values: the nodes that lead from some to others, with the weights that they use."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableSequence, Sequence
from typing import TypeVar

from onnxc.compiler.frontend.checks.findings import listed
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.functions import ModelFunction, all_names, own_names
from onnxc.compiler.frontend.inlining.merge_opsets import Chosen
from onnxc.compiler.frontend.parts.rename import expect_values
from onnxc.compiler.frontend.parts.uses import used_by_node
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnxc.compiler.frontend.schemas import normal_domain
from onnxc.compiler.frontend.versions.change import type_of
from onnxc.runtime.errors import InputError

__all__ = ["extract_part", "split_model"]


Item = TypeVar("Item")


def extract_part(
    model: ModelProto, typed: ModelProto, inputs: Sequence[str] | None, outputs: Sequence[str]
) -> ModelProto:
    """The model that computes `outputs` from `inputs`, values of its graph; None: from the inputs that it needs.

    typed: the same model with the types of its values declared. Raises InputError for a value that there is not, or
    whose type is not known, and where an output needs an input that is not among `inputs`.
    """
    expect_values(own_names(model.graph), [*(inputs or ()), *outputs])
    if not outputs or len({*outputs}) < len(outputs) or len({*(inputs or ())}) < len(inputs or ()):
        raise InputError("a part has at least one output, and each value once", code="part-values")
    graph = model.graph
    nodes, leaves = _needed(graph, inputs or (), outputs)
    weights = {tensor.name for tensor in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    missing = [name for name in leaves if name not in weights]
    if inputs is not None and missing:
        message = f"{listed(outputs)} cannot be computed without {listed(missing)}, which is not among the inputs"
        raise InputError(message, code="part-values")
    given = inputs if inputs is not None else [info.name for info in graph.input if info.name in leaves]
    part = ModelProto()
    part.CopyFrom(model)
    del part.training_info[:]
    known = {info.name: info for info in (*_weight_types(graph), *typed.graph.value_info)}
    known |= {info.name: info for info in (*typed.graph.output, *typed.graph.input)}
    was_input = {info.name for info in graph.input}
    for field, names in ((part.graph.input, given), (part.graph.output, outputs)):
        del field[:]
        field.extend(_declared(known, name) for name in names)
    # An input with a default keeps it; a weight that becomes an input is none any more.
    _keep(part.graph, nodes, leaves | {name for name in given if name in was_input})
    _keep_called(part)
    _rename_computed(part.graph, given)
    return part


def _rename_computed(graph: GraphProto, given: Collection[str]) -> None:
    """Other names for what nodes compute beside that which is needed of them, where the part is given it."""
    names = FreshNames(lambda: all_names(graph))
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name in given:
                node.output[index] = names(f"{name}/unused")


def _keep_called(part: ModelProto) -> None:
    """Leaves the functions that the nodes call, and those that these call."""
    functions = {function.key: function for function in map(ModelFunction, part.functions)}
    called = Chosen(functions, ()).called(part.graph.node)
    _keep_only(part.functions, lambda each: ModelFunction(each).key in called)


def _weight_types(graph: GraphProto) -> Iterator[ValueInfoProto]:
    for tensor in graph.initializer:
        yield ValueInfoProto(name=tensor.name, type=type_of(tensor))
    for sparse in graph.sparse_initializer:
        # What nodes read of it is dense.
        dense = TensorProto(data_type=sparse.values.data_type, dims=sparse.dims)
        yield ValueInfoProto(name=sparse.values.name, type=type_of(dense))


def split_model(model: ModelProto, typed: ModelProto, values: Sequence[str]) -> tuple[ModelProto, ModelProto]:
    """The model in two: what computes `values`, and what computes the outputs from them.

    Outputs that need none of the values are the first part's. What only the second part needs is computed there; a
    Constant that both need is in both, as the weights are. Raises InputError where the second part needs another value
    of the first one, which it names.
    """
    expect_values(own_names(model.graph), values)
    outputs = [info.name for info in model.graph.output]
    behind = _behind(model.graph.node, values)
    later = [name for name in outputs if name in behind]
    if not later:
        raise InputError(f"no output is computed from {listed(values)}", code="part-values")
    earlier = [*values, *(name for name in outputs if name not in behind and name not in values)]
    before = {name for node in _needed(model.graph, (), earlier)[0] for name in node.output if name} - {*values}
    nodes, leaves = _needed(model.graph, values, later)
    crossing = [name for node in nodes if not _is_constant(node) for name in node.output if name in before]
    if crossing:
        message = f"{listed(values)} do not cut the model: {listed(crossing)} is needed on the other side too"
        raise InputError(message, code="part-values")
    given = [*values, *(info.name for info in model.graph.input if info.name in leaves)]
    return extract_part(model, typed, None, earlier), extract_part(model, typed, given, later)


def _is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and not normal_domain(node.domain)


def _needed(graph: GraphProto, inputs: Collection[str], outputs: Iterable[str]) -> tuple[list[NodeProto], set[str]]:
    """The nodes that lead from the inputs to the outputs, in order, and the other values that no node computes."""
    producers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    waiting, seen, kept = [*outputs], set(inputs), set[int]()
    leaves: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in producers:
            leaves.add(name)
        elif producers[name] not in kept:
            kept.add(producers[name])
            waiting += used_by_node(graph.node[producers[name]])
    return [graph.node[index] for index in sorted(kept)], leaves


def _behind(nodes: Iterable[NodeProto], values: Collection[str]) -> set[str]:
    """The values that are computed from these."""
    behind: set[str] = set()
    for node in nodes:
        if any(name in values or name in behind for name in used_by_node(node)):
            behind.update(name for name in node.output if name and name not in values)
    return behind


def _keep(graph: GraphProto, nodes: Iterable[NodeProto], weights: Collection[str]) -> None:
    """Leaves in a graph these nodes and weights, and what is said of them."""
    kept = [*nodes]
    present = {*weights, *(info.name for info in graph.input), *(name for node in kept for name in node.output)}
    _keep_only(graph.quantization_annotation, lambda each: each.tensor_name in present)
    scales = {entry.value for each in graph.quantization_annotation for entry in each.quant_parameter_tensor_names}
    stored = {*weights, *(scales - {info.name for info in graph.input})}
    _keep_only(graph.initializer, lambda each: each.name in stored)
    _keep_only(graph.sparse_initializer, lambda each: each.values.name in stored)
    sides = {info.name for info in (*graph.input, *graph.output)}
    _keep_only(graph.value_info, lambda each: each.name in present and each.name not in sides)
    del graph.node[:]
    graph.node.extend(kept)


def _keep_only(items: MutableSequence[Item], is_kept: Callable[[Item], bool]) -> None:
    kept = [item for item in items if is_kept(item)]
    del items[:]
    items.extend(kept)


def _declared(known: Mapping[str, ValueInfoProto], name: str) -> ValueInfoProto:
    info = known.get(name)
    if info is None or not info.type.WhichOneof("value"):
        raise InputError(f"the type of the value {name} is not known: declare it in value_info", code="part-values")
    return info
