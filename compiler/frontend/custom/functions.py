"""The custom operators that are functions of ONNX, as functions of the model that calls them."""

from collections.abc import Iterable, Iterator

from onnxc.compiler.frontend.custom.operators import CustomOperators, OnnxFunction
from onnxc.compiler.frontend.functions import FunctionKey, all_nodes, imported_opsets, node_key
from onnxc.compiler.frontend.proto.onnxc_pb2 import FunctionProto, ModelProto, NodeProto

__all__ = ["with_functions"]


def with_functions(model: ModelProto, operators: CustomOperators) -> ModelProto:
    """The model with each function that it calls, at however many removes, and does not have itself.

    The version is that which the model imports of the domain, as a model has one function of a name for all callers.
    """
    if not any(isinstance(operator.body, OnnxFunction) for operator in operators.operators):
        return model
    added = _called(model, operators)
    if not added:
        return model
    extended = ModelProto()
    extended.CopyFrom(model)
    extended.functions.extend(added)
    return extended


def _called(model: ModelProto, operators: CustomOperators) -> list[FunctionProto]:
    known: dict[FunctionKey, None] = dict.fromkeys(map(_key, model.functions))
    opsets = {domain: version for function in model.functions for domain, version in _imports(function)}
    opsets |= imported_opsets(model.opset_import)
    added: list[FunctionProto] = []
    training = [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]
    bodies = [graph.node for graph in (model.graph, *training)] + [function.node for function in model.functions]
    waiting = [key for nodes in bodies for key in _keys(nodes)]
    while waiting:
        key = waiting.pop(0)
        domain, name, overload = key
        operator = None if key in known or overload else operators.find(domain, name, opsets.get(domain, 0))
        known.setdefault(key)
        if operator is not None and isinstance(operator.body, OnnxFunction):
            proto = operator.body.proto
            added.append(proto)
            opsets = dict(_imports(proto)) | opsets
            waiting += _keys(proto.node)
    return added


def _key(function: FunctionProto) -> FunctionKey:
    return function.domain, function.name, function.overload


def _keys(nodes: Iterable[NodeProto]) -> Iterator[FunctionKey]:
    return (node_key(node) for node in all_nodes(nodes))


def _imports(function: FunctionProto) -> Iterable[tuple[str, int]]:
    return imported_opsets(function.opset_import).items()
