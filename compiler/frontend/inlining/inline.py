"""Functions expanded within the messages of a model, which keeps everything else that it carries.

A body is expanded as for compiling (`functions.py`); here its nodes are written back. What a call says of itself goes
on to the nodes that it becomes, where they do not say it themselves: entries of metadata, documentation, device
configurations; behind it comes what the function says. The standard leaves this open.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from onnxc.compiler.diagnostics import Location, error, model_error
from onnxc.compiler.frontend.checks.findings import Site, listed
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.functions import (
    NAMING,
    Binding,
    FunctionKey,
    ModelFunction,
    Scope,
    all_names,
    all_nodes,
    imported_opsets,
    node_key,
    own_names,
    subgraphs,
)
from onnxc.compiler.frontend.inlining.hand_on import hand_on, readable
from onnxc.compiler.frontend.inlining.merge_opsets import Chosen, merge_opsets
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
)
from onnxc.compiler.frontend.schemas import normal_domain, schema
from onnxc.compiler.frontend.size_names import identifier
from onnxc.compiler.frontend.value_types import TypeReader, renamed_size
from onnxc.runtime.errors import InputError, UnsupportedError

__all__ = ["inline_functions", "names_of"]

_RULE = "ONNX IR, functions"

_MESSAGE_BYTES = 2**31 - 1
"""What one protobuf message holds."""

_NESTED_GRAPHS = 31
"""Graphs in graphs that protobuf reads: each is three messages further down, and it stops at a hundred."""


def inline_functions(model: ModelProto, names: Collection[str] | None = None) -> ModelProto:
    """A copy of the model in which the functions of these `names` are expanded wherever they are called; None: all.

    The model must be without errors, so that what it expands to is within the limits. A function is named by its name,
    by its domain and name joined by a dot, or also by its overload after a colon. Functions that are not named stay,
    with calls in their bodies expanded.

    Raises InputError for a name that no function has, ModelError where one message cannot hold the model or a call
    leaves out what its function returns, UnsupportedError where no version of an operator set serves all nodes that
    come together, or a default would be lost.
    """
    inlined = ModelProto()
    inlined.CopyFrom(model)
    chosen = _chosen({function.key: function for function in map(ModelFunction, model.functions)}, names)
    del inlined.functions[:]
    inlined.functions.extend(function for function in model.functions if ModelFunction(function).key in chosen.kept)
    nodes = [node for graph in _outer_graphs(inlined) for node in graph.node]
    merge_opsets(nodes, inlined.opset_import, chosen, "main")
    for function in inlined.functions:
        merge_opsets(function.node, function.opset_import, chosen, ModelFunction(function).path)
    _Inliner(inlined, chosen).expand(inlined)
    return inlined


def _chosen(functions: Mapping[FunctionKey, ModelFunction], names: Collection[str] | None) -> Chosen:
    if names is None:
        return Chosen(functions, ())
    texts = {key: names_of(function) for key, function in functions.items()}
    for name in names:
        if not any(name in known for known in texts.values()):
            listing = listed(functions.values())
            raise InputError(f"there is no function {name!r}; the model has {listing}", code="unknown-function")
    chosen = {key: function for key, function in functions.items() if not texts[key].isdisjoint(names)}
    return Chosen(chosen, functions.keys() - chosen.keys())


def names_of(function: ModelFunction) -> frozenset[str]:
    """The names by which a function may be chosen."""
    return frozenset({function.proto.name, str(function).split(":")[0], str(function)})


def _outer_graphs(model: ModelProto) -> Iterator[GraphProto]:
    """The graphs that are in no other: the main graph and those of training."""
    yield model.graph
    for info in model.training_info:
        yield from (info.initialization, info.algorithm)


class _Inliner:
    """The state of one inlining: what is expanded, the names in use, and how large the model is by now."""

    def __init__(self, model: ModelProto, chosen: Chosen) -> None:
        self.chosen = chosen.functions
        self.values = FreshNames(lambda: _value_names(model))
        self.nodes = FreshNames(lambda: [node.name for nodes in _bodies(model) for node in all_nodes(nodes)])
        self.sizes = FreshNames(lambda: _size_names(model))
        self.bytes = model.ByteSize()
        self.without_default: Collection[str] = ()
        self.depth = -1

    def expand(self, model: ModelProto) -> None:
        """Expands the calls in all graphs of the model, and in the functions that stay."""
        opsets = imported_opsets(model.opset_import)
        main = Scope(opsets, TypeReader())
        self.graph(model.graph, main, "main")
        for ordinal, info in enumerate(model.training_info):
            # The algorithm continues the main graph, the initialization sees nothing of it.
            for name, graph, outer in (
                ("initialization", info.initialization, None),
                ("algorithm", info.algorithm, main),
            ):
                if graph.node:
                    self.graph(graph, Scope(opsets, TypeReader(), outer=outer), f"training_info[{ordinal}].{name}")
        for function in map(ModelFunction, model.functions):
            self.function(function)

    def function(self, function: ModelFunction) -> None:
        """Expands the calls in the body of a function that stays, whose parameters stay parameters."""
        proto, bindings = function.proto, dict[str, Binding]()
        scope = Scope(function.opsets, TypeReader(), bindings=bindings, names={name: name for name in proto.input})
        bindings |= {name: Binding(AttributeProto(ref_attr_name=name), scope) for name in function.parameters}
        self.without_default = proto.attribute
        self.body(proto, scope, function.path)
        self.without_default = ()

    # Graphs

    def graph(self, graph: GraphProto, scope: Scope, path: str) -> None:
        """Expands the calls in a graph, and gives its values the names that they have in `scope`."""
        for info in graph.input:
            info.name = self.define(info.name, scope)
        for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
            tensor.name = scope.names.get(tensor.name) or self.define(tensor.name, scope)
        self.depth += 1
        if self.depth > _NESTED_GRAPHS:
            message = f"with its functions expanded the model has graphs nested more than {_NESTED_GRAPHS} deep"
            raise model_error([error("nesting-too-deep", message, Location(path), rule="protobuf, 100 levels")])
        infos = self.body(graph, scope, path)
        self.depth -= 1
        if scope.label is not None:
            for info in (*graph.output, *graph.value_info):
                info.name = scope.find_or_foresee(info.name)
            for annotation in graph.quantization_annotation:
                annotation.tensor_name = scope.find_or_foresee(annotation.tensor_name)
                for entry in annotation.quant_parameter_tensor_names:
                    entry.value = scope.find_or_foresee(entry.value)
            for info in (*graph.input, *graph.output, *graph.value_info):
                self.rename_sizes(info.type, scope)
        _declare(graph, infos)

    def define(self, name: str, scope: Scope) -> str:
        """The name of a value that is defined here: as it is, or within an expansion a new one."""
        if not name:
            return ""
        final = name
        if name in scope.results:
            final = scope.results[name]
        elif scope.label is not None:
            final = self.values(f"{scope.label}/{name}")
        scope.names[name] = final
        return final

    def rename_sizes(self, type: TypeProto, scope: Scope) -> None:
        """Gives the sizes that a body names, for which each call has others, names of their own."""
        for dim in _named_dims(type) if scope.sizes is not None else ():
            dim.dim_param = renamed_size(dim.dim_param, lambda name: self.size(name, scope))

    def size(self, name: str, scope: Scope) -> str:
        """What a name of a size becomes in this expansion."""
        assert scope.sizes is not None, name
        if name not in scope.sizes:
            scope.sizes[name] = self.sizes(identifier(f"{scope.label}_{name}"))
        return scope.sizes[name]

    # Nodes

    def body(self, container: GraphProto | FunctionProto, scope: Scope, path: str) -> list[ValueInfoProto]:
        """Expands the calls among the nodes of `container`; what the expanded functions declare of their values."""
        before, infos = [*container.node], list[ValueInfoProto]()
        after = self.expanded(before, scope, path, infos)
        if len(after) != len(before) or any(new is not old for new, old in zip(after, before, strict=True)):
            del container.node[:]
            container.node.extend(after)
        if isinstance(container, FunctionProto):
            _declare(container, infos)
        return infos

    def expanded(
        self, protos: Sequence[NodeProto], scope: Scope, path: str, infos: list[ValueInfoProto]
    ) -> list[NodeProto]:
        """The nodes with calls expanded; outside of expansions they are the same messages."""
        nodes: list[NodeProto] = []
        for index, proto in enumerate(protos):
            site = Site(path, index, proto)
            function = self.chosen.get(node_key(proto))
            if function is not None:
                nodes += self.expansion(site, function, scope, infos)
            else:
                nodes.append(self.kept_node(site, scope) if scope.label is None else self.new_node(site, scope))
        return nodes

    def kept_node(self, site: Site, scope: Scope) -> NodeProto:
        """A node outside of expansions, with the calls in its graphs expanded."""
        for label, graph in subgraphs(site.node):
            self.graph(graph, scope.inner(None, own_names(graph)), site.inner_path(label))
        for name in site.node.output:
            self.define(name, scope)
        return site.node

    def new_node(self, site: Site, scope: Scope) -> NodeProto:
        """A node of a body, in the names of the place where it is expanded."""
        proto, node = site.node, NodeProto()
        node.CopyFrom(proto)
        del node.attribute[:]
        node.attribute.extend(self.attributes(site, scope))
        inputs = [scope.find(name) for name in proto.input]
        known = schema(normal_domain(proto.domain), proto.op_type, scope.opsets.get(normal_domain(proto.domain), 0))
        least = 0 if known is None else known.min_inputs
        while len(inputs) > least and not inputs[-1]:
            inputs.pop()
        node.input[:] = inputs
        node.output[:] = [self.define(name, scope) for name in proto.output]
        node.name = self.nodes(f"{scope.label}/{site.call_label()}")
        self.rename_shardings(node, scope)
        return node

    def rename_shardings(self, node: NodeProto, scope: Scope) -> None:
        for configuration in node.device_configurations:
            for spec in configuration.sharding_spec:
                spec.tensor_name = scope.find(spec.tensor_name)
                for shards in (shards for dim in spec.sharded_dim for shards in dim.simple_sharding):
                    if shards.dim_param:
                        shards.dim_param = renamed_size(shards.dim_param, lambda name: self.size(name, scope))
            left = [spec for spec in configuration.sharding_spec if spec.tensor_name]
            del configuration.sharding_spec[:]
            configuration.sharding_spec.extend(left)

    def attributes(self, site: Site, scope: Scope) -> Iterator[AttributeProto]:
        """The attributes of a node of a body, with what the call gives for its parameters."""
        node = site.node
        for attribute in node.attribute:
            binding = scope.bind(attribute)
            if binding is None:
                continue
            made, outer = AttributeProto(), binding.scope
            self.count(binding.value, site)
            made.CopyFrom(binding.value)
            made.name = attribute.name
            if attribute.ref_attr_name:
                made.type = made.type or attribute.type
                made.doc_string = readable(made.doc_string or attribute.doc_string)
            # A graph that a call hands over is part of its caller, and may be expanded more than once.
            if made.HasField("g"):
                self.graph(made.g, outer.inner(scope.label, own_names(made.g)), site.inner_path(made.name))
            for position, graph in enumerate(made.graphs):
                inner = outer.inner(scope.label, own_names(graph))
                self.graph(graph, inner, site.inner_path(f"{made.name}[{position}]"))
            for type in (*([made.tp] if made.HasField("tp") else []), *made.type_protos):
                self.rename_sizes(type, outer)
            if (normal_domain(node.domain), node.op_type, made.name) in NAMING:
                made.strings[:] = [outer.find_or_foresee(name.decode()).encode() for name in made.strings]
                if made.s:
                    made.s = outer.find_or_foresee(made.s.decode()).encode()
            yield made

    def count(self, attribute: AttributeProto, site: Site) -> None:
        """Counts what a copy of an attribute takes; graphs are counted by what is in them."""
        if not attribute.HasField("g") and not attribute.graphs:
            self.bytes += attribute.ByteSize()
        if self.bytes > _MESSAGE_BYTES:
            message = f"with its functions expanded the model takes more than {_MESSAGE_BYTES} bytes in one message"
            raise model_error([error("model-too-large", message, site.location(), rule="protobuf, 2 GiB")])

    # Calls

    def expansion(
        self, site: Site, function: ModelFunction, scope: Scope, infos: list[ValueInfoProto]
    ) -> list[NodeProto]:
        """The nodes that a call stands for."""
        self.expect_defaults(site, function, scope)
        call = scope.call(site.node, function, site.call_label(), self.define)
        nodes = self.expanded(function.proto.node, call.scope, site.call_path(), infos)
        for formal, final in call.copies:
            source = call.scope.find(formal)
            if not source:
                message = f'the call leaves out input "{formal}" of {function}, which is also its output'
                raise model_error([error("missing-input", message, site.location(), rule=_RULE)])
            name = self.nodes(f"{site.call_label()}/{formal}")
            nodes.append(NodeProto(op_type="Identity", name=name, input=[source], output=[final]))
        for node in nodes:
            hand_on(node, site.node, scope.find, function.proto)
        for info in function.proto.value_info:
            final = call.scope.find(info.name)
            if final:
                made = ValueInfoProto()
                made.CopyFrom(info)
                made.name = final
                self.rename_sizes(made.type, call.scope)
                infos.append(made)
        return nodes

    def expect_defaults(self, site: Site, function: ModelFunction, scope: Scope) -> None:
        """Refuses a call that may or may not give an attribute for which its function has a default."""
        for attribute in site.node.attribute:
            binding = scope.bind(attribute)
            if binding is None or attribute.name not in function.defaults:
                continue
            if binding.value.ref_attr_name in self.without_default:
                message = (
                    f"attribute {attribute.name} of {function} has a default, and the call passes on"
                    f" {binding.value.ref_attr_name}, which may be absent: expand the function around it too"
                )
                finding = error("function-default", message, site.location(), rule=_RULE)
                raise UnsupportedError(str(finding), code=finding.code)


def _declare(container: GraphProto | FunctionProto, infos: Iterable[ValueInfoProto]) -> None:
    """Declares the values of expanded nodes, the first time that they are told, and where they are not yet."""
    known = {info.name for info in container.value_info}
    if isinstance(container, GraphProto):
        known |= {info.name for info in (*container.input, *container.output)}
    infos = [*infos]
    defined = {name for node in container.node for name in node.output} if infos else set()
    for info in infos:
        # In a graph, a declaration without a type is illegal.
        if info.name in defined and info.name not in known and info.type.WhichOneof("value"):
            known.add(info.name)
            container.value_info.append(info)


# Names that are taken


def _bodies(model: ModelProto) -> Iterator[Sequence[NodeProto]]:
    yield from (graph.node for graph in _outer_graphs(model))
    yield from (function.node for function in model.functions)


def _value_names(model: ModelProto) -> Iterator[str]:
    for graph in _outer_graphs(model):
        yield from all_names(graph)
    for function in model.functions:
        yield from (*function.input, *(name for node in all_nodes(function.node) for name in node.output))
        yield from (name for graph in _graphs_within(function.node) for name in own_names(graph))


def _graphs_within(nodes: Iterable[NodeProto]) -> Iterator[GraphProto]:
    return (graph for node in all_nodes(nodes) for _, graph in subgraphs(node))


def _size_names(model: ModelProto) -> Iterator[str]:
    graphs = [*_outer_graphs(model), *(graph for nodes in _bodies(model) for graph in _graphs_within(nodes))]
    infos = [info for graph in graphs for info in (*graph.input, *graph.output, *graph.value_info)]
    for info in (*infos, *(info for function in model.functions for info in function.value_info)):
        yield from (dim.dim_param for dim in _named_dims(info.type))


def _named_dims(type: TypeProto) -> Iterator[TensorShapeProto.Dimension]:
    """The axes of the tensors in a type whose sizes are named."""
    match type.WhichOneof("value"):
        case "tensor_type":
            yield from (dim for dim in type.tensor_type.shape.dim if dim.dim_param)
        case "sparse_tensor_type":
            yield from (dim for dim in type.sparse_tensor_type.shape.dim if dim.dim_param)
        case "sequence_type":
            yield from _named_dims(type.sequence_type.elem_type)
        case "optional_type":
            yield from _named_dims(type.optional_type.elem_type)
        case "map_type":
            yield from _named_dims(type.map_type.value_type)
