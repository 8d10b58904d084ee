"""What options override: the sizes and element types that inputs declare, and what followed from them.

The graph is lowered as it is declared first. What it has there, node by node, tells which constants held sizes that
the options replace, and which declared types say what the graph as declared gives, so that they give way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from onnxc.compiler.diagnostics import Diagnostic, error
from onnxc.compiler.frontend.graph import Graph, GraphNode, ValueInfo
from onnxc.compiler.frontend.input_options import InputOptions
from onnxc.compiler.frontend.lower.attempt import LoweredType
from onnxc.compiler.frontend.lower.declared import contradiction, differ_in_shape
from onnxc.compiler.frontend.lower.inputs import input_type
from onnxc.compiler.frontend.overriding.as_declared import ADVICE, AsDeclared
from onnxc.compiler.frontend.overriding.holding_constants import holding_constants
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Module, walk
from onnxc.compiler.ir.types import ANY_SIZE, ShapedType, Type

__all__ = ["as_declared", "restrictions", "with_free_types", "with_overrides", "without_overrides"]


def _chosen_types(graph: Graph, options: InputOptions) -> Iterator[tuple[ValueInfo, ShapedType, ShapedType]]:
    """The inputs with the types that they declare, and those that they have with the options."""
    for info in graph.inputs:
        chosen = input_type(info, options, Builder())
        if isinstance(info.type, ShapedType) and isinstance(chosen, ShapedType):
            yield info, info.type, chosen


def as_declared(graph: Graph, options: InputOptions) -> AsDeclared | None:
    """An empty record of the graph as declared; None where the options override nothing."""
    sizes: dict[tuple[Dim, Dim], None] = {}
    shown: list[str] = []
    inputs: list[tuple[Sequence[Dim], Sequence[Dim]]] = []
    for info, declared, chosen in _chosen_types(graph, options):
        pairs = zip(declared.shape or (), chosen.shape or (), strict=False)
        changed = [(old, new) for old, new in pairs if isinstance(old, int) and old != new]
        if changed or declared.dtype != chosen.dtype:
            sizes |= dict.fromkeys(changed)
            if declared.shape is not None and chosen.shape is not None:
                inputs.append((declared.shape, chosen.shape))
            shown.append(f'input "{info.name}" : {declared} is overridden by {chosen}')
    if options.floats is not None:
        shown.append(f"all floats are overridden by {options.floats}")
    return AsDeclared(tuple(sizes), tuple(shown), tuple(inputs)) if shown else None


def without_overrides(graph: Graph, options: InputOptions) -> InputOptions:
    """The options without what contradicts the declarations of the inputs."""
    declared = {info.name: info.type for info in graph.inputs}
    shapes = {name: _undisputed(given, declared.get(name)) for name, given in options.shapes.items()}
    return replace(options, shapes=shapes, dtypes={}, floats=None)


def _undisputed(given: Sequence[int | str | None], declared: Type | None) -> Sequence[int | str | None]:
    shape = declared.shape if isinstance(declared, ShapedType) else None
    if shape is None:
        return given
    return tuple(None if isinstance(old, int) else new for old, new in zip(shape, given, strict=True))


def restrictions(module: Module, overridden: Sequence[tuple[Dim, Dim]]) -> Iterator[Diagnostic]:
    """An error for each node that takes but one of the sizes that a symbol in the place of a number may have."""
    symbols = frozenset().union(*(symbols_of(new) for _, new in overridden))
    for function in module.functions:
        for op in walk(function.body):
            if op.name != "guard" or op.text("relation") == "at_least":
                continue
            sides = (op.dim("left"), op.dim("right"))
            names = symbols_of(sides[0]) | symbols_of(sides[1])
            if names and names <= symbols and any(isinstance(side, int) for side in sides):
                message = f"{op.text('message')}: of the sizes {', '.join(sorted(names))} it takes one only; {ADVICE}"
                yield error("overridden-size", message, op.location, (), "onnxc.compile, shapes")


def with_overrides(finding: Diagnostic, before: AsDeclared, graph: Graph) -> Diagnostic:
    """The finding with what is overridden, and with what to do where it may be for an old size that a node holds.

    With the constants about the node that hold one.
    """
    is_size = bool(before.overridden) and finding.code != "overridden-size"
    where = finding.location if is_size else None
    holding = () if where is None else holding_constants(graph, where, before.overridden)
    advice = (f"where a node holds an old size as a number, {ADVICE}",) if is_size else ()
    return replace(finding, values=(*finding.values, *before.shown, *holding, *advice))


# Declared types


def with_free_types(graph: Graph, lowered: Sequence[LoweredType], *, keeps_elements: bool) -> Graph:
    """The graph without the declared sizes that what was found in it as declared agrees with, those of inputs aside.

    Nor with the element types, unless `keeps_elements`. What contradicts the graph as declared stays, to be reported;
    of what gives other element types, only where its own differ as declared.
    """
    types = {(type.path, type.name): type.type for type in lowered}

    def freed(info: ValueInfo) -> ValueInfo:
        known = types.get((path, info.name))
        if info.type is None or (known is None and keeps_elements):
            return info
        if known is None:
            # It is of a branch that is ruled out, and is so again.
            return replace(info, type=None)
        if contradiction(info.type, known) is not None and (keeps_elements or not differ_in_shape(info.type, known)):
            return info
        return replace(info, type=_free_type(info.type) if keeps_elements else None)

    path = graph.path
    return replace(
        graph,
        inputs=graph.inputs if path == "main" else tuple(map(freed, graph.inputs)),
        outputs=tuple(map(freed, graph.outputs)),
        value_infos={name: freed(info) for name, info in graph.value_infos.items()},
        function_infos={},
        nodes=tuple(_with_free_subgraphs(node, lowered, keeps_elements) for node in graph.nodes),
    )


def _with_free_subgraphs(node: GraphNode, lowered: Sequence[LoweredType], keeps_elements: bool) -> GraphNode:
    inner = {
        name: with_free_types(value, lowered, keeps_elements=keeps_elements)
        for name, value in node.attributes.items()
        if isinstance(value, Graph)
    }
    return replace(node, attributes={**node.attributes, **inner}) if inner else node


def _free_type(type: Type) -> Type:
    if isinstance(type, ShapedType) and type.shape is not None:
        return type.with_shape((ANY_SIZE,) * len(type.shape))
    return type
