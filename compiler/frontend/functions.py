"""Functions of a model, and the scopes in which their bodies are expanded.

A call is expanded in place: its formal inputs become names of the caller, its outputs are defined under the names that
the caller gives them, everything else in the body gets a name of its own. Attribute parameters are bound to what the
call gives, else to their default, else to nothing, and an attribute that refers to nothing is absent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property

from onnxc.compiler.frontend.attribute_fields import AttributeType
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    OperatorSetIdProto,
)
from onnxc.compiler.frontend.schemas import normal_domain
from onnxc.compiler.frontend.value_types import TypeReader
from onnxc.compiler.limits import DEFAULT_LIMITS
from onnxc.runtime.records import record

FunctionKey = tuple[str, str, str]


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs among the attributes of a node, each with its label: body, or branches[2] for one of several."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for position, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{position}]", graph


def all_nodes(nodes: Iterable[NodeProto], depth: int = DEFAULT_LIMITS.nesting_depth) -> Iterator[NodeProto]:
    """The nodes, and those of the graphs in them, to `depth` levels."""
    for node in nodes:
        yield node
        for _, graph in subgraphs(node) if depth else ():
            yield from all_nodes(graph.node, depth - 1)


def node_key(node: NodeProto) -> FunctionKey:
    """What a node calls, if there is a function of that identity."""
    return normal_domain(node.domain), node.op_type, node.overload


def imported_opsets(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """The version imported of each domain; where one is imported twice, the last."""
    return {normal_domain(imported.domain): imported.version for imported in imports}


@record
class ModelFunction:
    """A function of a model."""

    proto: FunctionProto

    @property
    def key(self) -> FunctionKey:
        """What identifies it within its model."""
        return normal_domain(self.proto.domain), self.proto.name, self.proto.overload

    def __str__(self) -> str:
        text = f"{self.proto.domain or 'ai.onnx'}.{self.proto.name}"
        return f"{text}:{self.proto.overload}" if self.proto.overload else text

    @property
    def path(self) -> str:
        """The path that places in its body have."""
        return f"function {self}"

    @cached_property
    def opsets(self) -> Mapping[str, int]:
        """The opsets in which its body is written."""
        return imported_opsets(self.proto.opset_import)

    @cached_property
    def defaults(self) -> Mapping[str, AttributeProto]:
        """The attribute parameters that have a default."""
        return {attribute.name: attribute for attribute in self.proto.attribute_proto}

    @cached_property
    def parameters(self) -> Mapping[str, None]:
        """The names of all its attribute parameters, in order."""
        return dict.fromkeys([*self.proto.attribute, *self.defaults])

    @cached_property
    def references(self) -> Mapping[str, AttributeType]:
        """The type of attribute as which its body uses each parameter, where it says one."""
        references: dict[str, AttributeType] = {}
        for node in all_nodes(self.proto.node):
            for attribute in node.attribute:
                if attribute.ref_attr_name and attribute.type:
                    references.setdefault(attribute.ref_attr_name, attribute.type)
        return references


@record
class Binding:
    """What an attribute parameter stands for: a value, and the scope that the names in it belong to."""

    value: AttributeProto
    scope: "Scope"


@record
class Scope:
    """What names mean in one graph, or in one expansion of a function.

    `own` are the names that the graph defines; `label` is put before them, None keeps them as they are. `results` are
    the names that a caller gives to outputs, `names` what is defined so far. `sizes` is what names of sizes become in
    the expansion of a function, as far as they were met; None where they stay as they are.
    """

    opsets: Mapping[str, int]
    types: TypeReader
    own: frozenset[str] = frozenset()
    label: str | None = None
    outer: "Scope | None" = None
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, str] | None = None

    def find(self, name: str) -> str:
        """The name in the checked model of the value `name`; empty where it is left out."""
        scope: Scope | None = self
        while name and scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return ""

    def find_or_foresee(self, name: str) -> str:
        """As `find`; what is defined later has the name that it will get."""
        return self.find(name) or (name if self.label is None else f"{self.label}/{name}")

    def is_defined_outside(self, name: str) -> bool:
        """Whether a graph around this one defines `name`, before or after."""
        scope = self.outer
        while scope is not None and name not in scope.own:
            scope = scope.outer
        return scope is not None

    def inner(self, label: str | None, own: Iterable[str]) -> "Scope":
        """The scope of a graph, with these names of its own, in an attribute of a node here."""
        return Scope(self.opsets, self.types, frozenset(own), label, self, self.bindings, sizes=self.sizes)

    def bind(self, attribute: AttributeProto) -> Binding | None:
        """What an attribute of a node here stands for; None where it refers to a parameter that is absent."""
        if attribute.ref_attr_name:
            return self.bindings.get(attribute.ref_attr_name)
        return Binding(attribute, self)

    def call(self, node: NodeProto, function: ModelFunction, label: str, define: "Define") -> "Expansion":
        """How `function` is expanded for `node`, a call of it here; `define` names what the call defines here."""
        given = {attribute.name: self.bind(attribute) for attribute in node.attribute}
        bindings = {name: binding for name, binding in given.items() if binding is not None}
        formals = dict.fromkeys(function.proto.input, "")
        formals.update(
            (formal, self.find(name)) for formal, name in zip(function.proto.input, node.input, strict=False)
        )
        scope = Scope(function.opsets, TypeReader(local=True), label=label, bindings=bindings, names=formals, sizes={})
        for name, default in function.defaults.items():
            bindings.setdefault(name, Binding(default, scope))
        # What the call is given was looked up before what it defines: here or around, both may have one name.
        computed = {name for inside in function.proto.node for name in inside.output}
        copies: list[tuple[str, str]] = []
        for formal, name in zip(function.proto.output, node.output, strict=False):
            if not name:
                continue
            final = define(name, self)
            if formal in computed and formal not in scope.results:
                scope.results[formal] = final
            else:
                copies.append((formal, final))
        return Expansion(scope, tuple(copies))


Define = Callable[[str, Scope], str]
"""The name of a value that is defined in a scope."""


@record
class Expansion:
    """The scope of the body of a call; `copies` are outputs that the body does not compute, (formal, final)."""

    scope: Scope
    copies: tuple[tuple[str, str], ...]


NAMING = {("ai.onnx.preview.training", "Gradient", name) for name in ("xs", "zs", "y")}
"""Attributes whose texts are names of values: (domain, operator, attribute)."""


def own_names(graph: GraphProto) -> Iterator[str]:
    """The names that a graph itself defines."""
    yield from (info.name for info in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        yield from node.output


def all_names(graph: GraphProto) -> Iterator[str]:
    """The names that a graph and those in it define."""
    yield from own_names(graph)
    for node in graph.node:
        for _, inside in subgraphs(node):
            yield from all_names(inside)
