"""A model in another version of ai.onnx: every node crosses every change of its operator on the way, one by one.

What an adapter makes goes on in the same way, so that it need only know its own version. Everything else that the
model carries stays, but for shapes that are declared of values which have others; what the target version cannot say
is a ModelError that names the node.
"""

from collections.abc import Collection, Iterable, Iterator, MutableSequence
from dataclasses import replace

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.findings import Site
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.functions import (
    FunctionKey,
    ModelFunction,
    all_names,
    imported_opsets,
    node_key,
    subgraphs,
)
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)
from onnxc.compiler.frontend.same_operator import keeps_meaning
from onnxc.compiler.frontend.schemas import normal_domain, schema, versions
from onnxc.compiler.frontend.tensors import TensorStore
from onnxc.compiler.frontend.versions.change import Change, Values, type_of
from onnxc.compiler.frontend.versions.constants import constant_of
from onnxc.compiler.frontend.versions.downward import DOWNWARD
from onnxc.compiler.frontend.versions.fit import fit
from onnxc.compiler.frontend.versions.made_types import learn_made_types
from onnxc.compiler.frontend.versions.upward import UPWARD

__all__ = ["convert_opset"]

Holder = GraphProto | FunctionProto

IMPORTS_SINCE = 3
"""The IR version from which a model says which operator sets it uses."""

FREE_INITIALIZERS_SINCE = 4
"""The IR version from which an initializer need not be an input."""


def convert_opset(model: ModelProto, typed: ModelProto, target: int, store: TensorStore) -> ModelProto:
    """A copy of the model in opset `target` of ai.onnx, its functions too.

    typed: the same model with the types of its values declared, as far as they are known; store: where its tensors are.
    Raises ModelError for a node that the target version cannot say.
    """
    converted = ModelProto()
    converted.CopyFrom(model)
    names = FreshNames(lambda: _all_names(model))
    functions = {ModelFunction(function).key for function in model.functions}
    walk = _Converter(functions, target, Values({}, {}, store, names), model.ir_version >= FREE_INITIALIZERS_SINCE)
    opset = imported_opsets(model.opset_import).get("", 1 if model.ir_version < IMPORTS_SINCE else target)
    walk.graph(converted.graph, typed.graph, opset, "main", walk.values)
    for index, info in enumerate(converted.training_info):
        for name in ("initialization", "algorithm"):
            graph = getattr(info, name)
            if info.HasField(name):
                walk.graph(graph, graph, opset, f"training_info[{index}].{name}", walk.values)
    for function, known in zip(converted.functions, typed.functions, strict=True):
        walk.function(function, known)
    converted.ir_version = max(converted.ir_version, IMPORTS_SINCE)
    _import(converted.opset_import, target, is_needed=model.ir_version < IMPORTS_SINCE)
    return converted


def _all_names(model: ModelProto) -> Iterator[str]:
    yield from all_names(model.graph)
    for function in model.functions:
        yield from function.input
        for node in function.node:
            yield from node.output


def _import(imports: MutableSequence[OperatorSetIdProto], target: int, *, is_needed: bool) -> None:
    """Names the target where ai.onnx is imported, or must be."""
    known = [imported for imported in imports if not normal_domain(imported.domain)]
    for imported in known:
        imported.version = target
    if not known and is_needed:
        imports.append(OperatorSetIdProto(version=target))


class _Converter:
    """The walk over graphs; `functions` are the nodes that call functions of the model, which stay."""

    def __init__(self, functions: Collection[FunctionKey], target: int, values: Values, has_initializers: bool) -> None:
        self.functions, self.target, self.values = functions, target, values
        self.has_initializers = has_initializers

    def graph(self, graph: GraphProto, typed: GraphProto, opset: int, path: str, outer: Values) -> None:
        """Converts the nodes of a graph, and of those in it."""
        made: list[TensorProto] = []
        values = outer.inner(made if self.has_initializers else None)
        inputs = {info.name for info in graph.input}
        for name in all_names(graph):
            values.constants.pop(name, None)
        values.constants.update((each.name, each) for each in graph.initializer if each.name not in inputs)
        values.types.update(
            (info.name, info.type) for info in (*typed.input, *typed.value_info, *typed.output) if info.HasField("type")
        )
        for tensor in graph.initializer:
            _declare(values, tensor.name, tensor)
        self._body(graph, typed, opset, path, values)
        graph.initializer.extend(made)
        _correct(graph.value_info, typed.value_info)

    def function(self, function: FunctionProto, typed: FunctionProto) -> None:
        """Converts the body of a function, which has an opset of its own."""
        values = self.values.inner()
        values.types.update((info.name, info.type) for info in typed.value_info if info.HasField("type"))
        opset = imported_opsets(function.opset_import).get("", self.target)
        self._body(function, typed, opset, ModelFunction(function).path, values)
        _correct(function.value_info, typed.value_info)
        _import(function.opset_import, self.target, is_needed=False)

    def _body(self, holder: Holder, typed: Holder, opset: int, path: str, values: Values) -> None:
        """Converts the nodes of a graph or function in their order; `typed` has the same ones."""
        made: list[NodeProto] = []
        for index, (node, known) in enumerate(zip(holder.node, typed.node, strict=True)):
            site = Site(path, index, node)
            for (label, inner), (_, inner_typed) in zip(subgraphs(node), subgraphs(known), strict=True):
                self.graph(inner, inner_typed, opset, site.inner_path(label), values)
            _learn(values, node)
            made += self._node(node, opset, site.location(), values)
        del holder.node[:]
        holder.node.extend(made)

    def _node(self, node: NodeProto, version: int, location: Location, values: Values) -> list[NodeProto]:
        """The nodes that a node of an opset becomes in the target."""
        is_other = normal_domain(node.domain) or node_key(node) in self.functions
        crossed = None if is_other else _next_change(node, version, self.target)
        if crossed is None:
            return [node]
        is_up = self.target > version
        reached = crossed if is_up else crossed - 1
        before, after = schema("", node.op_type, version), schema("", node.op_type, reached)
        assert before is not None, node
        copied = NodeProto()
        copied.CopyFrom(node)
        change = Change(copied, before, after, reached, values, replace(location, operator=before.identity))
        adapter = (UPWARD if is_up else DOWNWARD).get((node.op_type, crossed))
        if adapter is not None:
            adapter(change)
            change.after = schema("", copied.op_type, reached)
            if reached != self.target:
                learn_made_types(change)
        if change.is_gone:
            return []
        older, newer = (before, after) if is_up else (after, before)
        if adapter is None and is_up and older is not None and newer is not None and keeps_meaning(older, newer):
            return self._node(copied, reached, location, values)
        fit(change)
        parts = (*change.ahead, copied, *change.behind)
        return [each for part in parts for each in self._node(part, reached, location, values)]


def _correct(declared: Iterable[ValueInfoProto], known: Iterable[ValueInfoProto]) -> None:
    """Gives values the types that they are known to have where their declared shapes contradict these."""
    types = {info.name: info.type for info in known}
    for info in declared:
        if info.name in types and _contradict(info.type.tensor_type, types[info.name].tensor_type):
            info.type.CopyFrom(types[info.name])


def _contradict(one: TypeProto.Tensor, other: TypeProto.Tensor) -> bool:
    """Whether two types have shapes that differ in rank, or in a size that both know."""
    if not one.HasField("shape") or not other.HasField("shape"):
        return False
    if len(one.shape.dim) != len(other.shape.dim):
        return True
    pairs = zip(one.shape.dim, other.shape.dim, strict=True)
    return any(a.HasField("dim_value") and b.HasField("dim_value") and a.dim_value != b.dim_value for a, b in pairs)


def _next_change(node: NodeProto, version: int, target: int) -> int | None:
    """The first version in which the operator of a node changes, on the way from one opset to another."""
    known = versions("", node.op_type)
    if target > version:
        return min((each for each in known if version < each <= target), default=None)
    return max((each for each in known if target < each <= version), default=None)


def _learn(values: Values, node: NodeProto) -> None:
    """Notes the constants that a node makes."""
    if normal_domain(node.domain):
        return
    if node.op_type == "Constant" and (tensor := constant_of(node)) is not None:
        values.constants[node.output[0]] = tensor
        _declare(values, node.output[0], tensor)
    elif node.op_type == "Identity" and node.input and node.input[0] in values.constants:
        values.constants[node.output[0]] = values.constants[node.input[0]]


def _declare(values: Values, name: str, tensor: TensorProto) -> None:
    """Notes the type of a constant, unless it is declared."""
    known = values.types.get(name)
    if known is None or not known.WhichOneof("value"):
        values.types[name] = type_of(tensor)
