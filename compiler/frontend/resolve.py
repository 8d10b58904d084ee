"""The last part of checking: from messages without errors to a CheckedModel.

Names are resolved, operator versions chosen, attributes read, functions expanded. A name that is defined within a
graph and also around it is replaced, so that afterwards a name means one thing wherever it can be seen.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from compiler.diagnostics import Diagnostic, error, model_error
from compiler.frontend.checks.attributes import attribute_type, kind_name
from compiler.frontend.checks.findings import Site
from compiler.frontend.functions import FunctionKey, ModelFunction, Scope, imported_opsets, node_key, subgraphs
from compiler.frontend.graph import AttributeScalar, AttributeValue, CheckedModel, Graph, GraphNode, Tensor, ValueInfo
from compiler.frontend.proto.onnxc_pb2 import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
)
from compiler.frontend.read import LoadedModel
from compiler.frontend.schemas import Schema, newest_opset, normal_domain, schema
from compiler.frontend.tensors import TensorStore, read_sparse_tensor, read_tensor
from compiler.frontend.value_types import TypeReader


def resolve_model(loaded: LoadedModel, store: TensorStore, findings: Sequence[Diagnostic]) -> CheckedModel:
    """The checked model of messages in which only warnings, `findings`, were found.

    Raises ModelError for what only shows when functions are expanded: an operand or attribute that a call leaves out
    and that the body cannot do without.
    """
    model = loaded.outline
    opsets = imported_opsets(model.opset_import) or {"": 1}
    resolver = _Resolver(model, store)
    scope = Scope(opsets, TypeReader.of_inputs(model.graph.input), frozenset(_own_names(model.graph)))
    graph = resolver.graph(model.graph, scope, "main")
    if resolver.errors:
        raise model_error(resolver.errors)
    metadata = {_text(entry.key): _text(entry.value) for entry in model.metadata_props}
    return CheckedModel(graph, model.graph.name, model.ir_version, opsets, tuple(findings), loaded.digest, metadata)


def _text(text: str | bytes) -> str:
    """Free text, which need not be UTF-8."""
    return text.decode(errors="replace") if isinstance(text, bytes) else text


class _Resolver:
    def __init__(self, model: ModelProto, store: TensorStore) -> None:
        self.model = model
        self.store = store
        self.errors: list[Diagnostic] = []
        self.counts: Counter[str] = Counter()
        self.functions: Mapping[FunctionKey, ModelFunction] = {
            function.key: function for function in map(ModelFunction, model.functions)
        }

    @cached_property
    def taken(self) -> set[str]:
        """All names of the main graph and those in it, and the names made since."""
        return set(_all_names(self.model.graph))

    def fresh(self, text: str) -> str:
        """A name like `text` that nothing has."""
        name = text
        while name in self.taken:
            self.counts[text] += 1
            name = f"{text}_{self.counts[text]}"
        self.taken.add(name)
        return name

    # Graphs

    def graph(self, proto: GraphProto, scope: Scope, path: str) -> Graph:
        """A graph, whose names are defined in `scope`."""
        constants = {tensor.name: read_tensor(tensor, self.store) for tensor in proto.initializer}
        constants |= {sparse.values.name: read_sparse_tensor(sparse, self.store) for sparse in proto.sparse_initializer}
        fed = [info for info in proto.input if not self._is_constant(info.name, constants, path)]
        inputs = [(self.define(info.name, scope), info) for info in fed]
        initializers = {scope.names.get(name) or self.define(name, scope): tensor for name, tensor in constants.items()}
        nodes = self.nodes(proto.node, scope, path)
        outputs = [(self._output(info.name, scope, path, nodes), info) for info in proto.output]
        known = [(scope.names[info.name], info) for info in proto.value_info if info.name in scope.names]
        return Graph(
            proto.name,
            tuple(_value_info(name, info, scope.types) for name, info in inputs),
            tuple(_value_info(name, info, scope.types) for name, info in outputs),
            initializers,
            tuple(nodes),
            {name: _value_info(name, info, scope.types) for name, info in known},
            path,
        )

    def _is_constant(self, name: str, constants: Mapping[str, Tensor], path: str) -> bool:
        """Before IR version 4 all initializers are inputs, and those of subgraphs are never fed."""
        return path != "main" and self.model.ir_version < 4 and name in constants

    def define(self, name: str, scope: Scope) -> str:
        """The name in the checked model of a value that is defined here."""
        if not name:
            return ""
        if name in scope.results:
            final = scope.results[name]
        elif scope.label is not None:
            final = self.fresh(f"{scope.label}/{name}")
        else:
            final = self.fresh(name) if scope.is_defined_around(name) else name
        scope.names[name] = final
        return final

    def _output(self, name: str, scope: Scope, path: str, nodes: list[GraphNode]) -> str:
        """What a graph returns under `name`; a value from around the graph is copied, so that it is the graph's own."""
        if name in scope.names:
            return scope.names[name]
        copied = self.fresh(f"{name}_copy")
        nodes.append(_identity(scope.find(name), copied, Site(path, len(nodes), NodeProto(op_type="Identity")), scope))
        return copied

    # Nodes

    def nodes(self, protos: Sequence[NodeProto], scope: Scope, path: str) -> list[GraphNode]:
        """The nodes of a graph or function, calls expanded."""
        nodes: list[GraphNode] = []
        for index, proto in enumerate(protos):
            site = Site(path, index, proto)
            function = self.functions.get(node_key(proto)) if self.functions else None
            if function is not None:
                nodes += self._expand(site, function, scope)
            else:
                nodes.append(self._node(site, scope))
        return nodes

    def _node(self, site: Site, scope: Scope) -> GraphNode:
        proto = site.node
        domain = normal_domain(proto.domain)
        opset = scope.opsets[domain]
        chosen = schema(domain, proto.op_type, opset)
        assert chosen is not None, site
        site = site.of_schema(chosen)
        inputs = [scope.find(name) for name in proto.input]
        attributes = self._attributes(site, chosen, scope)
        if scope.label is not None:
            self._check_expanded(site, chosen, inputs, attributes)
        while len(inputs) > chosen.min_inputs and not inputs[-1]:
            inputs.pop()
        outputs = tuple([self.define(name, scope) for name in proto.output])
        return GraphNode(
            proto.op_type,
            domain,
            chosen.since_version,
            opset,
            tuple(inputs),
            outputs,
            attributes,
            site.location(),
            chosen,
        )

    def _expand(self, site: Site, function: ModelFunction, scope: Scope) -> list[GraphNode]:
        """The nodes that a call stands for."""
        proto, body = site.node, function.proto
        label = proto.name or f"{proto.op_type}_{site.index}"
        wanted = [(formal, name) for formal, name in zip(body.output, proto.output, strict=False) if name]
        computed = {name for node in body.node for name in node.output}
        # What the call is given is looked up before what it defines: here or around, both may have one name.
        inner = scope.call(proto, function, label)
        copies: list[tuple[str, str]] = []
        for formal, name in wanted:
            final = self.define(name, scope)
            if formal in computed and formal not in inner.results:
                inner.results[formal] = final
            else:
                copies.append((formal, final))
        nodes = self.nodes(body.node, inner, site.call_path())
        for formal, final in copies:
            source = inner.find(formal)
            if not source:
                message = f'the call leaves out input "{formal}" of {function}, which is also its output'
                self.errors.append(error("missing-input", message, site.location(), rule="ONNX IR, functions"))
            nodes.append(_identity(source, final, site, inner))
        return nodes

    def _check_expanded(
        self, site: Site, chosen: Schema, inputs: Sequence[str], attributes: Mapping[str, AttributeValue]
    ) -> None:
        """What a call leaves out, the body must be able to do without."""
        for formal, name in zip(chosen.inputs, inputs, strict=False):
            if formal.option == "single" and not name:
                message = f"input {formal.name} is required, and the call of the function leaves it out"
                self.errors.append(error("missing-input", message, site.location(), rule=f"ONNX {chosen.name}, inputs"))
        for known in chosen.attributes.values():
            if known.required and known.name not in attributes:
                message = f"attribute {known.name} is required, and the call of the function leaves it out"
                rule = f"ONNX {chosen.name}, attribute {known.name}"
                self.errors.append(error("missing-attribute", message, site.location(), rule=rule))

    # Attributes

    def _attributes(self, site: Site, chosen: Schema, scope: Scope) -> Mapping[str, AttributeValue]:
        """The attributes that the operator knows: those given, then defaults."""
        values: dict[str, AttributeValue] = {}
        for attribute in site.node.attribute:
            known, binding = chosen.attributes.get(attribute.name), scope.bind(attribute)
            if known is None or binding is None:
                continue
            kind = kind_name(attribute_type(binding.value))
            if kind != known.kind:
                message = (
                    f"attribute {attribute.name} is of type {known.kind}, and the call gives it a value of type {kind}"
                )
                rule = f"ONNX {chosen.name}, attribute {attribute.name}"
                self.errors.append(error("attribute-type", message, site.location(), rule=rule))
                continue
            # A graph that a call hands over is part of its caller, and may be expanded more than once.
            value = self._value(attribute.name, binding.value, binding.scope, scope.label, site)
            is_naming = (chosen.domain, chosen.name, attribute.name) in _NAMING
            values[attribute.name] = _final_names(value, binding.scope) if is_naming else value
        defaults = {name: known.default for name, known in chosen.attributes.items() if known.default is not None}
        return values | {name: default for name, default in defaults.items() if name not in values}

    def _value(
        self,
        name: str,
        proto: AttributeProto,
        scope: Scope,
        label: str | None,
        site: Site,
    ) -> AttributeValue:
        def graph(inside: GraphProto, suffix: str = "") -> Graph:
            return self.graph(inside, scope.inner(label, _own_names(inside)), site.inner_path(name + suffix))

        def type_of(inside: TypeProto) -> AttributeScalar:
            found = scope.types.read(f"{proto.name}", inside)
            if found is None:
                message = f"attribute {proto.name} is a sparse or opaque type, which is not supported"
                self.errors.append(error("unsupported-type", message, site.location(), rule="ONNX IR, TypeProto"))
                return ""
            return found

        match attribute_type(proto):
            case AttributeProto.FLOAT:
                return proto.f
            case AttributeProto.INT:
                return proto.i
            case AttributeProto.STRING:
                return proto.s.decode()
            case AttributeProto.TENSOR:
                return read_tensor(proto.t, self.store)
            case AttributeProto.GRAPH:
                return graph(proto.g)
            case AttributeProto.SPARSE_TENSOR:
                return read_sparse_tensor(proto.sparse_tensor, self.store)
            case AttributeProto.TYPE_PROTO:
                return type_of(proto.tp)
            case AttributeProto.FLOATS:
                return tuple(proto.floats)
            case AttributeProto.INTS:
                return tuple(proto.ints)
            case AttributeProto.STRINGS:
                return tuple([text.decode() for text in proto.strings])
            case AttributeProto.TENSORS:
                return tuple([read_tensor(tensor, self.store) for tensor in proto.tensors])
            case AttributeProto.GRAPHS:
                return tuple([graph(inside, f"[{position}]") for position, inside in enumerate(proto.graphs)])
            case AttributeProto.SPARSE_TENSORS:
                return tuple([read_sparse_tensor(tensor, self.store) for tensor in proto.sparse_tensors])
        return tuple([type_of(inside) for inside in proto.type_protos])


_NAMING = {("ai.onnx.preview.training", "Gradient", name) for name in ("xs", "zs", "y")}
"""Attributes whose texts are names of values: (domain, operator, attribute)."""


def _final_names(value: AttributeValue, scope: Scope) -> AttributeValue:
    """The names in the checked model for those in an attribute; what is defined later has the name that it will get."""
    if isinstance(value, tuple):
        return tuple(_final_name(name, scope) if isinstance(name, str) else name for name in value)
    return _final_name(value, scope) if isinstance(value, str) else value


def _final_name(name: str, scope: Scope) -> str:
    return scope.find(name) or (name if scope.label is None else f"{scope.label}/{name}")


def _value_info(name: str, proto: ValueInfoProto, types: TypeReader) -> ValueInfo:
    return ValueInfo(name, types.read(name, proto.type))


def _identity(source: str, target: str, site: Site, scope: Scope) -> GraphNode:
    """A copy, in the opset of `scope` or the newest."""
    opset = scope.opsets.get("") or newest_opset("")
    assert opset is not None
    chosen = schema("", "Identity", opset)
    assert chosen is not None, opset
    since = chosen.since_version
    return GraphNode("Identity", "", since, opset, (source,), (target,), {}, site.location(), chosen)


def _own_names(graph: GraphProto) -> Iterator[str]:
    """The names that a graph itself defines."""
    yield from (info.name for info in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        yield from node.output


def _all_names(graph: GraphProto) -> Iterator[str]:
    """The names that a graph and those in it define."""
    yield from _own_names(graph)
    for node in graph.node:
        for _, inside in subgraphs(node):
            yield from _all_names(inside)
