"""The types of the values that an adapter has made, which adapters further on ask for."""

from collections.abc import Iterable, Iterator

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.declare_types import write_type
from onnxc.compiler.frontend.functions import subgraphs
from onnxc.compiler.frontend.infer import infer_types
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, NodeProto, TypeProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.types import ANY_SIZE, ShapedType, Type
from onnxc.runtime.errors import UnsupportedError

__all__ = ["learn_made_types"]

IR_VERSION = 10
"""That of the model of the nodes alone; any in which an initializer need not be an input."""


def learn_made_types(change: Change) -> None:
    """Notes the types of the values between the nodes of a change, where those that they are made of are known."""
    nodes = change.parts()
    wanted = {name for node in nodes for name in node.output if name} - change.values.types.keys()
    if len(nodes) == 1 or not wanted:
        return
    model = ModelProto(ir_version=IR_VERSION)
    model.opset_import.add(version=change.version)
    model.graph.name = "made"
    model.graph.node.extend(nodes)
    if not _give_inputs(model.graph, nodes, change):
        return
    for name in change.node.output:
        if name:
            model.graph.output.add(name=name)
    try:
        inferred = infer_types(check_model(model))
    except (DiagnosedModelError, UnsupportedError):
        return
    for value in inferred.values:
        if value.path == "main" and value.name in wanted:
            change.values.types[value.name] = type = TypeProto()
            write_type(_in_symbols_of(value.type, inferred.bound), type)


def _give_inputs(graph: GraphProto, nodes: Iterable[NodeProto], change: Change) -> bool:
    """Declares what the nodes read from elsewhere; False where the type of one is not known."""
    values, made = change.values, {name for node in nodes for name in node.output}
    for name in dict.fromkeys(_used(nodes)):
        if name in made or not name:
            continue
        if name in values.constants:
            graph.initializer.add().CopyFrom(values.constants[name])
            graph.initializer[-1].name = name
        elif name in values.types:
            graph.input.add(name=name).type.CopyFrom(values.types[name])
        else:
            return False
    return True


def _used(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """What nodes read, and the graphs in them from around themselves."""
    for node in nodes:
        yield from node.input
        for _, graph in subgraphs(node):
            own = {*(info.name for info in graph.input), *(tensor.name for tensor in graph.initializer)}
            own.update(name for inner in graph.node for name in inner.output)
            yield from (name for name in _used(graph.node) if name not in own)


def _in_symbols_of(type: Type, bound: frozenset[str]) -> Type:
    """The type without sizes of other symbols, whose names would mean others elsewhere."""
    if not isinstance(type, ShapedType) or type.shape is None:
        return type
    shape = [size if isinstance(size, int) or symbols_of(size) <= bound else ANY_SIZE for size in type.shape]
    return type.with_shape(tuple(shape))
