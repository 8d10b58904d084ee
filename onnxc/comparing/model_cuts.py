"""Some nodes of a model as a model of their own, whatever they are: what they lack becomes inputs.

Unlike `onnxc.extract` nothing is checked here: a model that is to show a defect need not be legal.
"""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.parts.uses import used_by_node
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto
from onnxc.compiler.frontend.versions.change import type_of
from onnxc.compiler.ir.dtypes import STRING, dtype_of

__all__ = ["array_type", "declared_types", "keep_nodes", "node_text", "with_outputs"]

FLOAT = 1
"""What an input is taken to be whose type nobody knows."""


def keep_nodes(model: ModelProto, ordinals: Iterable[int], types: Mapping[str, TypeProto]) -> ModelProto:
    """The model of these nodes, by their ordinals in the graph. Its outputs are those of the model, and what
    none of them uses.

    Its inputs are what other nodes or the caller gave them, of the types that are known; a name that the model never
    defines stays undefined.
    """
    nodes = [model.graph.node[ordinal] for ordinal in sorted(ordinals)]
    made = dict.fromkeys(name for node in nodes for name in node.output if name)
    used = dict.fromkeys(name for node in nodes for name in used_by_node(node) if name not in made)
    stored = _initializers(model.graph)
    defined = {info.name for info in model.graph.input} | {name for node in model.graph.node for name in node.output}
    outputs = {info.name for info in model.graph.output}
    inner = {name for node in nodes for name in used_by_node(node)}
    part = _without_graph(model, nodes)
    part.graph.input.extend(_info(name, types) for name in used if name in defined and name not in stored)
    part.graph.output.extend(_output(name, types) for name in made if name in outputs or name not in inner)
    part.graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in used)
    part.graph.sparse_initializer.extend(each for each in model.graph.sparse_initializer if each.values.name in used)
    return part


def with_outputs(model: ModelProto, names: Iterable[str], types: Mapping[str, TypeProto]) -> ModelProto:
    """The model with these outputs in place of its own; what nothing leads from is still there."""
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.output[:]
    made.graph.output.extend(_info(name, types) for name in names)
    return made


def declared_types(model: ModelProto) -> dict[str, TypeProto]:
    """The types of the values of the graph, as far as it declares them."""
    graph = model.graph
    known = {info.name: info.type for info in (*graph.value_info, *graph.output, *graph.input) if info.HasField("type")}
    return {tensor.name: type_of(tensor) for tensor in graph.initializer} | known


def array_type(array: np.ndarray) -> TypeProto:
    """The type of an array, its sizes as numbers."""
    dtype = STRING if array.dtype.kind in "OUT" else dtype_of(array.dtype)
    type = TypeProto()
    type.tensor_type.elem_type = code_of(dtype)
    type.tensor_type.shape.SetInParent()
    for size in array.shape:
        type.tensor_type.shape.dim.add(dim_value=size)
    return type


def node_text(ordinal: int, node: NodeProto) -> str:
    """Which node it is, for people."""
    return f"node {ordinal} ({node.op_type})" + (f' "{node.name}"' if node.name else "")


def _initializers(graph: GraphProto) -> Collection[str]:
    return {tensor.name for tensor in graph.initializer} | {each.values.name for each in graph.sparse_initializer}


def _without_graph(model: ModelProto, nodes: Iterable[NodeProto]) -> ModelProto:
    """A model of these nodes alone; functions stay if one of them is called, as they may call each other."""
    kept = [*nodes]
    part = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = model.graph.name
    part.graph.node.extend(kept)
    called = {(node.domain, node.op_type) for node in kept}
    if any((function.domain, function.name) in called for function in model.functions):
        part.functions.extend(model.functions)
    return part


def _info(name: str, types: Mapping[str, TypeProto]) -> ValueInfoProto:
    if name in types:
        return ValueInfoProto(name=name, type=types[name])
    return ValueInfoProto(name=name, type=TypeProto(tensor_type=TypeProto.Tensor(elem_type=FLOAT)))


def _output(name: str, types: Mapping[str, TypeProto]) -> ValueInfoProto:
    """Without a shape, which would contradict sizes that are cut."""
    info = ValueInfoProto()
    info.CopyFrom(_info(name, types))
    if info.type.HasField("tensor_type"):
        info.type.tensor_type.ClearField("shape")
    return info
