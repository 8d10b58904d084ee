"""The last part of checking: from messages without errors to a CheckedModel.

Names are resolved, operator versions chosen, attributes read, functions expanded. A name that is defined within a
graph and also around it is replaced, so that afterwards a name means one thing wherever it can be seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from onnxc.compiler.diagnostics import Diagnostic, error, model_error
from onnxc.compiler.frontend.about import about_model, free_text
from onnxc.compiler.frontend.checks.attributes import attribute_type, kind_name
from onnxc.compiler.frontend.checks.findings import Site
from onnxc.compiler.frontend.custom.operators import NO_OPERATORS, CustomOperators
from onnxc.compiler.frontend.devices.annotations import NodeDevices, read_devices
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.functions import (
    NAMING,
    FunctionKey,
    ModelFunction,
    Scope,
    all_names,
    imported_opsets,
    node_key,
    own_names,
)
from onnxc.compiler.frontend.graph import (
    AttributeScalar,
    AttributeValue,
    CheckedModel,
    Graph,
    GraphNode,
    Tensor,
    ValueInfo,
)
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
)
from onnxc.compiler.frontend.schemas import Schema, newest_opset, normal_domain, schema, unknown_schema
from onnxc.compiler.frontend.tensors import TensorStore, read_sparse_tensor, read_tensor
from onnxc.compiler.frontend.value_types import TypeReader


def resolve_model(
    model: ModelProto,
    digest: str,
    store: TensorStore,
    findings: Sequence[Diagnostic],
    operators: CustomOperators = NO_OPERATORS,
) -> CheckedModel:
    """The checked model of messages in which only warnings, `findings`, were found.

    Raises ModelError for what only shows when functions are expanded: an operand or attribute that a call leaves out
    and that the body cannot do without.
    """
    opsets = imported_opsets(model.opset_import) or {"": 1}
    resolver = Resolver(model, store, operators)
    scope = Scope(opsets, TypeReader.of_inputs(model.graph.input), frozenset(own_names(model.graph)))
    graph = resolver.graph(model.graph, scope, "main")
    if resolver.errors:
        raise model_error(resolver.errors)
    metadata = {free_text(entry.key): free_text(entry.value) for entry in model.metadata_props}
    configurations = {entry.name: entry.num_devices for entry in model.configuration}
    about = about_model(model)
    return CheckedModel(
        graph, model.graph.name, model.ir_version, opsets, tuple(findings), digest, metadata, about, configurations
    )


class Resolver:
    """Makes graphs of the messages of one model; `others` are graphs of it beside the main one that are resolved too.

    `errors` is what was found on the way.
    """

    def __init__(
        self, model: ModelProto, store: TensorStore, operators: CustomOperators, others: Sequence[GraphProto] = ()
    ) -> None:
        self.model = model
        self.store = store
        self.operators = operators
        self.errors: list[Diagnostic] = []
        # What functions declare, by the names of the values in expanded calls.
        self.said: dict[str, ValueInfo] = {}
        # All names of these graphs and those in them, and the names made since.
        self.fresh = FreshNames(lambda: chain.from_iterable(map(all_names, (model.graph, *others))))
        self.functions: Mapping[FunctionKey, ModelFunction] = {
            function.key: function for function in map(ModelFunction, model.functions)
        }

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
            {name: self.said[name] for node in nodes for name in node.outputs if name in self.said},
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
            final = self.fresh(name) if scope.is_defined_outside(name) else name
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
        custom, chosen = self.operators.find(domain, proto.op_type, opset), schema(domain, proto.op_type, opset)
        if custom is not None:
            chosen = custom.schema
        chosen = chosen or unknown_schema(domain, proto.op_type, opset)
        site = site.of_schema(chosen)
        inputs = [scope.find(name) for name in proto.input]
        names = dict(zip(proto.input, inputs, strict=True))
        attributes = self._attributes(site, chosen, scope)
        if scope.label is not None:
            self._check_expanded(site, chosen, inputs, attributes)
        while len(inputs) > chosen.min_inputs and not inputs[-1]:
            inputs.pop()
        outputs = tuple([self.define(name, scope) for name in proto.output])
        names.update(zip(proto.output, outputs, strict=True))
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
            custom=custom,
            devices=tuple(read_devices(devices, names) for devices in proto.device_configurations),
        )

    def _expand(self, site: Site, function: ModelFunction, scope: Scope) -> list[GraphNode]:
        """The nodes that a call stands for."""
        expansion = scope.call(site.node, function, site.call_label(), self.define)
        inner = expansion.scope
        nodes = self.nodes(function.proto.node, inner, site.call_path())
        for info in function.proto.value_info:
            if info.name in inner.names:
                name = inner.names[info.name]
                self.said[name] = _value_info(info.name, info, inner.types)
        for formal, final in expansion.copies:
            source = inner.find(formal)
            if not source:
                message = f'the call leaves out input "{formal}" of {function}, which is also its output'
                self.errors.append(error("missing-input", message, site.location(), rule="ONNX IR, functions"))
            nodes.append(_identity(source, final, site, inner))
        names = {name: inner_name for name in site.node.input if (inner_name := scope.find(name))}
        names |= {name: scope.names[name] for name in site.node.output if name}
        said = [read_devices(devices, names) for devices in site.node.device_configurations]
        return [_with_devices(node, said) for node in nodes] if said else nodes

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
            is_naming = (chosen.domain, chosen.name, attribute.name) in NAMING
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
            return self.graph(inside, scope.inner(label, own_names(inside)), site.inner_path(name + suffix))

        def type_of(inside: TypeProto) -> AttributeScalar:
            declared = scope.types.read(f"{proto.name}", inside)
            if declared is None:
                message = f"attribute {proto.name} is an opaque type, or not told in full, which is not supported"
                self.errors.append(error("unsupported-type", message, site.location(), rule="ONNX IR, TypeProto"))
                return ""
            return declared

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


def _final_names(value: AttributeValue, scope: Scope) -> AttributeValue:
    """The names in the checked model for those in an attribute; what is defined later has the name that it will get."""
    if isinstance(value, tuple):
        return tuple(scope.find_or_foresee(name) if isinstance(name, str) else name for name in value)
    return scope.find_or_foresee(value) if isinstance(value, str) else value


def _value_info(name: str, proto: ValueInfoProto, types: TypeReader) -> ValueInfo:
    return ValueInfo(name, types.read(name, proto.type))


def _with_devices(node: GraphNode, call: Sequence[NodeDevices]) -> GraphNode:
    """The node with what the call that it is part of says of configurations that the node does not name."""
    own = {devices.configuration for devices in node.devices}
    values = (*node.inputs, *node.outputs)
    return replace(node, devices=(*node.devices, *(said.of(values) for said in call if said.configuration not in own)))


def _identity(source: str, target: str, site: Site, scope: Scope) -> GraphNode:
    """A copy, in the opset of `scope` or the newest."""
    opset = scope.opsets.get("") or newest_opset("")
    assert opset is not None
    chosen = schema("", "Identity", opset)
    assert chosen is not None, opset
    since = chosen.since_version
    return GraphNode("Identity", "", since, opset, (source,), (target,), {}, site.location(), chosen, is_copy=True)
